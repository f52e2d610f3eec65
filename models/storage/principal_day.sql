/*
doc = "What a principal did in storage in a day: bytes, objects, places, clients, hours, refusals, listings."
grain = ["cluster", "principal", "day_ts"]
time = "day_ts"

[columns]
cluster = { type = "VARCHAR", doc = "storage_access.cluster" }
principal = { type = "VARCHAR", doc = "storage_access.principal; `unknown` where no log tells" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
request_count = { type = "BIGINT", doc = "requests, refused ones too", unit = "count" }
read_count = { type = "BIGINT", doc = "successful reads", unit = "count" }
sent_bytes = { type = "BIGINT", doc = "bytes sent by reads that tell; NULL: none does", unit = "bytes" }
known_bytes_ratio = { type = "DOUBLE", doc = "share of reads that tell their bytes; NULL: no reads", unit = "ratio" }
object_count = { type = "BIGINT", doc = "objects read", unit = "count" }
bucket_count = { type = "BIGINT", doc = "buckets asked for", unit = "count" }
list_count = { type = "BIGINT", doc = "list and head calls", unit = "count" }
delete_count = { type = "BIGINT", doc = "successful deletes", unit = "count" }
denied_count = { type = "BIGINT", doc = "requests refused for lack of rights (401, 403, or an error that says so)", unit = "count" }
denied_object_count = { type = "BIGINT", doc = "objects and buckets refused", unit = "count" }
ip_count = { type = "BIGINT", doc = "addresses", unit = "count" }
network_count = { type = "BIGINT", doc = "networks: IPv4 /24, IPv6 /48", unit = "count" }
client_count = { type = "BIGINT", doc = "clients: first word of the User-Agent", unit = "count" }
hour_count = { type = "BIGINT", doc = "hours of the day with a request", unit = "count" }
hours = { type = "INTEGER[]", doc = "these hours, 0 to 23 in UTC" }
first_ts = { type = "TIMESTAMP", doc = "first request" }
last_ts = { type = "TIMESTAMP", doc = "last request" }
*/
WITH asked AS (
    SELECT
        *,
        coalesce(principal, 'unknown') AS who,
        CASE WHEN status IS NOT NULL THEN status BETWEEN 200 AND 299 ELSE error IS NULL END AS is_done,
        coalesce(status IN (401, 403), false)
        OR (status IS NULL AND coalesce(regexp_matches(error, '(?i)denied|forbidden|unauthori'), false)) AS is_denied
    FROM storage_access
    QUALIFY row_number() OVER (
        PARTITION BY cluster, bucket, request_id, operation, object_key
        ORDER BY sent_bytes NULLS LAST, source, ts
    ) = 1
)

SELECT
    cluster,
    who AS principal,
    date_trunc('day', ts)::TIMESTAMP AS day_ts,
    count(*) AS request_count,
    count(*) FILTER (op_class = 'read' AND is_done) AS read_count,
    sum(sent_bytes) FILTER (op_class = 'read' AND is_done)::BIGINT AS sent_bytes,
    count(sent_bytes) FILTER (op_class = 'read' AND is_done)
    / nullif(count(*) FILTER (op_class = 'read' AND is_done), 0) AS known_bytes_ratio,
    count(DISTINCT (bucket, object_key)) FILTER (op_class = 'read' AND is_done) AS object_count,
    count(DISTINCT bucket) AS bucket_count,
    count(*) FILTER (op_class IN ('list', 'head')) AS list_count,
    count(*) FILTER (op_class = 'delete' AND is_done) AS delete_count,
    count(*) FILTER (is_denied) AS denied_count,
    count(DISTINCT (bucket, object_key)) FILTER (is_denied) AS denied_object_count,
    count(DISTINCT ip) AS ip_count,
    count(DISTINCT coalesce(
        nullif(regexp_extract(ip, '^(\d+\.\d+\.\d+)\.\d+$', 1), ''),
        regexp_extract(ip, '^([0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F]*)', 1)
    )) AS network_count,
    count(DISTINCT regexp_extract(user_agent, '^[^A-Za-z]*([A-Za-z0-9_.-]+)', 1)) AS client_count,
    count(DISTINCT date_trunc('hour', ts)) AS hour_count,
    list_sort(list(DISTINCT hour(ts)::INTEGER)) AS hours,
    min(ts) AS first_ts,
    max(ts) AS last_ts
FROM asked
GROUP BY ALL
