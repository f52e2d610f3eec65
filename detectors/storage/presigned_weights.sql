/*
title = "Weights are fetched with a signed URL"
domain = "security"
severity = "medium"
attack = ["T1567", "T1098.001", "T1530", "AML.T0025"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
optional = ["manifest_object", "stored_object", "job_attempt"]
flags = """
Objects of a checkpoint are fetched through a presigned URL or a SAS token without a covering job, 100 MB or more a
day: medium; high where one signature is used from more than one network.
"""
why = """
A signed URL carries somebody's rights to whoever holds it; the fetch needs no key and shows the signer as
requester.
"""
looks_like = """
Model hubs that answer with signed URLs: name their signers in `allowed_signers`.
"""
misses = """
Stores whose logs do not tell how a request was signed; fetches below 100 MB a day.
"""
todo = """
Rotate the key that signed (a signature lives as long as the key), find who made the URL, block the address.
"""

[params.min_bytes]
default = 100000000
doc = "bytes of checkpoints read that day without a covering job; headers and index files are less"

[params.allowed_signers]
default = ""
doc = "principals, separated by commas, that sign URLs for their work (a model hub)"
*/
WITH fetched AS (
    SELECT
        cluster, principal, checkpoint, day_ts, ts, bucket, ip, object_key, most_bytes, least_bytes, checkpoint_bytes,
        coalesce(token_hash, request_id) AS signature,
        coalesce(
            nullif(regexp_extract(ip, '^(\d+\.\d+\.\d+)\.\d+$', 1), ''),
            regexp_extract(ip, '^([0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F]*)', 1)
        ) AS network
    FROM weight_read
    WHERE auth_method = 'presigned' AND covering_job_id IS NULL
        AND NOT list_contains(string_split(getvariable('allowed_signers'), ','), principal)
),

signatures AS (
    SELECT cluster, principal, checkpoint, day_ts, signature, count(DISTINCT network) AS network_count
    FROM fetched
    GROUP BY ALL
),

spread AS (
    SELECT cluster, principal, checkpoint, day_ts, count(*) AS signature_count, max(network_count) AS network_count
    FROM signatures
    GROUP BY ALL
)

SELECT
    concat_ws('|', f.cluster, f.principal, f.checkpoint, f.day_ts) AS subject,
    0.6 AS score,
    if(any_value(s.network_count) > 1, 'high', 'medium') AS severity,
    min(f.ts) AS start_ts,
    max(f.ts) AS end_ts,
    min(f.ts) AS detected_at,
    least(1.0, sum(f.least_bytes) / max(f.checkpoint_bytes)) AS lower,
    least(1.0, sum(f.most_bytes) / max(f.checkpoint_bytes)) AS upper,
    [f.cluster] AS cluster,
    [f.principal] AS principal,
    [f.checkpoint] AS checkpoint,
    list_sort(list(DISTINCT f.bucket)) AS bucket,
    coalesce(list_sort(list(DISTINCT f.ip) FILTER (f.ip IS NOT NULL)), []) [1:20] AS ip,
    json_object(
        'quantity', 'share of the checkpoint fetched through signed URLs in the UTC day',
        'signatures', any_value(s.signature_count),
        'networks_of_one_signature', any_value(s.network_count),
        'objects', count(DISTINCT f.object_key)
    ) AS evidence
FROM fetched f
JOIN spread s USING (cluster, principal, checkpoint, day_ts)
GROUP BY f.cluster, f.principal, f.checkpoint, f.day_ts
HAVING sum(f.most_bytes) >= getvariable('min_bytes')
