/*
doc = "Reading and listing of a folder per hour: bytes, requests, metadata calls and the worst minute of them (a metadata storm)."
grain = ["cluster", "bucket", "folder", "hour_ts"]
time = "hour_ts"

[columns]
cluster = { type = "VARCHAR", doc = "cluster (or account) of the log" }
bucket = { type = "VARCHAR", doc = "bucket, container or file system" }
folder = { type = "VARCHAR", doc = "first two parts of the key; '' for calls on the bucket itself" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
read_bytes = { type = "BIGINT", doc = "bytes sent by reads that tell; NULL: none does", unit = "bytes" }
known_bytes_ratio = { type = "DOUBLE", doc = "share of reads that tell their bytes; NULL: no reads", unit = "ratio" }
throughput_bytes_per_s = { type = "DOUBLE", doc = "read_bytes / 3600 s; NULL: bytes unknown", unit = "bytes/s" }
read_count = { type = "BIGINT", doc = "successful reads", unit = "count" }
metadata_count = { type = "BIGINT", doc = "list and head calls, whatever their answer", unit = "count" }
metadata_ratio = { type = "DOUBLE", doc = "metadata_count / (metadata_count + read_count)", unit = "ratio" }
peak_metadata_per_s = { type = "DOUBLE", doc = "metadata calls a second in the worst minute", unit = "1/s" }
throttled_count = { type = "BIGINT", doc = "calls that the store refused as too many (status 429 or 503)", unit = "count" }
object_count = { type = "BIGINT", doc = "objects read", unit = "count" }
principal_count = { type = "BIGINT", doc = "principals", unit = "count" }
median_read_s = { type = "DOUBLE", doc = "median duration of a read", unit = "s" }
*/
WITH calls AS (
    SELECT
        cluster, bucket, object_key, principal, op_class, status, sent_bytes, total_s,
        array_to_string(list_slice(string_split(object_key, '/')[:-2], 1, 2), '/') AS folder,
        date_trunc('hour', ts)::TIMESTAMP AS hour_ts,
        date_trunc('minute', ts) AS minute_ts,
        op_class IN ('list', 'head') AS is_metadata,
        op_class = 'read'
        AND CASE WHEN status IS NOT NULL THEN status BETWEEN 200 AND 299 AND status <> 204 ELSE error IS NULL END
        AS is_read
    FROM storage_access
    WHERE op_class IN ('read', 'list', 'head')
    QUALIFY row_number() OVER (
        PARTITION BY cluster, bucket, request_id, object_key, op_class
        ORDER BY sent_bytes NULLS LAST, total_s NULLS LAST, source
    ) = 1
),

minutes AS (
    SELECT cluster, bucket, folder, hour_ts, minute_ts, count(*) FILTER (is_metadata) AS metadata_count
    FROM calls
    GROUP BY ALL
),

peaks AS (
    SELECT cluster, bucket, folder, hour_ts, max(metadata_count) / 60 AS peak_metadata_per_s
    FROM minutes
    GROUP BY ALL
)

SELECT
    cluster, bucket, folder, hour_ts,
    sum(sent_bytes) FILTER (is_read)::BIGINT AS read_bytes,
    count(sent_bytes) FILTER (is_read) / nullif(count(*) FILTER (is_read), 0) AS known_bytes_ratio,
    sum(sent_bytes) FILTER (is_read) / 3600 AS throughput_bytes_per_s,
    count(*) FILTER (is_read) AS read_count,
    count(*) FILTER (is_metadata) AS metadata_count,
    count(*) FILTER (is_metadata) / nullif(count(*) FILTER (is_metadata OR is_read), 0) AS metadata_ratio,
    any_value(peak_metadata_per_s) AS peak_metadata_per_s,
    count(*) FILTER (status IN (429, 503)) AS throttled_count,
    count(DISTINCT object_key) FILTER (is_read) AS object_count,
    count(DISTINCT principal) AS principal_count,
    median(total_s) FILTER (is_read) AS median_read_s
FROM calls
JOIN peaks USING (cluster, bucket, folder, hour_ts)
GROUP BY cluster, bucket, folder, hour_ts
