/*
title = "A GPU, NVSwitch or port reports an error that calls for action"
domain = "performance"
kind = "gpu_fault"
severity = "medium"
reviewed = "2026-11-30"
lookback = "1d"
one_of = ["gpu_event", "gpu_sample", "kernel_log_day"]
optional = ["gpu_identity", "inventory_gpu", "job_attempt"]

flags = """
A chain of health events (a cause and what followed from it) for which the policy asks for a reset, a
reboot or a drain, from least_action on. One finding per chain, found when its first such event began; it
is severe by what is asked: drain and reboot high, reset medium, reset at the next idle moment low, and
one step less where only a sticky gauge tells of it.
"""
why = """
Such errors do not heal by themselves: the next job on the GPU fails in the same way, or computes with
less memory protection. What the driver itself asks for outranks any table of codes.
"""
looks_like = """
A program that faults (XID 13, 31, 43): asked to restart, not to reset, so it is quiet here unless one
unit or one GPU repeats. XID 45: a clean-up, never a cause. A reset or reboot by an administrator, or a
driver upgrade, can print errors on its way. Stopping a monitoring agent hard can raise XID 119.
"""
misses = """
Errors that no kernel log and no gauge told: a node whose kernel log is not read has only the gauges,
which miss the same code twice and every code between two samples (`kernel_log_seen` says which it was); with
neither it is unknown, not healthy. Faults that raise no code at all (slow_gpu, and the degradation facts, look for those). Codes
newer than the policy: asked to be investigated, which is below least_action. A rate-limited log.
"""
todo = """
Do what `action` says once the job may be interrupted: drain the node, reset the GPU (nvidia-smi
--gpu-reset) or reboot, and look at the chain in health_event. `policies` shows what other tools would
do; `repeat` and node_health show whether this GPU or node has a history. After two resets with the same
code: field diagnostics, then replacement.
"""

[params.policy]
default = "fleetmark"
doc = "the policy to act on: a name in xid_policy. `fleetmark backtest gpu_health_event --policy NAME` compares."

[params.least_action]
default = "reset_when_idle"
doc = "the least action that is worth a finding; the order is none, investigate, restart_app, reset_when_idle, withdraw_gpu, reset_gpu, reboot_node, drain_node"
*/
WITH ordered AS (
    SELECT ['none', 'investigate', 'restart_app', 'reset_when_idle', 'withdraw_gpu', 'reset_gpu',
        'reboot_node', 'drain_node'] AS actions
),
verdict AS (
    SELECT health_event_policy.*, health_event.end_ts, event_count_lower, event_count_upper, message,
        job_ids, recovery_action
    FROM health_event_policy
    JOIN health_event USING (event_id)
    WHERE policy = getvariable('policy') AND NOT is_continuation
),
elsewhere AS (
    SELECT event_id, to_json(map(list(policy ORDER BY policy), list(action ORDER BY policy))) AS policies
    FROM health_event_policy
    GROUP BY event_id
),
chain AS (
    SELECT
        cluster,
        chain_id,
        arg_max(verdict, (action_rank, verdict.start_ts, event_id)) AS worst,
        arg_min(verdict, (NOT is_root, verdict.start_ts, event_id)) AS root,
        min(start_ts) FILTER (
            action_rank >= list_position(actions, getvariable('least_action')) - 1
        ) AS called_ts,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts,
        list_sort(list(DISTINCT node)) AS nodes,
        list_sort(list(DISTINCT gpu_uuid) FILTER (gpu_uuid IS NOT NULL)) AS gpus,
        list_sort(list_distinct(flatten(list(job_ids)))) AS jobs,
        list(concat(event, ' ', code, ' ', unit) ORDER BY verdict.start_ts, event_id)[:20] AS events
    FROM verdict, ordered
    GROUP BY cluster, chain_id
)
SELECT
    concat_ws('/', cluster, chain_id) AS subject,
    if(worst.confidence = 'high', 0.9, 0.5) AS score,
    CASE
        WHEN worst.action_rank >= 6 THEN if(worst.confidence = 'high', 'high', 'medium')
        WHEN worst.action_rank >= 4 THEN if(worst.confidence = 'high', 'medium', 'low')
        ELSE 'low'
    END AS severity,
    start_ts,
    end_ts,
    called_ts AS detected_at,
    [cluster] AS cluster,
    nodes AS node,
    coalesce(gpus, []) AS gpu_uuid,
    coalesce(jobs, []) AS job_id,
    root.event_count_lower::DOUBLE AS lower,
    root.event_count_upper::DOUBLE AS upper,
    json_object(
        'quantity', 'times the cause happened',
        'cause', concat(root.event, ' ', root.code),
        'unit', root.unit,
        'message', left(root.message, 200),
        'events', events,
        'action', worst.action,
        'decided_by', worst.decided_by,
        'because', worst.native,
        'repeat', worst.repeat_count,
        'class', coalesce(root.class, worst.class),
        'fault', root.fault,
        'confidence', worst.confidence,
        'policy', worst.policy,
        'policy_source', worst.source,
        'policies', policies,
        'kernel_log_seen', EXISTS (
            FROM kernel_log_day AS log
            WHERE log.cluster = chain.cluster AND list_contains(chain.nodes, log.node)
                AND log.day_ts = date_trunc('day', chain.start_ts)
        )
    )::VARCHAR AS evidence
FROM chain
LEFT JOIN elsewhere ON elsewhere.event_id = chain.root.event_id
WHERE called_ts IS NOT NULL
