/*
doc = "Objects written in a day: size, writer and time of the last write."
grain = ["cluster", "bucket", "object_key", "day_ts"]
time = "day_ts"

[columns]
cluster = { type = "VARCHAR", doc = "as in storage_access" }
bucket = { type = "VARCHAR", doc = "as in storage_access" }
object_key = { type = "VARCHAR", doc = "as in storage_access" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
version_id = { type = "VARCHAR", doc = "version last written; '' where no log names one" }
object_bytes = { type = "BIGINT", doc = "size as a log of the write gives it, otherwise all bytes received (the parts of an upload); NULL: neither is known", unit = "bytes" }
principal = { type = "VARCHAR", doc = "who wrote last" }
job_hint = { type = "VARCHAR", doc = "job of the last write that names one" }
first_ts = { type = "TIMESTAMP", doc = "first write" }
last_ts = { type = "TIMESTAMP", doc = "last write" }
request_count = { type = "BIGINT", doc = "requests, parts included", unit = "count" }
*/
WITH writes AS (
    SELECT
        *, date_trunc('day', ts)::TIMESTAMP AS day_ts
    FROM storage_access
    WHERE op_class = 'write' AND object_key <> ''
        AND CASE WHEN status IS NOT NULL THEN status BETWEEN 200 AND 299 ELSE error IS NULL END
    QUALIFY row_number() OVER (
        PARTITION BY cluster, bucket, object_key, request_id, operation
        ORDER BY ts
    ) = 1
)

SELECT
    cluster, bucket, object_key, day_ts,
    coalesce(arg_max(version_id, (ts, request_id)) FILTER (version_id <> ''), '') AS version_id,
    coalesce(
        max(object_bytes) FILTER (object_bytes > 0),
        nullif(sum(received_bytes), 0)::BIGINT
    ) AS object_bytes,
    arg_max(principal, (ts, request_id)) AS principal,
    arg_max(job_hint, (ts, request_id)) FILTER (job_hint IS NOT NULL) AS job_hint,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    count(*) AS request_count
FROM writes
GROUP BY ALL
