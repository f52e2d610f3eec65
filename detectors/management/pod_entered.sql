/*
title = "Somebody enters or copies from a pod that holds weights"
domain = "security"
severity = "medium"
attack = ["T1609", "T1041", "T1610"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
lookback = "30d"
flags = """
exec, attach, port-forward, ephemeral container or node proxy on a pod by a person, through both verbs that clients
use: high where the command packs or sends (tar, cat, dd, base64, rsync, split, scp, curl, wget, nc, rclone) or the
stream lasts over a minute and the pod, its volumes or the command's paths look like weights; medium where only one
of the two holds; low for a plain shell.
"""
why = """
`kubectl cp` is tar over exec: weights leave through the API server without a line in the store's log.
"""
looks_like = """
People on call who look into a serving pod.
"""
misses = """
Commands typed inside a shell; exec through the kubelet without the API server; pods whose names and volumes say
nothing.
"""
todo = """
Ask the person; look at the length of the stream and the node's egress; revoke the token.
"""

[params.weights_pattern]
default = "weight|ckpt|checkpoint|model|llm"
doc = "regular expression, case ignored, of volumes, paths and pods that hold weights"

[params.long_s]
default = 60
doc = "s; a stream longer than that moves more than a look"
*/
WITH volumes AS (
    SELECT cluster, target, ts, volumes
    FROM storage_event
    WHERE event_class = 'pod_create' AND volumes IS NOT NULL
),

entered AS (
    SELECT
        e.*,
        v.volumes AS pod_volumes,
        regexp_matches(
            ' ' || array_to_string(coalesce(e.command, []), ' ') || ' ',
            '[ /](?:tar|cat|dd|base64|rsync|split|scp|curl|wget|nc|ncat|rclone|s3cmd|aws|gsutil|azcopy)[ ]'
        ) AS packs,
        regexp_matches(
            concat_ws(' ', e.target, e.container, array_to_string(coalesce(e.command, []), ' '),
                array_to_string(coalesce(v.volumes, []), ' ')),
            concat('(?i)', getvariable('weights_pattern'))
        ) AS holds
    FROM storage_event e
    LEFT JOIN volumes v
        ON e.cluster = v.cluster AND e.target = v.target AND v.ts <= e.ts AND v.ts >= e.ts - INTERVAL 30 DAY
    WHERE e.event_class IN ('pod_exec', 'port_forward', 'node_proxy')
        AND e.error IS NULL AND coalesce(e.status, 200) < 400
        AND coalesce(e.principal_type, '') <> 'service'
    QUALIFY row_number() OVER (PARTITION BY e.cluster, e.event_id, e.action ORDER BY v.ts DESC NULLS LAST) = 1
)

SELECT
    concat_ws('|', cluster, event_id, action) AS subject,
    0.2 + if(packs, 0.3, 0) + if(holds, 0.3, 0) AS score,
    CASE
        WHEN holds AND (packs OR coalesce(duration_s, 0) > getvariable('long_s')) THEN 'high'
        WHEN holds OR packs OR event_class = 'node_proxy' THEN 'medium'
        ELSE 'low'
    END AS severity,
    ts AS start_ts,
    ts + to_microseconds((coalesce(duration_s, 0) * 1e6)::BIGINT) AS end_ts,
    ts AS detected_at,
    [cluster] AS cluster,
    [coalesce(principal, 'unknown')] AS principal,
    if(ip IS NULL, [], [ip]) AS ip,
    json_object(
        'action', action, 'pod', target, 'container', container, 'command', command, 'duration_s', duration_s,
        'volumes', pod_volumes, 'user_agent', user_agent
    ) AS evidence
FROM entered
