/*
title = "A node is to be drained"
domain = "performance"
kind = "node_sick"
severity = "medium"
reviewed = "2026-11-30"
window = "all"
one_of = ["gpu_event", "gpu_sample"]
optional = ["gpu_identity", "gpu_link_sample", "inventory_gpu", "job_attempt", "kernel_log_day"]

flags = """
A node for which node_health says drain_node: an open fact that no reset takes care of (a failed row remap,
a GPU off the bus, lost NVLinks, a narrow PCIe link, a flapping port, a whole chassis slowed for heat or
power), or a repeat offender. One finding per node and unbroken run of such days; high while jobs hold the
node or where it is a repeat offender. `lower` and `upper` are the GPU-hours at stake.
"""
why = """
One sick node takes the job of hundreds with it, again at each restart that lands on it. Few nodes cause
most of the failures, and each alone looks like chance until the history of the node is counted.
"""
looks_like = """
A node under repair, whose tests raise errors. A rack that lost power or cooling: its nodes are not told to
drain for what the rack shares; see shared_cause. A program that faults everywhere: not counted.
"""
misses = """
Everything milder than a drain: node_health also names nodes whose GPUs want a reset or a look, and those are in
its `action` only. A node without kernel log and telemetry: node_health calls it unknown, never clear, and nothing flags it
here. GPUs that are slow and set no bit (slow_gpu). Repairs that leave no trace in the logs: a drain stays
open for open_days after the last fact. Hosts that hang without a word.
"""
todo = """
Read `evidence` in order; drain the node when `job_ids` may be interrupted, or at once if the job fails
anyway. Then field diagnostics, reseat or replace what `gpu_uuids` and `reason` name. `fleetmark backtest
node_sick --set node_health.lemon_days=2` shows what another threshold would have drained.
"""
*/
WITH sick AS (
    SELECT
        *,
        day_ts - to_days(row_number() OVER (PARTITION BY cluster, node ORDER BY day_ts)::INTEGER) AS run
    FROM node_health
    WHERE action = 'drain_node'
),
episode AS (
    SELECT
        cluster, node,
        min(day_ts) AS first_day_ts,
        max(day_ts) AS last_day_ts,
        arg_min(sick, day_ts) AS first,
        arg_max(sick, day_ts) AS last
    FROM sick
    GROUP BY cluster, node, run
)
SELECT
    concat_ws('/', cluster, node, first_day_ts::DATE) AS subject,
    least(0.99, 0.7 + 0.05 * last.fact_7d_count) AS score,
    if(last.is_repeat_offender OR last.gpu_at_stake_count > 0, 'high', 'medium') AS severity,
    least(coalesce(first.since_ts, first.acted_ts), first.acted_ts) AS start_ts,
    greatest(last_day_ts, first.acted_ts) AS end_ts,
    first.acted_ts AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    last.gpu_uuids AS gpu_uuid,
    last.job_ids AS job_id,
    last.gpu_h_at_stake AS lower,
    last.gpu_h_at_stake AS upper,
    json_object(
        'quantity', 'GPU-hours of running jobs at stake',
        'reason', last.reason,
        'evidence', last.evidence,
        'level', last.level,
        'place', last.place,
        'rank_in_cluster', last.rank_in_cluster,
        'days', date_diff('day', first_day_ts, last_day_ts) + 1,
        'facts_7d', last.fact_7d_count,
        'facts_30d', last.fact_30d_count,
        'is_repeat_offender', last.is_repeat_offender,
        'worst_gpu_uuid', last.worst_gpu_uuid,
        'worst_gpu_facts_30d', last.worst_gpu_fact_30d_count,
        'gpus_at_stake', last.gpu_at_stake_count,
        'rack', last.rack,
        'has_kernel_log', last.has_kernel_log,
        'telemetry_coverage_ratio', round(last.coverage_ratio, 4)
    )::VARCHAR AS evidence
FROM episode
