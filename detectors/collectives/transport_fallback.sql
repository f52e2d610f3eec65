/*
title = "A job's data took a slower path than it could: TCP, no GPUDirect, lost channels, a slower or failed NIC"
domain = "performance"
kind = "transport_fallback"
severity = "medium"
reviewed = "2026-11-30"
window = "all"
optional = ["gpu_event", "job_attempt"]

flags = """
What NCCL printed itself (transport_fact): data between nodes over sockets, a network without GPUDirect
RDMA, GPUs of a node through host memory, or at most half the usual channels, where most other nodes of
the cluster have better; a NIC whose speed dropped while in use, or that the library gave up. One finding
per job and fact. Kind `slow_nic` for the last two. Link-down events of the nodes' kernel logs during the
job are counted in the evidence.
"""
why = """
A fall-back to TCP costs a factor of ten and is silent: the job starts, trains and bills. A NIC that
renegotiated to half its speed slows every rank that waits for it.
"""
looks_like = """
A job that asked for it (NCCL_IB_DISABLE, NCCL_P2P_DISABLE, NCCL_MAX_NCHANNELS in its environment), a
debugging run, a small job whose few ranks need few channels. A node type without the better path in a
mixed cluster.
"""
misses = """
Jobs without NCCL_DEBUG=INFO output: only warnings are printed by default. Versions before 2.30.3 do not
print link speeds or failed devices. A whole cluster without the better path: nobody has it, nothing is
flagged. A slow path that is printed as the fast one.
"""
todo = """
socket_network: is the fabric's driver and plugin in the image, the device in the container, the
subnet manager up? no_gpudirect: nvidia-peermem or dma-buf, ACS, NIC and GPU under one switch.
no_peer_to_peer: NVLink and Fabric Manager, container without a shared IPC namespace, IOMMU.
link_speed_drop and device_failed: cable, transceiver and port of that NIC.
"""
*/
WITH fact AS (
    SELECT
        cluster, job_id, attempt, fact,
        list(DISTINCT node ORDER BY node) AS nodes,
        min(ts) AS first_ts,
        max(ts) AS last_ts,
        to_json(list(
            {'node': node, 'device': device, 'transport': transport, 'usual': usual,
             'better_count': better_count, 'other_count': other_count,
             'from_gbit_per_s': from_bytes_per_s * 8 / 1e9,
             'to_gbit_per_s': to_bytes_per_s * 8 / 1e9, 'line': message}
            ORDER BY node, device
        )[:20]) AS facts,
        count(*) AS fact_count
    FROM transport_fact
    WHERE is_fallback
    GROUP BY ALL
),

ran AS (
    SELECT f.*, start_ts AS job_start_ts, coalesce(end_ts, observed_ts, start_ts) AS job_end_ts
    FROM fact AS f
    LEFT JOIN job_attempt USING (cluster, job_id, attempt)
),

flap AS (
    SELECT r.cluster, job_id, attempt, fact, sum(event_count)::BIGINT AS link_down_count
    FROM ran AS r
    JOIN gpu_event AS e
        ON r.cluster = e.cluster AND list_contains(r.nodes, e.node) AND e.event = 'link_down'
        AND e.ts BETWEEN job_start_ts AND job_end_ts
    GROUP BY ALL
),

dated AS (
    SELECT
        *,
        coalesce(first_ts, job_start_ts, TIMESTAMP '1970-01-01') AS began_ts,
        coalesce(last_ts, job_start_ts, TIMESTAMP '1970-01-01') AS ended_ts
    FROM ran
    LEFT JOIN flap USING (cluster, job_id, attempt, fact)
)

SELECT
    concat_ws('/', cluster, job_id, attempt, fact) AS subject,
    1.0 AS score,
    if(fact IN ('link_speed_drop', 'device_failed'), 'slow_nic', 'transport_fallback') AS kind,
    if(fact IN ('socket_network', 'device_failed'), 'high', 'medium') AS severity,
    began_ts AS start_ts,
    greatest(began_ts, ended_ts) AS end_ts,
    began_ts AS detected_at,
    [cluster] AS cluster,
    nodes AS node,
    [job_id] AS job_id,
    json_object(
        'fact', fact,
        'facts', facts,
        'fact_count', fact_count,
        'link_down_count', link_down_count,
        'attempt', attempt,
        'time_basis', CASE
            WHEN first_ts IS NOT NULL THEN 'absolute'
            WHEN job_start_ts IS NOT NULL THEN 'start of the job'
            ELSE 'relative'
        END
    )::VARCHAR AS evidence
FROM dated
