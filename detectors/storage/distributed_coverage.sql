/*
title = "Several principals together read a checkpoint, each a small part"
domain = "security"
severity = "high"
attack = ["T1530", "T1078.004", "AML.T0035", "AML.T0025"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
optional = ["manifest_object", "stored_object"]
flags = """
At least three principals, each with 5 to 20 % of a checkpoint read without a covering job, have together read a
quarter of it within 7 days.
"""
why = """
A thief with several keys stays under every limit that judges one principal. The checkpoint is the same.
"""
looks_like = """
A team that debugs a load together on login nodes; a change of role names in the middle of a week.
"""
misses = """
Two principals; crews of which each reads under 5 %; parts over 20 % (uncovered_coverage and cumulative_coverage
judge those); weeks between the parts; reads inside jobs.
"""
todo = """
See whether the principals share address, key, client or owner. Ask each owner. If nobody can explain it, revoke the
session or key, deny the principal on the prefix, keep the log lines, and look for the same address, key and client
on other checkpoints. Do not kill a training job blindly.
"""

[params.min_ratio]
default = 0.25
doc = "ratio of the checkpoint that they read together"

[params.min_principals]
default = 3
doc = "principals"
*/
SELECT
    concat_ws('|', cluster, checkpoint, day_ts) AS subject,
    least(1.0, upper_ratio) AS score,
    first_ts AS start_ts,
    last_ts AS end_ts,
    last_ts AS detected_at,
    lower_ratio AS lower,
    upper_ratio AS upper,
    [cluster] AS cluster,
    principals AS principal,
    [checkpoint] AS checkpoint,
    buckets AS bucket,
    ips AS ip,
    json_object(
        'quantity', 'share of the checkpoint read without covering jobs by these principals together in 7 days',
        'family', family,
        'checkpoint_bytes', checkpoint_bytes,
        'principals', principal_count,
        'largest_single_ratio', largest_ratio
    ) AS evidence
FROM shared_coverage_day
WHERE principal_count >= getvariable('min_principals')
    AND upper_ratio >= getvariable('min_ratio')
    -- On the day that carries them over it.
    AND (before_ratio < getvariable('min_ratio') OR before_count < getvariable('min_principals'))
