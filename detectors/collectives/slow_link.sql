/*
title = "One NIC, node, switch or link makes the collectives through it slow"
domain = "performance"
kind = "slow_link"
severity = "medium"
reviewed = "2026-11-30"
optional = [
    "collective", "collective_group", "comm_function_count", "comm_state", "gpu_event",
    "gpu_identity", "gpu_link_sample", "gpu_sample", "inventory_gpu", "job_attempt",
    "nccl_log_event", "rank_map", "step_sample", "xid_policy",
]

flags = """
A process's GPU and NIC, a node, a leaf switch or the link between two ranks that alone explains the
communicators and pairs which moved data at less than 0.85 of the median of others of exactly the same
shape that day (comm_perf_day), while every other member is cleared by one that was as fast as its peers
(link_suspect). Kind `slow_nic` for a process or node between nodes, else `slow_link`. `lower` and
`upper` are the smallest and largest busbw of the slow ones over their peers'. One finding per element
and day; high from `high_lost_gpu_s` on.
"""
why = """
A link at half speed slows every collective that crosses it and with it all ranks of the job, yet each
rank only sees that communication takes long. It is in no log of the job.
"""
looks_like = """
Traffic of other jobs on the same leaf or spine. A communicator whose ranks were placed farther apart
than its peers' (see the finding placement). A setting that differs on one node: number of channels,
an excluded NIC, another version of the library (see transport_fallback). A straggler does not look like
this: of each collective the rank that arrived last is measured, which waits for nobody.
"""
misses = """
A slow link that nothing else distinguishes: when two members always work together, both stay candidates
in link_suspect and no finding is made. Shapes with fewer than three peers. Messages below 1 MiB, and
operations the recorder did not keep (coverage in the evidence). Slowness within 15 %. Half or more of
the communicators of a shape being slow: see busbw_regression. Jobs without NCCL Inspector records.
"""
todo = """
Look at the port's speed, width, symbol errors and link flaps at the time, and at the NIC the process
used (NCCL_DEBUG=INFO: NET/IB : Using). Run a two-node all-reduce of the named node with a healthy one,
NIC by NIC. Inside a node: nvidia-smi nvlink, PCIe width and generation, ACS and IOMMU settings.
"""

[params.high_lost_gpu_s]
default = 36000
doc = "GPU-seconds lost in recorded operations of a day from which severity is high: 10 GPU-hours. Own choice."
*/
WITH explained AS (
    SELECT
        cluster, day_ts, accused,
        to_json(list(
            {'node': node, 'verdict': verdict, 'cause': cause, 'summary': summary,
             'other_causes': other_causes}
            ORDER BY node
        )) AS root_cause
    FROM root_cause
    WHERE kind = 'slow_link'
    GROUP BY ALL
)

SELECT
    concat_ws('/', l.cluster, scope, element_kind, element, l.day_ts::DATE) AS subject,
    least(1, 1 - ratio) AS score,
    if(
        scope = 'inter_node' AND element_kind IN ('process', 'node'), 'slow_nic', 'slow_link'
    ) AS kind,
    if(lost_gpu_s >= getvariable('high_lost_gpu_s'), 'high', 'medium') AS severity,
    first_ts AS start_ts,
    last_ts AS end_ts,
    last_ts AS detected_at,
    [l.cluster] AS cluster,
    node,
    if(gpu_uuid IS NULL, [], [gpu_uuid]) AS gpu_uuid,
    if(rank IS NULL, [], [rank]) AS rank,
    job_id,
    ratio_lower AS lower,
    ratio_upper AS upper,
    json_object(
        'quantity', 'bus bandwidth over the median of communicators of the same shape',
        'ratio', round(ratio, 4),
        'scope', scope,
        'element_kind', element_kind,
        'element', element,
        'slow_count', slow_count,
        'all_slow_count', all_slow_count,
        'cleared_count', cleared_count,
        'lost_gpu_h', round(lost_gpu_s / 3600, 3),
        'coverage_ratio', round(coverage_ratio, 4),
        'root_cause', root_cause
    )::VARCHAR AS evidence
FROM link_suspect AS l
LEFT JOIN explained AS e
    ON l.cluster = e.cluster AND l.day_ts = e.day_ts
    AND e.accused = concat_ws(' ', scope, element_kind, element)
WHERE verdict = 'culprit'
