/*
doc = "How fast a job wrote and restored checkpoints: bytes and the time from the first request's receipt to the last one's end, per job, checkpoint, direction and day."
grain = ["cluster", "job_id", "checkpoint", "direction", "day_ts"]
time = "day_ts"

[columns]
cluster = { type = "VARCHAR", doc = "cluster (or account) of the log" }
job_id = { type = "VARCHAR", doc = "job that the session claims: storage_access.job_hint" }
checkpoint = { type = "VARCHAR", doc = "checkpoint_object.checkpoint" }
direction = { type = "VARCHAR", doc = "write or restore" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
family = { type = "VARCHAR", doc = "family of the checkpoint" }
step = { type = "BIGINT", doc = "training step of the checkpoint" }
start_ts = { type = "TIMESTAMP", doc = "first request" }
end_ts = { type = "TIMESTAMP", doc = "end of the last request, by its duration where logged" }
span_s = { type = "DOUBLE", doc = "end_ts - start_ts; a pause between two restores counts in", unit = "s" }
moved_bytes = { type = "BIGINT", doc = "bytes sent or received, of requests that tell; NULL: none does", unit = "bytes" }
known_bytes_ratio = { type = "DOUBLE", doc = "share of requests that tell their bytes", unit = "ratio" }
bandwidth_bytes_per_s = { type = "DOUBLE", doc = "moved_bytes / span_s; NULL: span or bytes unknown or 0", unit = "bytes/s" }
request_count = { type = "BIGINT", doc = "requests", unit = "count" }
object_count = { type = "BIGINT", doc = "objects", unit = "count" }
client_count = { type = "BIGINT", doc = "addresses they came from", unit = "count" }
median_request_s = { type = "DOUBLE", doc = "median duration of a request", unit = "s" }
*/
WITH requests AS (
    SELECT
        cluster, bucket, object_key, job_hint AS job_id, ts, total_s, ip,
        if(op_class = 'read', 'restore', 'write') AS direction,
        -- A log of S3 gives the object's size of a write, not the bytes received.
        if(op_class = 'read', sent_bytes, coalesce(received_bytes, object_bytes)) AS moved_bytes
    FROM storage_access
    WHERE op_class IN ('read', 'write') AND job_hint IS NOT NULL
        AND CASE WHEN status IS NOT NULL THEN status BETWEEN 200 AND 299 ELSE error IS NULL END
    QUALIFY row_number() OVER (
        PARTITION BY cluster, bucket, request_id, object_key, op_class
        ORDER BY total_s NULLS LAST, sent_bytes NULLS LAST, source
    ) = 1
),

objects AS (
    SELECT
        cluster, bucket, object_key,
        min(checkpoint) AS checkpoint,
        arg_min(family, checkpoint) AS family,
        arg_min(step, checkpoint) AS step
    FROM checkpoint_object
    GROUP BY ALL
)

SELECT
    r.cluster, r.job_id, o.checkpoint, r.direction,
    date_trunc('day', r.ts)::TIMESTAMP AS day_ts,
    min(o.family) AS family,
    min(o.step) AS step,
    min(r.ts) AS start_ts,
    max(r.ts + to_microseconds((coalesce(r.total_s, 0) * 1e6)::BIGINT)) AS end_ts,
    date_diff('microsecond', start_ts, end_ts) / 1e6 AS span_s,
    sum(r.moved_bytes)::BIGINT AS moved_bytes,
    count(r.moved_bytes) / count(*) AS known_bytes_ratio,
    nullif(sum(r.moved_bytes), 0) / nullif(date_diff('microsecond', start_ts, end_ts) / 1e6, 0) AS bandwidth_bytes_per_s,
    count(*) AS request_count,
    count(DISTINCT (r.bucket, r.object_key)) AS object_count,
    count(DISTINCT r.ip) AS client_count,
    median(r.total_s) AS median_request_s
FROM requests r
JOIN objects o USING (cluster, bucket, object_key)
GROUP BY r.cluster, r.job_id, o.checkpoint, r.direction, date_trunc('day', r.ts)
