/*
title = "A standing way out for data is set up"
domain = "security"
severity = "high"
attack = ["T1537", "T1020"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
flags = """
Replication, a batch job, a transfer task, an inventory or a notification is set up whose destination belongs to
another account: high; where the log does not tell whose the destination is: medium.
"""
why = """
Once set up, the provider moves the data itself, without reads by anybody.
"""
looks_like = """
Recovery copies; partners; inventories into a logging account.
"""
misses = """
Routes inside one's own account; tools that run on a machine (see read_then_send).
"""
todo = """
Pause the route, see what it has moved, ask who set it up.
"""
*/
SELECT
    concat_ws('|', cluster, event_id, action) AS subject,
    if(is_cross_account, 0.9, 0.4) AS score,
    if(is_cross_account, 'high', 'medium') AS severity,
    ts AS start_ts,
    ts AS end_ts,
    ts AS detected_at,
    [cluster] AS cluster,
    [coalesce(principal, 'unknown')] AS principal,
    if(bucket IS NULL, [], [bucket]) AS bucket,
    if(ip IS NULL, [], [ip]) AS ip,
    json_object(
        'action', action, 'target', target, 'destination', destination, 'session', session, 'source', source
    ) AS evidence
FROM storage_event
WHERE event_class IN ('replication', 'transfer') AND error IS NULL AND coalesce(status, 200) < 400
    AND action NOT LIKE 'Delete%'
    AND (is_cross_account OR (is_cross_account IS NULL AND destination IS NOT NULL))
