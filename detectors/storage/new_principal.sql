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
WITH read_outside AS (
    SELECT
        cluster, principal, day_ts,

        sum(upper_bytes)::BIGINT AS uncovered_bytes,
        min(first_ts) AS start_ts,
        max(last_ts) AS end_ts,
        list_sort(list(DISTINCT checkpoint)) AS checkpoints,
        list_sort(list(DISTINCT bucket)) AS buckets,
        list_sort(list_distinct(flatten(list(ips)))) [1:20] AS ips
    FROM uncovered_object_day
    GROUP BY ALL
    HAVING uncovered_bytes >= getvariable('min_bytes')
)

SELECT
    concat_ws('|', n.cluster, n.principal, n.trait, n.value, n.day_ts) AS subject,
    0.4 AS score,
    greatest(n.first_ts, r.start_ts) AS start_ts,
    greatest(n.first_ts, r.end_ts) AS end_ts,
    greatest(n.first_ts, r.start_ts) AS detected_at,
    r.uncovered_bytes::DOUBLE AS upper,
    [n.cluster] AS cluster,
    [n.principal] AS principal,
    r.checkpoints AS checkpoint,
    r.buckets AS bucket,
    r.ips AS ip,
    json_object(
        'quantity', 'bytes of checkpoints read that day without a covering job, at most',
        'new', n.trait,
        'value', n.value,
        'days_known', n.known_day_count,
        'others_with_it', n.peer_count,
        'new_for_principals_that_day', n.moved_count
    ) AS evidence
FROM principal_novelty_day n
JOIN read_outside r ON n.cluster = r.cluster AND n.principal = r.principal AND n.day_ts = r.day_ts
WHERE n.trait = 'principal' AND NOT n.is_learning
