/*
title = "A log or a detector of others is switched off or narrowed"
domain = "security"
severity = "high"
attack = ["T1562.008", "T1562.001", "T1070"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
flags = """
Calls that stop or delete a trail, a sink, flow logs or a detector (critical), or narrow what is logged (high):
selectors without data events, logging of a bucket without a target, an exclusion, a trail or sink changed, a log
group deleted or kept less than 30 days, a finding archived, a list of trusted addresses added, an audit policy
changed. A try to switch off that failed is high.
"""
why = """
Who wants to take something unseen begins with the watchers.
"""
looks_like = """
Infrastructure code that rebuilds a trail; the end of an account. It stays a finding: it cannot be told apart by its
client, which is freely chosen.
"""
misses = """
Logs that were never on; agents switched off on a machine; storage of the logs filled or deleted (see log_silence).
"""
todo = """
Switch it on again, note the span as unseen, and look at what the same principal did before and after.
"""
*/
WITH changes AS (
    SELECT
        *,
        error IS NULL AND coalesce(status, 200) < 400 AS is_done,
        event_class = 'log_stop'
        OR (event_class = 'network_log' AND regexp_matches(action, '(?i)delete|disassociate'))
        OR (
            event_class = 'detection_config'
            AND regexp_matches(action, '(?i)^(?:Delete|Disable|Stop|Disassociate)')
        ) AS is_off,
        CASE
            WHEN action = 'PutEventSelectors' THEN
                NOT regexp_matches(coalesce(detail, ''), '(?i)AWS::S3::Object|resources\.type')
                OR regexp_matches(coalesce(detail, ''), '(?i)"includeManagementEvents"\s*:\s*false|"readWriteType"\s*:\s*"WriteOnly"')
            WHEN action = 'PutBucketLogging' THEN NOT regexp_matches(coalesce(detail, ''), '(?i)TargetBucket')
            WHEN action = 'PutRetentionPolicy' THEN
                coalesce(try_cast(nullif(regexp_extract(detail, '(?i)"retentionInDays"\s*:\s*"?(\d+)', 1), '') AS INTEGER) < 30, true)
            WHEN action IN ('UpdateTrail', 'UpdateEventDataStore', 'DeleteLogGroup', 'DeleteLogStream', 'DeleteSubscriptionFilter',
                'DeleteDestination', 'UpdateDetector', 'CreateIPSet', 'UpdateIPSet', 'ArchiveFindings',
                'CreateFilter', 'UpdateFilter', 'UpdatePublishingDestination') THEN true
            WHEN event_class = 'log_config' THEN regexp_matches(action, '(?i)UpdateSink|Exclusion|UpdateBucket$|UpdateSettings|DelConfig')
            WHEN event_class = 'lifecycle' THEN
                regexp_matches(coalesce(bucket, target, ''), '(?i)log|trail|audit')
                AND coalesce(try_cast(nullif(regexp_extract(detail, '(?i)"Days"\s*:\s*"?(\d+)', 1), '') AS INTEGER) < 30, false)
            ELSE event_class = 'audit_policy'
        END AS is_narrowed
    FROM storage_event
    WHERE event_class IN (
        'log_stop', 'log_config', 'network_log', 'detection_config', 'audit_policy', 'lifecycle'
    )
        AND NOT coalesce(is_read_only, false)
)

SELECT
    concat_ws('|', cluster, event_id, action) AS subject,
    if(is_off AND is_done, 1.0, 0.8) AS score,
    if(is_off AND is_done, 'critical', 'high') AS severity,
    ts AS start_ts,
    ts AS end_ts,
    ts AS detected_at,
    [cluster] AS cluster,
    [coalesce(principal, 'unknown')] AS principal,
    if(bucket IS NULL, [], [bucket]) AS bucket,
    if(ip IS NULL, [], [ip]) AS ip,
    json_object(
        'action', action, 'class', event_class, 'target', target, 'session', session, 'source', source, 'error', error
    ) AS evidence
FROM changes
WHERE is_off OR (is_narrowed AND is_done)
