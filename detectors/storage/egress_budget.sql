/*
title = "A node sends more outside than its budget"
domain = "security"
severity = "low"
attack = ["T1048", "T1567", "T1020"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
lookback = "28d"
optional = ["manifest_object", "stored_object", "storage_access"]
flags = """
An inside address sends in a day more to outside addresses than 1 % of the smallest checkpoint (1 GB at least), and
five times its median day of the 28 before, a fortnight at least: low, medium from a tenth of the smallest
checkpoint. It supports other evidence.
"""
why = """
Weights are large: a budget in shares of a model a day buys time whatever way they leave.
"""
looks_like = """
A backup to another site; a data set published; a new artefact server.
"""
misses = """
Steady sending that its median knows; several nodes below their budgets; nodes without a fortnight of flows.
"""
todo = """
See where it went; with reads by the same address take it as read_then_send.
"""

[params.budget_ratio]
default = 0.01
doc = "ratio of the smallest checkpoint of 1 GB or more, per node and day"

[params.min_bytes]
default = 1000000000
doc = "bytes a day as well"

[params.times_usual]
default = 5
doc = "times the median day"

[params.min_days]
default = 14
doc = "days of the 28 before with flows"
*/
WITH smallest AS (
    SELECT min(checkpoint_bytes) AS checkpoint_bytes
    FROM (
        SELECT cluster, checkpoint, sum(object_bytes) AS checkpoint_bytes
        FROM checkpoint_object
        GROUP BY ALL
        HAVING sum(object_bytes) >= 1e9
    )
),

days AS (
    SELECT
        cluster, src_ip, date_trunc('day', hour_ts)::TIMESTAMP AS day_ts,
        sum(sent_bytes)::DOUBLE AS sent_bytes,
        min(first_ts) AS start_ts,
        max(last_ts) AS end_ts,
        arg_max(dst_ip, sent_bytes) AS largest_dst,
        count(DISTINCT dst_ip) AS dst_count
    FROM egress_hour
    WHERE sent_bytes IS NOT NULL
    GROUP BY ALL
),

past AS (
    SELECT
        *,
        median(sent_bytes) OVER before AS usual_bytes,
        count(*) OVER before AS known_day_count
    FROM days
    WINDOW before AS (
        PARTITION BY cluster, src_ip ORDER BY day_ts
        RANGE BETWEEN INTERVAL 28 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
    )
)

SELECT
    concat_ws('|', p.cluster, p.src_ip, p.day_ts) AS subject,
    0.3 AS score,
    if(p.sent_bytes >= 0.1 * s.checkpoint_bytes, 'medium', 'low') AS severity,
    p.start_ts, p.end_ts,
    p.end_ts AS detected_at,
    p.sent_bytes AS lower,
    p.sent_bytes AS upper,
    [p.cluster] AS cluster,
    [p.src_ip] AS ip,
    json_object(
        'quantity', 'bytes sent outside in the UTC day', 'usual_bytes', p.usual_bytes, 'destinations', p.dst_count,
        'largest_destination', p.largest_dst
    ) AS evidence
FROM past p
CROSS JOIN smallest s
WHERE p.known_day_count >= getvariable('min_days')
    AND p.sent_bytes >= greatest(getvariable('min_bytes'), getvariable('budget_ratio') * s.checkpoint_bytes)
    AND p.sent_bytes >= getvariable('times_usual') * p.usual_bytes
