/*
title = "Shards are read one after the other, at an even pace"
domain = "security"
severity = "low"
attack = ["T1020", "T1029", "T1030", "AML.T0035"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
lookback = "27d"
optional = ["manifest_object", "stored_object"]
flags = """
A principal without a covering job reads eight or more shards of a checkpoint of which nine of ten follow each other by
number (upwards or downwards), at an even pace (coefficient of variation of the gaps below 0.3): within a day, or over
five or more days of 28 with the first shard of each day as the pace. Told when it begins and for every further eight
shards.
"""
why = """
Ranks that load a model read its shards side by side. One script that goes through them in order and in its own time is
a copy, and over weeks it is the one habit that shows before much is gone.
"""
looks_like = """
Conversion by hand in one process; a loader on a login node: both read the whole within minutes, a nightly rhythm does
not look like them.
"""
misses = """
Random order, random pauses, several principals or parallel streams; shards without a number in their name; sweeps
inside a job.
"""
todo = """
Take it with the coverage findings of that principal; ask who runs the script.
"""

[params.min_shards]
default = 8
doc = "shards read in order"

[params.min_order_ratio]
default = 0.90
doc = "ratio of the steps from shard to shard that go to the next number"

[params.most_variation]
default = 0.3
doc = "coefficient of variation (standard deviation / mean) of the gaps in time"

[params.min_days]
default = 5
doc = "days with reads from which the first read of each day is a pace"
*/
WITH shards AS (
    SELECT
        o.cluster, o.principal, o.checkpoint, o.day_ts, c.shard,
        min(o.first_ts) AS ts,
        any_value(o.checkpoint_bytes) AS checkpoint_bytes,
        sum(o.upper_bytes) AS upper_bytes,
        list(DISTINCT o.bucket) AS buckets,
        flatten(list(o.ips)) AS ips
    FROM uncovered_object_day o
    JOIN checkpoint_object c USING (cluster, checkpoint, bucket, object_key, version_id)
    WHERE c.shard IS NOT NULL AND c.role = 'weights'
    GROUP BY ALL
),

ends AS (SELECT DISTINCT cluster, principal, checkpoint, day_ts FROM shards),

windows AS (
    SELECT
        e.day_ts AS end_day, s.*,
        s.shard - lag(s.shard) OVER so_far AS step,
        epoch(s.ts) - lag(epoch(s.ts)) OVER same_day AS gap_s,
        row_number() OVER same_day AS place_in_day
    FROM ends e
    JOIN shards s
        ON e.cluster = s.cluster AND e.principal = s.principal AND e.checkpoint = s.checkpoint
        AND s.day_ts <= e.day_ts AND s.day_ts > e.day_ts - INTERVAL 28 DAY
    WINDOW
        so_far AS (PARTITION BY e.cluster, e.principal, e.checkpoint, e.day_ts ORDER BY s.ts, s.shard),
        same_day AS (
            PARTITION BY e.cluster, e.principal, e.checkpoint, e.day_ts, s.day_ts ORDER BY s.ts, s.shard
        )
),

paced AS (
    SELECT
        *,
        if(place_in_day = 1, epoch(ts) - lag(epoch(ts)) OVER firsts, NULL) AS day_gap_s
    FROM windows
    WINDOW firsts AS (
        PARTITION BY cluster, principal, checkpoint, end_day, place_in_day = 1 ORDER BY ts, shard
    )
),

summed AS (
    SELECT
        cluster, principal, checkpoint, end_day AS day_ts,
        count(*) AS shard_count,
        count(*) FILTER (day_ts < end_day) AS shard_count_before,
        count(*) FILTER (day_ts = end_day) AS day_shard_count,
        count(DISTINCT day_ts) AS day_count,
        greatest(count(*) FILTER (step = 1), count(*) FILTER (step = -1)) / nullif(count(step), 0) AS order_ratio,
        greatest(
            count(*) FILTER (step = 1 AND gap_s IS NOT NULL AND day_ts = end_day),
            count(*) FILTER (step = -1 AND gap_s IS NOT NULL AND day_ts = end_day)
        ) / nullif(count(gap_s) FILTER (day_ts = end_day), 0) AS day_order_ratio,
        stddev_pop(gap_s) FILTER (day_ts = end_day) / nullif(avg(gap_s) FILTER (day_ts = end_day), 0) AS day_variation,
        stddev_pop(day_gap_s) / nullif(avg(day_gap_s), 0) AS variation,
        max(checkpoint_bytes) AS checkpoint_bytes,
        sum(upper_bytes) AS upper_bytes,
        min(ts) FILTER (day_ts = end_day) AS day_start_ts,
        min(ts) AS start_ts,
        max(ts) AS end_ts,
        list_sort(list_distinct(flatten(list(buckets)))) AS buckets,
        list_sort(list_distinct(flatten(list(ips)))) [1:20] AS ips
    FROM paced
    GROUP BY ALL
),

judged AS (
    SELECT
        *,
        day_shard_count >= getvariable('min_shards') AND day_order_ratio >= getvariable('min_order_ratio')
        AND day_variation < getvariable('most_variation') AS is_within_day,
        day_count >= getvariable('min_days') AND order_ratio >= getvariable('min_order_ratio')
        AND variation < getvariable('most_variation')
        AND shard_count // getvariable('min_shards') > shard_count_before // getvariable('min_shards') AS is_over_days
    FROM summed
)

SELECT
    concat_ws('|', cluster, principal, checkpoint, day_ts) AS subject,
    0.3 AS score,
    if(is_within_day, day_start_ts, start_ts) AS start_ts,
    end_ts,
    end_ts AS detected_at,
    upper_bytes / checkpoint_bytes AS upper,
    [cluster] AS cluster,
    [principal] AS principal,
    [checkpoint] AS checkpoint,
    buckets AS bucket,
    ips AS ip,
    json_object(
        'quantity', 'share of the checkpoint read without a covering job in 28 days, at most',
        'pace', if(is_within_day, 'within the day', 'over days'),
        'shards', if(is_within_day, day_shard_count, shard_count),
        'in_order_ratio', if(is_within_day, day_order_ratio, order_ratio),
        'gap_variation', if(is_within_day, day_variation, variation),
        'days', day_count
    ) AS evidence
FROM judged
WHERE is_within_day OR is_over_days
