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
SELECT
    concat_ws('|', cluster, principal, trait, value, day_ts) AS subject,
    0.3 AS score,
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
WHERE trait = 'family' AND NOT is_learning AND uncovered_bytes >= getvariable('min_bytes')
