/*
title = "A checkpoint, or its index, is deleted outside any job"
domain = "security"
severity = "medium"
attack = ["T1485", "T1070"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
lookback = "7d"
optional = ["manifest_object", "stored_object", "job_attempt"]
flags = """
Half of a checkpoint's objects, or its index, are deleted in a day by a principal whose session names no job:
medium, high where the same principal read a tenth of that checkpoint without a covering job within 7 days.
"""
why = """
Deleting hides what was taken and hurts the owner; without its index a set of shards is harder to know as a model.
"""
looks_like = """
Retention by hand; a service that prunes old steps: name it in `allowed_principals`.
"""
misses = """
Deletes by the store's lifecycle, which leave no principal; overwriting.
"""
todo = """
Stop further deletes (deny, object lock), restore versions, then ask.
"""

[params.min_ratio]
default = 0.50
doc = "ratio of the checkpoint's objects"

[params.allowed_principals]
default = ""
doc = "principals, separated by commas, that prune checkpoints for their work"
*/
WITH objects AS (
    SELECT
        cluster, bucket, object_key,
        min(checkpoint) AS checkpoint,
        bool_or(role = 'index') AS is_index,
        any_value(checkpoint_object_count) AS object_count
    FROM (
        SELECT *, count(*) OVER (PARTITION BY cluster, checkpoint) AS checkpoint_object_count
        FROM checkpoint_object
    )
    GROUP BY cluster, bucket, object_key
),

gone AS (
    SELECT
        a.cluster, coalesce(a.principal, 'unknown') AS principal, o.checkpoint,
        date_trunc('day', a.ts)::TIMESTAMP AS day_ts,
        count(DISTINCT (a.bucket, a.object_key)) AS deleted_count,
        max(o.object_count) AS object_count,
        bool_or(o.is_index) AS has_index,
        min(a.ts) AS start_ts,
        max(a.ts) AS end_ts,
        list_sort(list(DISTINCT a.bucket)) AS buckets,
        coalesce(list_sort(list(DISTINCT a.ip) FILTER (a.ip IS NOT NULL)), []) [1:20] AS ips
    FROM storage_access a
    JOIN objects o USING (cluster, bucket, object_key)
    WHERE a.op_class = 'delete' AND a.job_hint IS NULL
        AND CASE WHEN a.status IS NOT NULL THEN a.status BETWEEN 200 AND 299 ELSE a.error IS NULL END
        AND NOT list_contains(string_split(getvariable('allowed_principals'), ','), coalesce(a.principal, 'unknown'))
    GROUP BY ALL
),

readers AS (
    SELECT g.cluster, g.principal, g.checkpoint, g.day_ts, max(c.upper_7d_ratio) AS read_ratio
    FROM gone g
    JOIN coverage_day c USING (cluster, principal, checkpoint)
    WHERE c.day_ts <= g.day_ts AND c.day_ts >= g.day_ts - INTERVAL 7 DAY
    GROUP BY ALL
)

SELECT
    concat_ws('|', g.cluster, g.principal, g.checkpoint, g.day_ts) AS subject,
    0.5 AS score,
    if(coalesce(r.read_ratio, 0) >= 0.1, 'high', 'medium') AS severity,
    g.start_ts, g.end_ts,
    g.end_ts AS detected_at,
    g.deleted_count / g.object_count AS lower,
    g.deleted_count / g.object_count AS upper,
    [g.cluster] AS cluster,
    [g.principal] AS principal,
    [g.checkpoint] AS checkpoint,
    g.buckets AS bucket,
    g.ips AS ip,
    json_object(
        'quantity', 'share of the objects deleted in the UTC day',
        'objects_deleted', g.deleted_count,
        'index_deleted', g.has_index,
        'share_read_before', r.read_ratio
    ) AS evidence
FROM gone g
LEFT JOIN readers r USING (cluster, principal, checkpoint, day_ts)
WHERE g.has_index OR g.deleted_count >= getvariable('min_ratio') * g.object_count
