/*
title = "Somebody outside is given access to storage"
domain = "security"
severity = "high"
attack = ["T1537", "T1098", "T1098.003"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
flags = """
A successful call that changes a policy, an access control list, a key's or share's grants or a public access block
so that another account gains, everybody does (critical), or the block on public access is lifted. Policies are
parsed, not searched.
"""
why = """
A grant opens the way before any byte moves, and outlives the session that made it.
"""
looks_like = """
Changes by infrastructure code: the same finding, with the pipeline's principal; partners one has agreed with.
"""
misses = """
Grants inside one's own account; services whose logs are not read; policies larger than the log keeps.
"""
todo = """
Take the grant back, then read what was fetched since it was made.
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
WHERE error IS NULL AND coalesce(status, 200) < 400
    AND (
        (
            event_class IN ('policy', 'grant')
            AND (is_cross_account OR list_contains(coalesce(granted_to, []), '*'))
        )
        OR (
            event_class = 'public_access'
            AND (
                action LIKE 'Delete%' OR action LIKE 'Disable%' OR is_cross_account
                OR regexp_matches(
                    coalesce(detail, ''),
                    '(?i)"(?:BlockPublicAcls|IgnorePublicAcls|BlockPublicPolicy|RestrictPublicBuckets)"\s*:\s*"?false'
                )
            )
        )
    )
