/*
doc = "Share of a checkpoint that principals, each with a small part of it, have read together without a covering job in the 7 days up to each day on which one of them read."
grain = ["cluster", "checkpoint", "day_ts"]
time = "day_ts"
lookback = "6d"

[columns]
cluster = { type = "VARCHAR", doc = "uncovered_object_day.cluster" }
checkpoint = { type = "VARCHAR", doc = "uncovered_object_day.checkpoint" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day, the last of the window" }
family = { type = "VARCHAR", doc = "family of the checkpoint" }
checkpoint_bytes = { type = "BIGINT", doc = "size of the checkpoint", unit = "bytes" }
lower_ratio = { type = "DOUBLE", doc = "share they read together, at least: per object the largest answer of any", unit = "ratio" }
upper_ratio = { type = "DOUBLE", doc = "share they read together, at most: per object the sum, capped at its size", unit = "ratio" }
before_ratio = { type = "DOUBLE", doc = "upper_ratio had nobody read on that day, of those who would be counted then", unit = "ratio" }
before_count = { type = "BIGINT", doc = "principals that would be counted then", unit = "count" }
largest_ratio = { type = "DOUBLE", doc = "share of the one that read most", unit = "ratio" }
principal_count = { type = "BIGINT", doc = "principals counted", unit = "count" }
principals = { type = "VARCHAR[]", doc = "their names, at most 50" }
ips = { type = "VARCHAR[]", doc = "their addresses, at most 20" }
buckets = { type = "VARCHAR[]", doc = "buckets they read from" }
first_ts = { type = "TIMESTAMP", doc = "their first read" }
last_ts = { type = "TIMESTAMP", doc = "their last read of the day" }

[params.least_ratio]
default = 0.05
doc = "ratio; a principal that read less is not counted: single shards, of which many people fetch one now and then. Crews of more than 20 are missed"

[params.most_ratio]
default = 0.20
doc = "ratio; a principal that read more is judged alone: the level of cumulative_coverage over 7 days"
*/
WITH ends AS (SELECT DISTINCT cluster, checkpoint, day_ts FROM uncovered_object_day),

window_rows AS (
    SELECT o.* EXCLUDE (day_ts), e.day_ts, o.day_ts = e.day_ts AS is_today
    FROM ends e
    JOIN uncovered_object_day o
        ON e.cluster = o.cluster AND e.checkpoint = o.checkpoint
        AND o.day_ts <= e.day_ts AND o.day_ts > e.day_ts - INTERVAL 7 DAY
),

each_object AS (
    SELECT
        cluster, checkpoint, day_ts, principal, bucket, object_key, version_id,
        max(checkpoint_bytes) AS checkpoint_bytes,
        least(sum(upper_bytes), max(object_bytes)) AS upper_bytes,
        least(coalesce(sum(upper_bytes) FILTER (NOT is_today), 0), max(object_bytes)) AS before_bytes
    FROM window_rows
    GROUP BY ALL
),

small AS (
    SELECT
        cluster, checkpoint, day_ts, principal,
        sum(upper_bytes) / max(checkpoint_bytes) AS ratio,
        sum(before_bytes) / max(checkpoint_bytes) >= getvariable('least_ratio') AS counted_before
    FROM each_object
    GROUP BY ALL
    HAVING ratio BETWEEN getvariable('least_ratio') AND getvariable('most_ratio')
),

objects AS (
    SELECT
        w.cluster, w.checkpoint, w.day_ts, w.bucket, w.object_key, w.version_id,
        min(w.family) AS family,
        max(w.checkpoint_bytes) AS checkpoint_bytes,
        max(w.lower_bytes) AS lower_bytes,
        least(sum(w.upper_bytes), max(w.object_bytes)) AS upper_bytes,
        least(coalesce(sum(w.upper_bytes) FILTER (NOT w.is_today AND s.counted_before), 0), max(w.object_bytes)) AS before_bytes,
        max(s.ratio) AS largest_ratio,
        list(w.principal) AS principals,
        list(w.principal) FILTER (s.counted_before) AS before_principals,
        flatten(list(w.ips)) AS ips,
        min(w.first_ts) AS first_ts,
        max(w.last_ts) AS last_ts
    FROM window_rows w
    JOIN small s USING (cluster, checkpoint, day_ts, principal)
    GROUP BY ALL
)

SELECT
    cluster, checkpoint, day_ts,
    min(family) AS family,
    max(checkpoint_bytes) AS checkpoint_bytes,
    sum(lower_bytes) / max(checkpoint_bytes) AS lower_ratio,
    sum(upper_bytes) / max(checkpoint_bytes) AS upper_ratio,
    sum(before_bytes) / max(checkpoint_bytes) AS before_ratio,
    len(list_distinct(flatten(list(coalesce(before_principals, []))))) AS before_count,
    max(largest_ratio) AS largest_ratio,
    len(list_distinct(flatten(list(principals)))) AS principal_count,
    list_sort(list_distinct(flatten(list(principals)))) [1:50] AS principals,
    list_sort(list_distinct(flatten(list(ips)))) [1:20] AS ips,
    list_sort(list(DISTINCT bucket)) AS buckets,
    min(first_ts) AS first_ts,
    max(last_ts) AS last_ts
FROM objects
GROUP BY ALL
