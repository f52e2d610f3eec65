/*
title = "A principal reads a model family it never read before"
domain = "security"
severity = "low"
attack = ["T1530", "T1078.004", "AML.T0035"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
optional = ["manifest_object", "stored_object"]
flags = """
First read in 90 days of a model family by a principal known for a fortnight or more, with 100 MB and no covering
job. Generic: it supports other evidence and never pages alone.
"""
why = """
Most people read the same few families; a first read outside any job is rare, and comes before theft.
"""
looks_like = """
New projects, new members of a team.
"""
misses = """
Families the principal reads for its work; everybody's first fortnight (learning); reads inside jobs.
"""
todo = """
Look at the score of the principal; ask only if other evidence is there.
"""

[params.min_bytes]
default = 100000000
doc = "bytes of checkpoints read that day without a covering job; headers and index files are less"
*/
WITH read_outside AS (
    SELECT
        cluster, principal, day_ts,
        family,
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
JOIN read_outside r ON n.cluster = r.cluster AND n.principal = r.principal AND n.day_ts = r.day_ts AND n.value = r.family
WHERE n.trait = 'family' AND NOT n.is_learning
