/*
title = "A principal reads far more than it used to"
domain = "security"
severity = "low"
attack = ["T1530", "T1020"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
lookback = "28d"
optional = ["manifest_object", "stored_object"]
flags = """
The bytes a principal reads in a day lie 6 robust deviations (median and MAD of log10 bytes of its last 28 days, MAD
at least 0.3) above its own past, a fortnight at least, and amount to 1 GB and 5 % of the smallest checkpoint.
Generic: it supports other evidence and never pages alone.
"""
why = """
A change of habit supports other evidence. Alone it is worth little: on a public archive's daily bytes such a score
fired on 7 to 10 % of days.
"""
looks_like = """
Restarts, evaluation sweeps, roll-outs: everything that jobs do.
"""
misses = """
Steady theft, which the median learns; principals with less than a fortnight of days.
"""
todo = """
Nothing alone.
"""

[params.min_z]
default = 6
doc = "robust deviations"

[params.min_days]
default = 14
doc = "days of the last 28 with reads"

[params.min_bytes]
default = 1000000000
doc = "bytes a day"
*/
WITH smallest AS (
    SELECT cluster, min(checkpoint_bytes) AS checkpoint_bytes
    FROM (SELECT cluster, checkpoint, sum(object_bytes) AS checkpoint_bytes FROM checkpoint_object GROUP BY ALL)
    GROUP BY ALL
),

days AS (
    SELECT cluster, principal, day_ts, sent_bytes, first_ts, last_ts, log10(sent_bytes + 1) AS size
    FROM principal_day
    WHERE sent_bytes > 0
),

past AS (
    SELECT
        *,
        list(size) OVER before AS sizes
    FROM days
    WINDOW before AS (
        PARTITION BY cluster, principal ORDER BY day_ts
        RANGE BETWEEN INTERVAL 28 DAY PRECEDING AND INTERVAL 1 DAY PRECEDING
    )
),

medians AS (SELECT *, list_median(sizes) AS middle FROM past WHERE len(sizes) >= getvariable('min_days')),

scored AS (
    SELECT
        *,
        (size - middle) / (1.4826 * greatest(0.3, list_median(list_transform(sizes, lambda s: abs(s - middle))))) AS z
    FROM medians
)

SELECT
    concat_ws('|', d.cluster, d.principal, d.day_ts) AS subject,
    0.2 AS score,
    d.first_ts AS start_ts,
    d.last_ts AS end_ts,
    d.last_ts AS detected_at,
    d.sent_bytes::DOUBLE AS lower,
    d.sent_bytes::DOUBLE AS upper,
    [d.cluster] AS cluster,
    [d.principal] AS principal,
    json_object(
        'quantity', 'bytes read in the UTC day', 'robust_z', d.z, 'usual_bytes', pow(10, d.middle), 'days', len(d.sizes)
    ) AS evidence
FROM scored d
LEFT JOIN smallest s USING (cluster)
WHERE d.z >= getvariable('min_z')
    AND d.sent_bytes >= greatest(getvariable('min_bytes'), coalesce(0.05 * s.checkpoint_bytes, 0))
