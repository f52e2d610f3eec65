/*
title = "A principal never seen before reads weights"
domain = "security"
severity = "medium"
attack = ["T1078.004", "T1136", "T1530"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
optional = ["manifest_object", "stored_object"]
flags = """
A principal of whom the logs of the last 90 days, a fortnight at least, hold nothing reads 100 MB of checkpoints on
its first day, without a covering job.
"""
why = """
Fresh keys and roles are made for theft because nobody watches them yet.
"""
looks_like = """
New people and new services: most of them begin with a job.
"""
misses = """
Principals that were used for something harmless before.
"""
todo = """
See who made the principal and for what (key_created, policy events in storage_event).
"""

[params.min_bytes]
default = 100000000
doc = "bytes of checkpoints read that day without a covering job; headers and index files are less"
*/
SELECT
    concat_ws('|', cluster, principal, trait, value, day_ts) AS subject,
    0.4 AS score,
    greatest(first_ts, read_start_ts) AS start_ts,
    greatest(first_ts, read_end_ts) AS end_ts,
    greatest(first_ts, read_start_ts) AS detected_at,
    uncovered_bytes::DOUBLE AS upper,
    [cluster] AS cluster,
    [principal] AS principal,
    checkpoints AS checkpoint,
    buckets AS bucket,
    ips AS ip,
    json_object(
        'quantity', 'bytes of checkpoints read that day without a covering job, at most',
        'new', trait,
        'value', value,
        'days_known', known_day_count,
        'others_with_it', peer_count,
        'new_for_principals_that_day', moved_count
    ) AS evidence
FROM novel_read_day
WHERE trait = 'principal' AND NOT is_learning AND uncovered_bytes >= getvariable('min_bytes')
