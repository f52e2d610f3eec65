/*
title = "Weights are read with a client that is new for the principal"
domain = "security"
severity = "low"
attack = ["T1530", "T1567.002"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
optional = ["manifest_object", "stored_object"]
flags = """
A principal known for a fortnight uses a client program (first word of the User-Agent, without version) for the
first time in 90 days and reads 100 MB of checkpoints on that day without a covering job. Generic: it supports other
evidence and never pages alone.
"""
why = """
Loaders do not change from one day to the next to rclone or a browser for buckets.
"""
looks_like = """
A new tool in a team, three of whom change on one day.
"""
misses = """
A User-Agent is whatever the client says.
"""
todo = """
Look at which client it is; sync and copy tools weigh more.
"""

[params.min_bytes]
default = 100000000
doc = "bytes of checkpoints read that day without a covering job; headers and index files are less"

[params.moved_together]
default = 3
doc = "principals that change to a client on one day: as many are a roll-out"
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
    0.3 AS score,
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
WHERE n.trait = 'client' AND NOT n.is_learning AND n.moved_count < getvariable('moved_together')
