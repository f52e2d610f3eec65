/*
title = "Weights are pulled from a model hub or artefact server"
domain = "security"
severity = "medium"
attack = ["T1213", "T1567.001", "AML.T0035"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
flags = """
From one address and principal, in one day and with no job named, 1 GB of files with names of weights (safetensors,
gguf, bin, pt, ckpt, distcp, h5, nemo) are fetched from an HTTP server whose log is read (model hub, MLflow
artefacts).
"""
why = """
A hub or an artefact proxy is a way to the same weights, past the store's own log.
"""
looks_like = """
Nodes that fetch models when they start: name their principals in `allowed_principals`, and downloads of public
models.
"""
misses = """
Answers that redirect elsewhere carry no bytes here; names that hide what they are; hubs whose logs are not read.
"""
todo = """
See which models and who; on a hub the token tells more than the address.
"""

[params.min_bytes]
default = 1000000000
doc = "bytes a day"

[params.allowed_principals]
default = ""
doc = "principals, separated by commas, that fetch models for their work"

[needs]
storage_read = "store_kind = 'http'"
*/
SELECT
    concat_ws('|', cluster, principal, ip, day_ts) AS subject,
    0.5 AS score,
    min(ts) AS start_ts,
    max(ts) AS end_ts,
    max(ts) AS detected_at,
    sum(sent_bytes)::DOUBLE AS lower,
    sum(coalesce(sent_bytes, object_bytes))::DOUBLE AS upper,
    [cluster] AS cluster,
    [coalesce(principal, 'unknown')] AS principal,
    list_sort(list(DISTINCT bucket)) AS bucket,
    if(ip IS NULL, [], [ip]) AS ip,
    json_object(
        'quantity', 'bytes of weights files fetched in the UTC day',
        'files', count(DISTINCT object_key),
        'first_files', list_sort(list(DISTINCT object_key)) [1:5],
        'user_agents', coalesce(list_sort(list(DISTINCT user_agent) FILTER (user_agent IS NOT NULL)), []) [1:5]
    ) AS evidence
FROM storage_read
WHERE store_kind = 'http' AND job_hint IS NULL
    AND regexp_matches(lower(object_key), '\.(?:safetensors|gguf|bin|pt|pth|ckpt|distcp|h5|nemo)$')
    AND NOT list_contains(string_split(getvariable('allowed_principals'), ','), coalesce(principal, 'unknown'))
GROUP BY cluster, principal, ip, day_ts
HAVING sum(coalesce(sent_bytes, object_bytes)) >= getvariable('min_bytes')
