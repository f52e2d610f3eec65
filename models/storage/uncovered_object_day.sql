/*
doc = "Bytes of each object of a checkpoint that a principal read in a day without a covering job: what coverage over weeks is added up from. One row per object, whatever the number of requests; reads under a job leave none, so the state stays small."
grain = ["cluster", "principal", "checkpoint", "bucket", "object_key", "version_id", "day_ts"]
time = "day_ts"

[columns]
cluster = { type = "VARCHAR", doc = "weight_read.cluster" }
principal = { type = "VARCHAR", doc = "weight_read.principal" }
checkpoint = { type = "VARCHAR", doc = "weight_read.checkpoint" }
bucket = { type = "VARCHAR", doc = "bucket of the object" }
object_key = { type = "VARCHAR", doc = "key of the object" }
version_id = { type = "VARCHAR", doc = "version of the object that the checkpoint lists" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
family = { type = "VARCHAR", doc = "family of the checkpoint" }
object_bytes = { type = "BIGINT", doc = "size of the object", unit = "bytes" }
checkpoint_bytes = { type = "BIGINT", doc = "size of the checkpoint", unit = "bytes" }
lower_bytes = { type = "BIGINT", doc = "taken at least: the largest single answer", unit = "bytes" }
upper_bytes = { type = "BIGINT", doc = "taken at most: the sum of answers, capped at the object's size", unit = "bytes" }
request_count = { type = "BIGINT", doc = "reads", unit = "count" }
first_ts = { type = "TIMESTAMP", doc = "first read" }
last_ts = { type = "TIMESTAMP", doc = "last read" }
ips = { type = "VARCHAR[]", doc = "addresses, at most 5" }
*/
SELECT
    cluster, principal, checkpoint, bucket, object_key, version_id, day_ts,
    min(family) AS family,
    max(object_bytes) AS object_bytes,
    max(checkpoint_bytes) AS checkpoint_bytes,
    max(least_bytes) AS lower_bytes,
    least(sum(most_bytes), max(object_bytes))::BIGINT AS upper_bytes,
    count(*) AS request_count,
    min(ts) AS first_ts,
    max(ts) AS last_ts,
    coalesce(list_sort(list(DISTINCT ip) FILTER (ip IS NOT NULL)), []) [1:5] AS ips
FROM weight_read
WHERE covering_job_id IS NULL
GROUP BY ALL
