/*
title = "Weights are read from a network that is new for the principal"
domain = "security"
severity = "low"
attack = ["T1078.004", "T1530"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
optional = ["manifest_object", "stored_object"]
flags = """
A principal known for a fortnight uses a network (IPv4 /24, IPv6 /48) for the first time in 90 days and reads 100 MB
of checkpoints on that day without a covering job. Generic: it supports other evidence and never pages alone.
"""
why = """
Stolen keys are used from elsewhere.
"""
looks_like = """
Travel, VPN; a change of NAT, which is told apart when three or more principals move to the same network on one day.
"""
misses = """
Thieves inside the usual network; three stolen keys used from one new place on the same day look like a change of
NAT.
"""
todo = """
See whose network it is and whether the principal's other keys moved as well.
"""

[params.min_bytes]
default = 100000000
doc = "bytes of checkpoints read that day without a covering job; headers and index files are less"

[params.moved_together]
default = 3
doc = "principals that move to a network on one day: as many are a change of NAT or VPN"
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
WHERE trait = 'network' AND NOT is_learning AND moved_count < getvariable('moved_together') AND uncovered_bytes >= getvariable('min_bytes')
