/*
doc = "Share of a checkpoint that a principal has read without a covering job over the 7, 28 and 180 days up to each day on which it read, every byte counted once however often it was read. The day's own share is in checkpoint_read_day."
grain = ["cluster", "principal", "checkpoint", "day_ts"]
time = "day_ts"
lookback = "179d"

[columns]
cluster = { type = "VARCHAR", doc = "uncovered_object_day.cluster" }
principal = { type = "VARCHAR", doc = "uncovered_object_day.principal" }
checkpoint = { type = "VARCHAR", doc = "uncovered_object_day.checkpoint" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day, the last of the windows" }
family = { type = "VARCHAR", doc = "family of the checkpoint" }
checkpoint_bytes = { type = "BIGINT", doc = "size of the checkpoint", unit = "bytes" }
lower_7d_ratio = { type = "DOUBLE", doc = "share read in 7 days, at least: per object the largest answer", unit = "ratio" }
upper_7d_ratio = { type = "DOUBLE", doc = "share read in 7 days, at most: per object the sum of days, capped at its size", unit = "ratio" }
lower_28d_ratio = { type = "DOUBLE", doc = "the same over 28 days", unit = "ratio" }
upper_28d_ratio = { type = "DOUBLE", doc = "the same over 28 days", unit = "ratio" }
lower_180d_ratio = { type = "DOUBLE", doc = "the same over 180 days", unit = "ratio" }
upper_180d_ratio = { type = "DOUBLE", doc = "the same over 180 days", unit = "ratio" }
before_7d_ratio = { type = "DOUBLE", doc = "upper_7d_ratio had the principal not read on that day", unit = "ratio" }
before_28d_ratio = { type = "DOUBLE", doc = "upper_28d_ratio had it not read on that day", unit = "ratio" }
before_180d_ratio = { type = "DOUBLE", doc = "upper_180d_ratio had it not read on that day", unit = "ratio" }
read_day_count = { type = "BIGINT", doc = "days of the 180 on which it read", unit = "count" }
object_count = { type = "BIGINT", doc = "objects it read in the 180 days", unit = "count" }
first_ts = { type = "TIMESTAMP", doc = "first read in the 180 days" }
last_ts = { type = "TIMESTAMP", doc = "last read of the day" }
buckets = { type = "VARCHAR[]", doc = "buckets of the 180 days" }
ips = { type = "VARCHAR[]", doc = "addresses of the 180 days, at most 20" }
*/
WITH ends AS (SELECT DISTINCT cluster, principal, checkpoint, day_ts FROM uncovered_object_day),

objects AS (
    SELECT
        e.cluster, e.principal, e.checkpoint, e.day_ts, o.bucket, o.object_key, o.version_id,
        max(o.family) AS family,
        max(o.checkpoint_bytes) AS checkpoint_bytes,
        max(o.object_bytes) AS object_bytes,
        max(o.lower_bytes) FILTER (o.day_ts > e.day_ts - INTERVAL 7 DAY) AS lower_7d,
        max(o.lower_bytes) FILTER (o.day_ts > e.day_ts - INTERVAL 28 DAY) AS lower_28d,
        max(o.lower_bytes) AS lower_180d,
        -- `least` passes over NULL: what was not read must be 0 here.
        coalesce(sum(o.upper_bytes) FILTER (o.day_ts = e.day_ts), 0) AS upper_1d,
        coalesce(sum(o.upper_bytes) FILTER (o.day_ts > e.day_ts - INTERVAL 7 DAY), 0) AS upper_7d,
        coalesce(sum(o.upper_bytes) FILTER (o.day_ts > e.day_ts - INTERVAL 28 DAY), 0) AS upper_28d,
        sum(o.upper_bytes) AS upper_180d,
        min(o.first_ts) AS first_ts,
        max(o.last_ts) AS last_ts,
        list(o.day_ts) AS days,
        flatten(list(o.ips)) AS ips
    FROM ends e
    JOIN uncovered_object_day o
        ON e.cluster = o.cluster AND e.principal = o.principal AND e.checkpoint = o.checkpoint
        AND o.day_ts <= e.day_ts AND o.day_ts > e.day_ts - INTERVAL 180 DAY
    GROUP BY ALL
)

SELECT
    cluster, principal, checkpoint, day_ts,
    min(family) AS family,
    max(checkpoint_bytes) AS checkpoint_bytes,
    coalesce(sum(lower_7d), 0) / max(checkpoint_bytes) AS lower_7d_ratio,
    sum(least(upper_7d, object_bytes)) / max(checkpoint_bytes) AS upper_7d_ratio,
    coalesce(sum(lower_28d), 0) / max(checkpoint_bytes) AS lower_28d_ratio,
    sum(least(upper_28d, object_bytes)) / max(checkpoint_bytes) AS upper_28d_ratio,
    sum(lower_180d) / max(checkpoint_bytes) AS lower_180d_ratio,
    sum(least(upper_180d, object_bytes)) / max(checkpoint_bytes) AS upper_180d_ratio,
    sum(least(upper_7d - upper_1d, object_bytes)) / max(checkpoint_bytes) AS before_7d_ratio,
    sum(least(upper_28d - upper_1d, object_bytes)) / max(checkpoint_bytes) AS before_28d_ratio,
    sum(least(upper_180d - upper_1d, object_bytes)) / max(checkpoint_bytes) AS before_180d_ratio,
    len(list_distinct(flatten(list(days)))) AS read_day_count,
    count(*) AS object_count,
    min(first_ts) AS first_ts,
    max(last_ts) AS last_ts,
    list_sort(list(DISTINCT bucket)) AS buckets,
    list_sort(list_distinct(flatten(list(ips)))) [1:20] AS ips
FROM objects
GROUP BY ALL
