/*
title = "Weights are copied to another account"
domain = "security"
severity = "high"
attack = ["T1537", "AML.T0025"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
optional = ["manifest_object", "stored_object", "job_attempt"]
flags = """
A server-side copy of checkpoint objects whose other side belongs to another account: high at the first byte,
critical from a tenth of the checkpoint. Where the log does not name the other side (S3 server access logs) and no
job covers the copy: medium.
"""
why = """
A copy inside the provider never crosses the site's network, runs at the store's speed and leaves no egress.
"""
looks_like = """
Recovery copies to an account of one's own: name it in `own_accounts`. Clean-up that moves old checkpoints.
"""
misses = """
Copies that the store's own replication makes (see data_route); copies of objects that nothing lists.
"""
todo = """
Ask the other account's provider contact at once; deny s3:PutObject outside the organisation; revoke the session.
"""

[params.own_accounts]
default = ""
doc = "account ids, separated by commas, that belong to the site as well"
*/
WITH copies AS (
    SELECT
        *,
        coalesce(is_cross_account, false)
        AND NOT list_contains(string_split(getvariable('own_accounts'), ','), coalesce(copy_account, '')) AS is_foreign
    FROM weight_read
    WHERE op_class = 'copy_read'
)

SELECT
    concat_ws('|', cluster, principal, checkpoint, day_ts) AS subject,
    if(bool_or(is_foreign), 0.9, 0.5) AS score,
    CASE
        WHEN NOT bool_or(is_foreign) THEN 'medium'
        WHEN sum(most_bytes) >= 0.1 * max(checkpoint_bytes) THEN 'critical'
        ELSE 'high'
    END AS severity,
    min(ts) AS start_ts,
    max(ts) AS end_ts,
    min(ts) AS detected_at,
    least(1.0, sum(least_bytes) / max(checkpoint_bytes)) AS lower,
    least(1.0, sum(most_bytes) / max(checkpoint_bytes)) AS upper,
    [cluster] AS cluster,
    [principal] AS principal,
    [checkpoint] AS checkpoint,
    list_sort(list(DISTINCT bucket)) AS bucket,
    coalesce(list_sort(list(DISTINCT ip) FILTER (ip IS NOT NULL)), []) [1:20] AS ip,
    json_object(
        'quantity', 'share of the checkpoint copied in the UTC day',
        'objects', count(DISTINCT object_key),
        'to_accounts', coalesce(list_sort(list(DISTINCT copy_account) FILTER (copy_account IS NOT NULL)), []),
        'to_buckets', coalesce(list_sort(list(DISTINCT copy_bucket) FILTER (copy_bucket IS NOT NULL)), []),
        'covering_jobs', coalesce(list_sort(list(DISTINCT covering_job_id) FILTER (covering_job_id IS NOT NULL)), [])
    ) AS evidence
FROM copies
WHERE is_foreign OR (is_cross_account IS NULL AND covering_job_id IS NULL)
GROUP BY cluster, principal, checkpoint, day_ts
