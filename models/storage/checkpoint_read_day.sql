/*
doc = "How much of a checkpoint each principal read in a day, apart for reads with and without a job that covers them, each as lower and upper bound."
grain = ["cluster", "principal", "checkpoint", "day_ts"]
time = "day_ts"

[columns]
cluster = { type = "VARCHAR", doc = "weight_read.cluster" }
principal = { type = "VARCHAR", doc = "who read: weight_read.principal" }
checkpoint = { type = "VARCHAR", doc = "weight_read.checkpoint" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
family = { type = "VARCHAR", doc = "family of the checkpoint" }
sensitivity = { type = "VARCHAR", doc = "as the manifest states it" }
checkpoint_bytes = { type = "BIGINT", doc = "size of the checkpoint's objects whose size is known; the others count nowhere", unit = "bytes" }
object_count = { type = "BIGINT", doc = "objects of the checkpoint whose size is known", unit = "count" }
unsized_object_count = { type = "BIGINT", doc = "objects whose size nothing gives", unit = "count" }
read_object_count = { type = "BIGINT", doc = "objects read, with or without a job", unit = "count" }
request_count = { type = "BIGINT", doc = "successful reads", unit = "count" }
uncovered_request_count = { type = "BIGINT", doc = "of these without a covering job", unit = "count" }
unknown_byte_count = { type = "BIGINT", doc = "reads without a covering job whose size the log does not give", unit = "count" }
uncovered_lower_bytes = { type = "BIGINT", doc = "read without a covering job, at least: per object the largest single answer, or the whole object where it was copied at once", unit = "bytes" }
uncovered_upper_bytes = { type = "BIGINT", doc = "read without a covering job, at most: per object the sum of answers, capped at its size; the size where an answer's is unknown", unit = "bytes" }
covered_upper_bytes = { type = "BIGINT", doc = "read under a covering job, at most", unit = "bytes" }
uncovered_lower_ratio = { type = "DOUBLE", doc = "uncovered_lower_bytes / checkpoint_bytes", unit = "ratio" }
uncovered_upper_ratio = { type = "DOUBLE", doc = "uncovered_upper_bytes / checkpoint_bytes", unit = "ratio" }
crossed_ts = { type = "TIMESTAMP", doc = "when the upper bound of uncovered reads passed min_ratio and min_bytes; NULL if it did not" }
crossed_upper_ratio = { type = "DOUBLE", doc = "upper bound at crossed_ts", unit = "ratio" }
first_uncovered_ts = { type = "TIMESTAMP", doc = "first read without a covering job" }
last_uncovered_ts = { type = "TIMESTAMP", doc = "last read without a covering job" }
buckets = { type = "VARCHAR[]", doc = "buckets of the reads without a covering job" }
ips = { type = "VARCHAR[]", doc = "addresses they came from, at most 20" }
user_agents = { type = "VARCHAR[]", doc = "clients they came from, at most 20" }

[params.min_ratio]
default = 0.08
doc = "ratio of the checkpoint at which crossed_ts is set: below the tenth that may be gone at the first alert, as shards of some hundredths each are read whole"

[params.min_bytes]
default = 1000000000
doc = "bytes that must have been read as well, so that a tenth of a tiny model is no alarm; a checkpoint smaller than that must be read whole"
*/
WITH reads AS (SELECT *, covering_job_id IS NULL AS uncovered FROM weight_read),

-- Running upper bound per object, so that the time of crossing is known to the request. Of uncovered reads
-- alone: nearly all are covered, and to order them is most of the work.
running_object AS (
    SELECT
        *,
        least(object_bytes, sum(most_bytes) OVER object_so_far) AS object_upper_bytes
    FROM reads
    WHERE uncovered
    WINDOW object_so_far AS (
        PARTITION BY cluster, principal, checkpoint, day_ts, bucket, object_key, version_id
        ORDER BY ts, request_id ROWS UNBOUNDED PRECEDING
    )
),

steps AS (
    SELECT
        *,
        object_upper_bytes
        - lag(object_upper_bytes, 1, 0) OVER (
            PARTITION BY cluster, principal, checkpoint, day_ts, bucket, object_key, version_id
            ORDER BY ts, request_id
        ) AS gained_bytes
    FROM running_object
),

so_far AS (
    SELECT
        *,
        sum(gained_bytes) OVER (
            PARTITION BY cluster, principal, checkpoint, day_ts
            ORDER BY ts, request_id, bucket, object_key, version_id
            ROWS UNBOUNDED PRECEDING
        ) / checkpoint_bytes AS upper_ratio_so_far
    FROM steps
),

crossings AS (
    SELECT
        cluster, principal, checkpoint, day_ts,
        min(ts) AS crossed_ts,
        arg_min(upper_ratio_so_far, ts) AS crossed_upper_ratio
    FROM so_far
    WHERE upper_ratio_so_far >= greatest(
        getvariable('min_ratio'), least(1.0, getvariable('min_bytes') / checkpoint_bytes)
    )
    GROUP BY ALL
),

objects AS (
    SELECT
        cluster, principal, checkpoint, day_ts, bucket, object_key, version_id,
        any_value(family) AS family,
        any_value(sensitivity) AS sensitivity,
        any_value(checkpoint_bytes) AS checkpoint_bytes,
        any_value(object_count) AS object_count,
        any_value(unsized_object_count) AS unsized_object_count,
        count(*) AS request_count,
        count(*) FILTER (uncovered) AS uncovered_request_count,
        count(*) FILTER (uncovered AND sent_bytes IS NULL) AS unknown_byte_count,
        coalesce(max(least_bytes) FILTER (uncovered), 0) AS uncovered_lower_bytes,
        least(coalesce(sum(most_bytes) FILTER (uncovered), 0), any_value(object_bytes)) AS uncovered_upper_bytes,
        least(coalesce(sum(most_bytes) FILTER (NOT uncovered), 0), any_value(object_bytes)) AS covered_upper_bytes,
        min(ts) FILTER (uncovered) AS first_uncovered_ts,
        max(ts) FILTER (uncovered) AS last_uncovered_ts,
        bool_or(uncovered) AS has_uncovered,
        list(DISTINCT ip) FILTER (uncovered AND ip IS NOT NULL) AS ips,
        list(DISTINCT user_agent) FILTER (uncovered AND user_agent IS NOT NULL) AS user_agents
    FROM reads
    GROUP BY ALL
),

days AS (
    SELECT
        cluster, principal, checkpoint, day_ts,
        any_value(family) AS family,
        any_value(sensitivity) AS sensitivity,
        any_value(checkpoint_bytes)::BIGINT AS checkpoint_bytes,
        any_value(object_count) AS object_count,
        any_value(unsized_object_count) AS unsized_object_count,
        count(*) AS read_object_count,
        sum(request_count)::BIGINT AS request_count,
        sum(uncovered_request_count)::BIGINT AS uncovered_request_count,
        sum(unknown_byte_count)::BIGINT AS unknown_byte_count,
        sum(uncovered_lower_bytes)::BIGINT AS uncovered_lower_bytes,
        sum(uncovered_upper_bytes)::BIGINT AS uncovered_upper_bytes,
        sum(covered_upper_bytes)::BIGINT AS covered_upper_bytes,
        min(first_uncovered_ts) AS first_uncovered_ts,
        max(last_uncovered_ts) AS last_uncovered_ts,
        coalesce(list_sort(list(DISTINCT bucket) FILTER (has_uncovered)), []) AS buckets,
        list_sort(list_distinct(flatten(list(coalesce(ips, []))))) [1:20] AS ips,
        list_sort(list_distinct(flatten(list(coalesce(user_agents, []))))) [1:20] AS user_agents
    FROM objects
    GROUP BY ALL
)

SELECT
    cluster, principal, checkpoint, day_ts, family, sensitivity, checkpoint_bytes, object_count,
    unsized_object_count,
    read_object_count, request_count, uncovered_request_count, unknown_byte_count,
    uncovered_lower_bytes, uncovered_upper_bytes, covered_upper_bytes,
    uncovered_lower_bytes / checkpoint_bytes AS uncovered_lower_ratio,
    uncovered_upper_bytes / checkpoint_bytes AS uncovered_upper_ratio,
    crossed_ts, crossed_upper_ratio, first_uncovered_ts, last_uncovered_ts,
    buckets, ips, user_agents
FROM days
LEFT JOIN crossings USING (cluster, principal, checkpoint, day_ts)
