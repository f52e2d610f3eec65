/*
title = "A checkpoint is read bit by bit without a job that needs it"
domain = "security"
severity = "high"
attack = ["T1530", "T1029", "T1030", "AML.T0035", "AML.T0025"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
optional = ["manifest_object", "stored_object"]
flags = """
On several days one principal has read, with no covering job, a fifth of a checkpoint within 7 days (medium), 35 %
within 28 (high) or 60 % within 180 (critical), and 1 GB. Bytes count once however often they are read; each level
fires on the day that carries the principal over it.
"""
why = """
Theft in small portions stays under any daily limit, and a z-score learns it as normal. A sum with a fixed end, 100
% of the checkpoint, does not dilute.
"""
looks_like = """
People who load a model on a login node now and then; backup or scrubbing outside the scheduler: register them.
"""
misses = """
Reads inside a running job of the same user; slower than 60 % in 180 days; reads over several principals (see
distributed_coverage); objects that nothing lists with a size. The first days of a slow theft, by design.
"""
todo = """
Ask the principal and the checkpoint's owner. If nobody can explain it, revoke the session or key, deny the
principal on the prefix, keep the log lines, and look for the same address, key and client on other checkpoints. Do
not kill a training job blindly.
"""

[params.ratio_7d]
default = 0.20
doc = "ratio within 7 days; proposed for cumulative coverage over 7, 28 and 180 days: 20, 35, 60 %"

[params.ratio_28d]
default = 0.35
doc = "ratio within 28 days"

[params.ratio_180d]
default = 0.60
doc = "ratio within 180 days"

[params.min_bytes]
default = 1000000000
doc = "bytes that must have been read as well"
*/
SELECT
    concat_ws('|', cluster, principal, checkpoint, day_ts) AS subject,
    least(1.0, upper_180d_ratio) AS score,
    CASE
        WHEN upper_180d_ratio >= getvariable('ratio_180d') AND before_180d_ratio < getvariable('ratio_180d') THEN 'critical'
        WHEN upper_28d_ratio >= getvariable('ratio_28d') AND before_28d_ratio < getvariable('ratio_28d') THEN 'high'
        ELSE 'medium'
    END AS severity,
    first_ts AS start_ts,
    last_ts AS end_ts,
    last_ts AS detected_at,
    lower_180d_ratio AS lower,
    upper_180d_ratio AS upper,
    [cluster] AS cluster,
    [principal] AS principal,
    [checkpoint] AS checkpoint,
    buckets AS bucket,
    ips AS ip,
    json_object(
        'quantity', 'share of the checkpoint read without a covering job in 180 days',
        'family', family,
        'checkpoint_bytes', checkpoint_bytes,
        'upper_7d_ratio', upper_7d_ratio,
        'upper_28d_ratio', upper_28d_ratio,
        'days_with_reads', read_day_count,
        'objects_read', object_count
    ) AS evidence
FROM coverage_day
WHERE read_day_count > 1
    AND upper_180d_ratio * checkpoint_bytes >= least(checkpoint_bytes, getvariable('min_bytes'))
    AND (
        (upper_7d_ratio >= getvariable('ratio_7d') AND before_7d_ratio < getvariable('ratio_7d'))
        OR (upper_28d_ratio >= getvariable('ratio_28d') AND before_28d_ratio < getvariable('ratio_28d'))
        OR (upper_180d_ratio >= getvariable('ratio_180d') AND before_180d_ratio < getvariable('ratio_180d'))
    )
