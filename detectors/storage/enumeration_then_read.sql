/*
title = "Listings, then a checkpoint is read"
domain = "security"
severity = "medium"
attack = ["T1619", "T1083", "T1530", "AML.T0035"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
optional = ["manifest_object", "stored_object"]
flags = """
A principal sends three or more list or head calls within ten minutes and afterwards, on the same day, reads 5 % of
a checkpoint and 1 GB without a covering job.
"""
why = """
Somebody who does not know the bucket looks around first; jobs know their paths.
"""
looks_like = """
Sync tools that list and then fetch, run by people on login nodes.
"""
misses = """
Thieves who know the keys, from a manifest or an index file; a listing on the day before.
"""
todo = """
Take it with the coverage findings of that principal and day.
"""

[params.min_calls]
default = 3
doc = "list and head calls within ten minutes"

[params.min_ratio]
default = 0.05
doc = "ratio of the checkpoint read afterwards"

[params.min_bytes]
default = 1000000000
doc = "bytes read afterwards"
*/
WITH calls AS (
    SELECT
        cluster, coalesce(principal, 'unknown') AS principal, ts,
        count(*) OVER (
            PARTITION BY cluster, coalesce(principal, 'unknown') ORDER BY ts
            RANGE BETWEEN INTERVAL 10 MINUTE PRECEDING AND CURRENT ROW
        ) AS call_count
    FROM storage_access
    WHERE op_class IN ('list', 'head')
),

looked AS (
    SELECT
        cluster, principal, date_trunc('day', ts)::TIMESTAMP AS day_ts,
        min(ts) AS looked_ts,
        max(call_count) AS call_count
    FROM calls
    WHERE call_count >= getvariable('min_calls')
    GROUP BY ALL
),

read_after AS (
    SELECT
        l.cluster, l.principal, l.day_ts, o.checkpoint,
        max(o.checkpoint_bytes) AS checkpoint_bytes,
        sum(o.upper_bytes) AS upper_bytes,
        sum(o.lower_bytes) AS lower_bytes,
        min(l.looked_ts) AS looked_ts,
        max(l.call_count) AS call_count,
        max(o.last_ts) AS end_ts,
        list_sort(list(DISTINCT o.bucket)) AS buckets,
        list_sort(list_distinct(flatten(list(o.ips)))) [1:20] AS ips
    FROM looked l
    JOIN uncovered_object_day o USING (cluster, principal, day_ts)
    WHERE o.last_ts >= l.looked_ts
    GROUP BY ALL
)

SELECT
    concat_ws('|', cluster, principal, checkpoint, day_ts) AS subject,
    0.5 AS score,
    looked_ts AS start_ts,
    end_ts,
    end_ts AS detected_at,
    lower_bytes / checkpoint_bytes AS lower,
    upper_bytes / checkpoint_bytes AS upper,
    [cluster] AS cluster,
    [principal] AS principal,
    [checkpoint] AS checkpoint,
    buckets AS bucket,
    ips AS ip,
    json_object(
        'quantity', 'share of the checkpoint read without a covering job that day, listings first',
        'calls_in_ten_minutes', call_count
    ) AS evidence
FROM read_after
WHERE upper_bytes >= greatest(getvariable('min_ratio') * checkpoint_bytes, getvariable('min_bytes'))
