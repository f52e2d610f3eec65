/*
title = "One access key is used from two networks at once"
domain = "security"
severity = "medium"
attack = ["T1078.004", "T1552", "T1530"]
attack_version = "ATT&CK v18.1, ATLAS v5.6.1"
reviewed = "2026-11-30"
optional = ["manifest_object", "stored_object", "job_attempt"]
flags = """
An access key reads checkpoints within one hour from two networks (IPv4 /24, IPv6 /48), one of them new for its
principal, known for a fortnight.
"""
why = """
A key that was copied is used by its owner and by the thief.
"""
looks_like = """
Proxies and NAT with addresses in several networks: they stop being new after a day. Three principals moving
together are a change of NAT.
"""
misses = """
Logs without key ids (S3 server access logs); keys whose owner is idle; keys stolen from the network they are used
in.
"""
todo = """
Disable the key, make a new one, look at everything the key did from the new network.
"""

[needs]
weight_read = "access_key_id IS NOT NULL"
*/
WITH placed AS (
    SELECT
        cluster, principal, access_key_id, checkpoint, bucket, ip, ts, day_ts, most_bytes,
        date_trunc('hour', ts) AS hour_ts,
        coalesce(
            nullif(regexp_extract(ip, '^(\d+\.\d+\.\d+)\.\d+$', 1), '') || '.0/24',
            nullif(regexp_extract(ip, '^([0-9a-fA-F]*:[0-9a-fA-F]*:[0-9a-fA-F]*)', 1), '') || '::/48'
        ) AS network
    FROM weight_read
    WHERE access_key_id IS NOT NULL AND ip IS NOT NULL
),

hours AS (
    SELECT
        cluster, principal, access_key_id, hour_ts, day_ts,
        list_sort(list(DISTINCT network)) AS networks,
        list_sort(list(DISTINCT ip)) [1:20] AS ips,
        list_sort(list(DISTINCT checkpoint)) AS checkpoints,
        list_sort(list(DISTINCT bucket)) AS buckets,
        min(ts) AS start_ts,
        max(ts) AS end_ts,
        sum(most_bytes)::DOUBLE AS most_bytes
    FROM placed
    GROUP BY ALL
    HAVING count(DISTINCT network) > 1
)

SELECT
    concat_ws('|', h.cluster, h.access_key_id, h.day_ts) AS subject,
    0.5 AS score,
    min(h.start_ts) AS start_ts,
    max(h.end_ts) AS end_ts,
    arg_min(h.end_ts, h.hour_ts) AS detected_at,
    max(h.most_bytes) AS upper,
    [h.cluster] AS cluster,
    [min(h.principal)] AS principal,
    list_sort(list_distinct(flatten(list(h.checkpoints)))) AS checkpoint,
    list_sort(list_distinct(flatten(list(h.buckets)))) AS bucket,
    list_sort(list_distinct(flatten(list(h.ips)))) AS ip,
    json_object(
        'quantity', 'bytes of checkpoints read with the key in such an hour, at most',
        'access_key_id', h.access_key_id,
        'new_network', min(n.value)
    ) AS evidence
FROM hours h
JOIN principal_novelty_day n
    ON h.cluster = n.cluster AND h.principal = n.principal AND h.day_ts = n.day_ts
    AND n.trait = 'network' AND list_contains(h.networks, n.value)
    AND NOT n.is_learning AND n.moved_count < 3
GROUP BY h.cluster, h.access_key_id, h.day_ts
