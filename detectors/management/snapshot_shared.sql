/*
title = "A snapshot or an image is shared out"
domain = "security"
severity = "high"
attack = ["T1537", "T1578"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
flags = """
A snapshot, a database snapshot or a machine image is shared with another account (high) or with everybody
(critical).
"""
why = """
The disk of a node holds what the node has read, weights too; sharing moves no byte that a log would show.
"""
looks_like = """
Golden images for other accounts of one's own.
"""
misses = """
Copies and exports within the account; disks of which nobody knows what they hold.
"""
todo = """
Take the share back at once: a copy made meanwhile stays with the other account. Ask which node the disk was of.
"""
*/
SELECT
    concat_ws('|', cluster, event_id, action) AS subject,
    0.9 AS score,
    if(list_contains(coalesce(granted_to, []), '*'), 'critical', 'high') AS severity,
    ts AS start_ts,
    ts AS end_ts,
    ts AS detected_at,
    [cluster] AS cluster,
    [coalesce(principal, 'unknown')] AS principal,
    if(bucket IS NULL, [], [bucket]) AS bucket,
    if(ip IS NULL, [], [ip]) AS ip,
    json_object(
        'action', action, 'target', target, 'granted_to', granted_to, 'session', session, 'source', source
    ) AS evidence
FROM storage_event
WHERE event_class IN ('snapshot_share', 'image_share') AND error IS NULL AND coalesce(status, 200) < 400
    AND (is_cross_account OR len(coalesce(granted_to, [])) > 0)
