/*
title = "A decoy checkpoint is read"
domain = "security"
severity = "critical"
attack = ["T1530", "T1083", "AML.T0035"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
optional = ["stored_object", "job_attempt"]
flags = """
Any read or copy of an object of a checkpoint whose manifest entry has the sensitivity `canary`.
"""
why = """
Nobody and no job needs the decoy, so nothing that reads it is innocent by its work.
"""
looks_like = """
Backup, scrubbing and scanners that walk over every object: name them in `allowed_principals`, and read the decoy
monthly as a test.
"""
misses = """
Thieves who know which one it is. Listing it leaves no finding.
"""
todo = """
Take it as real until shown otherwise: revoke the session or key, deny the principal on the prefix, keep the log
lines, and look for the same address, key and client on other checkpoints. Do not kill a training job blindly.
"""

[params.allowed_principals]
default = ""
doc = "principals, separated by commas, that read every object for their work, or the decoy for a test"
*/
SELECT
    concat_ws('|', cluster, principal, checkpoint, day_ts) AS subject,
    1.0 AS score,
    min(ts) AS start_ts,
    max(ts) AS end_ts,
    min(ts) AS detected_at,
    [cluster] AS cluster,
    [principal] AS principal,
    [checkpoint] AS checkpoint,
    list_sort(list(DISTINCT bucket)) AS bucket,
    coalesce(list_sort(list(DISTINCT ip) FILTER (ip IS NOT NULL)), []) [1:20] AS ip,
    json_object('reads', count(*), 'objects', count(DISTINCT object_key)) AS evidence
FROM weight_read
WHERE lower(sensitivity) = 'canary'
    AND NOT list_contains(string_split(getvariable('allowed_principals'), ','), principal)
GROUP BY cluster, principal, checkpoint, day_ts
