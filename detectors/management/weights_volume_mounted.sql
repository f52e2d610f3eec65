/*
title = "Weights are mounted by somebody new"
domain = "security"
severity = "medium"
attack = ["T1610", "T1611", "T1005"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
lookback = "30d"
flags = """
A pod with a claim, host path or export that looks like weights is made by a principal that made none with that
volume in the 30 days before, while others did, or while a fortnight of the log is known.
"""
why = """
A second pod on the same volume reads the weights without the store.
"""
looks_like = """
A new deployment by a new service account.
"""
misses = """
Volumes whose names say nothing; mounts outside Kubernetes.
"""
todo = """
Ask who made the pod; look at its image and its node's egress.
"""

[params.weights_pattern]
default = "weight|ckpt|checkpoint|model|llm"
doc = "regular expression, case ignored, of volumes, paths and pods that hold weights"

[params.learning_days]
default = 14
doc = "days of the log under which a volume's first maker is not called new"

[needs]
storage_event = "event_class = 'pod_create'"
*/
WITH mounts AS (
    SELECT
        cluster, coalesce(principal, 'unknown') AS principal, ts, event_id, target, images, ip,
        date_trunc('day', ts)::TIMESTAMP AS day_ts,
        unnest(volumes) AS volume
    FROM storage_event
    WHERE event_class = 'pod_create' AND error IS NULL AND coalesce(status, 200) < 400
),

weights AS (
    SELECT
        *,
        lag(day_ts) OVER (PARTITION BY cluster, principal, volume ORDER BY ts, event_id) AS previous_day
    FROM mounts
    WHERE NOT starts_with(volume, 'secret:')
        AND regexp_matches(volume, concat('(?i)', getvariable('weights_pattern')))
),

known AS (
    SELECT w.event_id, w.volume, count(DISTINCT m.principal) AS other_count, count(DISTINCT a.day_ts) AS log_day_count
    FROM weights w
    LEFT JOIN mounts m ON w.cluster = m.cluster AND w.volume = m.volume AND m.principal <> w.principal AND m.ts < w.ts
        AND m.day_ts >= w.day_ts - INTERVAL 30 DAY
    LEFT JOIN (SELECT DISTINCT cluster, day_ts FROM mounts) a
        ON w.cluster = a.cluster AND a.day_ts < w.day_ts AND a.day_ts >= w.day_ts - INTERVAL 30 DAY
    GROUP BY ALL
)

SELECT
    concat_ws('|', w.cluster, w.principal, w.volume, w.day_ts) AS subject,
    0.4 AS score,
    min(w.ts) AS start_ts,
    max(w.ts) AS end_ts,
    min(w.ts) AS detected_at,
    [w.cluster] AS cluster,
    [w.principal] AS principal,
    coalesce(list_sort(list(DISTINCT w.ip) FILTER (w.ip IS NOT NULL)), []) AS ip,
    json_object(
        'volume', w.volume, 'pod', min(w.target), 'images', list_sort(list_distinct(flatten(list(coalesce(w.images, []))))),
        'others_with_it', max(k.other_count)
    ) AS evidence
FROM weights w
JOIN known k USING (event_id, volume)
WHERE (w.previous_day IS NULL OR w.previous_day < w.day_ts - INTERVAL 30 DAY)
    AND (k.other_count > 0 OR k.log_day_count >= getvariable('learning_days'))
GROUP BY w.cluster, w.principal, w.volume, w.day_ts
