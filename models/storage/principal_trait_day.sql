/*
doc = "From which network, with which client, with which key and for which checkpoint family a principal asked in a day."
grain = ["cluster", "principal", "trait", "value", "day_ts"]
time = "day_ts"

[columns]
cluster = { type = "VARCHAR", doc = "storage_access.cluster" }
principal = { type = "VARCHAR", doc = "storage_access.principal; `unknown` where no log tells" }
trait = { type = "VARCHAR", doc = "network (IPv4 /24, IPv6 /48), client (first word of the User-Agent), key (access key id), family (checkpoint family read) or principal (that it asked at all)" }
value = { type = "VARCHAR", doc = "the trait's value" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
first_ts = { type = "TIMESTAMP", doc = "first request of the day with it" }
request_count = { type = "BIGINT", doc = "requests", unit = "count" }
*/
WITH asked AS (
    SELECT
        cluster, coalesce(principal, 'unknown') AS principal, ts,
        ip, access_key_id,
        lower(nullif(regexp_extract(user_agent, '^[^A-Za-z]*([A-Za-z0-9_.-]+)', 1), '')) AS client
    FROM storage_access
),

traits AS (
    SELECT
        cluster, principal, ts, 'network' AS trait,
        coalesce(
            nullif(regexp_extract(ip, '^(\d+\.\d+\.\d+)\.\d+$', 1), '') || '.0/24',
            nullif(regexp_extract(ip, '^([0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F]*)', 1), '') || '::/48'
        ) AS value
    FROM asked
    UNION ALL
    SELECT cluster, principal, ts, 'client', client FROM asked
    UNION ALL
    SELECT cluster, principal, ts, 'key', access_key_id FROM asked
    UNION ALL
    SELECT cluster, principal, ts, 'principal', principal FROM asked
    UNION ALL
    SELECT cluster, principal, ts, 'family', family FROM weight_read
)

SELECT
    cluster, principal, trait, value,
    date_trunc('day', ts)::TIMESTAMP AS day_ts,
    min(ts) AS first_ts,
    count(*) AS request_count
FROM traits
WHERE value IS NOT NULL
GROUP BY ALL
