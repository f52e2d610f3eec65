/*
title = "Many refusals in ten minutes"
domain = "security"
severity = "low"
attack = ["T1580", "T1619", "T1530"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
optional = ["manifest_object", "stored_object", "job_attempt"]
flags = """
A principal is refused five or more different objects or buckets within ten minutes; medium where it reads
checkpoints without a covering job on the same day after that.
"""
why = """
Somebody tries what rights a key has; a right that appears after refusals may have been given for it.
"""
looks_like = """
A new role with wrong rights: usually one pattern of keys, and no success afterwards.
"""
misses = """
Thieves who know their rights; stores that log no refusals.
"""
todo = """
See what was tried and whether rights changed in between (policy events).
"""

[params.min_objects]
default = 5
doc = "different objects or buckets refused within ten minutes"
*/
WITH refused AS (
    SELECT
        cluster, coalesce(principal, 'unknown') AS principal, ts, bucket, object_key, ip,
        date_trunc('day', ts)::TIMESTAMP AS day_ts
    FROM storage_access
    WHERE coalesce(status IN (401, 403), false)
        OR (status IS NULL AND coalesce(regexp_matches(error, '(?i)denied|forbidden|unauthori'), false))
),

bursts AS (
    SELECT
        *,
        -- DISTINCT is no window aggregate: a list of the ten minutes is made instead.
        len(list_distinct(list(concat(bucket, '/', object_key)) OVER (
            PARTITION BY cluster, principal ORDER BY ts RANGE BETWEEN INTERVAL 10 MINUTE PRECEDING AND CURRENT ROW
        ))) AS object_count
    FROM refused
    QUALIFY row_number() OVER (PARTITION BY cluster, principal, day_ts ORDER BY ts, bucket, object_key) <= 10000
),

days AS (
    SELECT
        cluster, principal, day_ts,
        min(ts) FILTER (object_count >= getvariable('min_objects')) AS detected_at,
        min(ts) AS start_ts,
        max(ts) AS end_ts,
        max(object_count) AS object_count,
        count(*) AS refused_count,
        coalesce(list_sort(list(DISTINCT bucket) FILTER (bucket <> '')), []) [1:20] AS buckets,
        coalesce(list_sort(list(DISTINCT ip) FILTER (ip IS NOT NULL)), []) [1:20] AS ips
    FROM bursts
    GROUP BY ALL
    HAVING max(object_count) >= getvariable('min_objects')
),

later AS (
    SELECT d.cluster, d.principal, d.day_ts, list_sort(list(DISTINCT o.checkpoint)) AS checkpoints
    FROM days d
    JOIN uncovered_object_day o USING (cluster, principal, day_ts)
    WHERE o.last_ts > d.detected_at
    GROUP BY ALL
)

SELECT
    concat_ws('|', d.cluster, d.principal, d.day_ts) AS subject,
    if(l.checkpoints IS NULL, 0.2, 0.5) AS score,
    if(l.checkpoints IS NULL, 'low', 'medium') AS severity,
    d.start_ts, d.end_ts, d.detected_at,
    d.object_count::DOUBLE AS lower,
    d.refused_count::DOUBLE AS upper,
    [d.cluster] AS cluster,
    [d.principal] AS principal,
    coalesce(l.checkpoints, []) AS checkpoint,
    d.buckets AS bucket,
    d.ips AS ip,
    json_object(
        'quantity', 'objects refused: different ones in ten minutes (lower), all of the day (upper)',
        'read_afterwards', l.checkpoints IS NOT NULL
    ) AS evidence
FROM days d
LEFT JOIN later l USING (cluster, principal, day_ts)
