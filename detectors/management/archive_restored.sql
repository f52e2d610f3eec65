/*
title = "Old objects are brought back from the archive"
domain = "security"
severity = "low"
attack = ["T1530", "T1039"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
pages = false
flags = """
Ten objects or more are restored from an archive tier by one principal in a day, no job named in its session:
medium; fewer: low.
"""
why = """
Old checkpoints lie in the archive; whoever takes them must restore them first, days before the reads.
"""
looks_like = """
Audits, reruns of old work.
"""
misses = """
Restores by an account of a service; archives outside the store.
"""
todo = """
Ask why; watch the restored objects' reads.
"""

[params.many]
default = 10
doc = "restores a day"
*/
SELECT
    concat_ws('|', cluster, principal, bucket, date_trunc('day', ts)) AS subject,
    if(count(*) >= getvariable('many'), 0.4, 0.2) AS score,
    if(count(*) >= getvariable('many'), 'medium', 'low') AS severity,
    min(ts) AS start_ts,
    max(ts) AS end_ts,
    max(ts) AS detected_at,
    count(*)::DOUBLE AS lower,
    count(*)::DOUBLE AS upper,
    [cluster] AS cluster,
    [coalesce(principal, 'unknown')] AS principal,
    if(bucket IS NULL, [], [bucket]) AS bucket,
    coalesce(list_sort(list(DISTINCT ip) FILTER (ip IS NOT NULL)), []) AS ip,
    json_object('quantity', 'restore requests in the UTC day', 'first_targets', list_sort(list(DISTINCT target)) [1:5]) AS evidence
FROM storage_event
WHERE event_class = 'restore' AND error IS NULL AND coalesce(status, 200) < 400 AND job_hint IS NULL
GROUP BY cluster, principal, bucket, date_trunc('day', ts)
