/*
title = "A node fails more often than the fleet explains"
domain = "performance"
kind = "node_sick"
severity = "high"
reviewed = "2026-11-30"
window = "all"
one_of = ["node_event", "job_attempt"]
optional = ["node_state", "inventory_gpu", "gpu_event", "kernel_log_day", "gpu_sample", "gpu_identity", "gpu_link_sample", "failure_rule", "reason_rule", "xid_policy"]

flags = """
A node with more incidents (unplanned outages, attempts that ended for its infrastructure or hardware) in a month
and the 60 days before than a Poisson process at the rate of all other nodes gives with 99.9 %, and so rare that
among all nodes of the cluster at most max_chance_count would look so by chance. One finding per node and run
of such months. `lower` and `upper` are the incidents beyond what was expected of it.
"""
why = """
Few nodes cause most of the failures of large jobs: Meta found that removing lemon nodes lowered the failure rate of
large jobs from 14 to 4 percent (arXiv 2410.21680). Each failure alone was repaired and closed.
"""
looks_like = """
A node under repair that is drained again after each test. A node that always gets the same faulty job: its exits count
only with evidence against the node. A rack that lost power: all of its nodes then, not one. A new batch of nodes in its
first weeks.
"""
misses = """
Lemons of a fleet so small that its rate is not known: one incident is added to the others'. Failures that no record
ties to a node: jobs on several nodes without health events or outages count for none. Nodes that carried no job.
Nodes that are slow and never fail (slow_gpu).
"""
todo = """
Read `last_reasons`: the same part each time asks for its replacement, different ones for the board or the
node. Take the node out, run field diagnostics, and put it back only after a burn-in. Compare its place in
the rack with its neighbours.
"""

[params.max_chance_count]
default = 0.05
doc = "count; nodes of the cluster that may look so by chance: tail_probability x node_count. One false finding in twenty clusters and quarters."
*/
WITH lemon AS (
    SELECT *,
        date_diff('month', '2000-01-01'::TIMESTAMP, month_ts)
            - row_number() OVER (PARTITION BY cluster, node ORDER BY month_ts) AS run
    FROM lemon_nodes
    WHERE is_lemon AND tail_probability * node_count <= getvariable('max_chance_count')
),
episode AS (
    SELECT cluster, node, min(month_ts) AS first_month_ts, arg_min(lemon, month_ts) AS first, arg_max(lemon, month_ts) AS last
    FROM lemon
    GROUP BY cluster, node, run
)
SELECT
    concat_ws('/', cluster, node, first_month_ts::DATE) AS subject,
    least(0.99, 1 - last.tail_probability * last.node_count) AS score,
    first_month_ts AS start_ts,
    last.last_ts AS end_ts,
    first.last_ts AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    last.job_ids AS job_id,
    last.incident_count - last.expected_count AS lower,
    last.incident_count - last.expected_count AS upper,
    json_object(
        'quantity', 'incidents beyond what the other nodes let expect, in the month and 60 days before',
        'incidents', last.incident_count,
        'expected', round(last.expected_count, 3),
        'limit', last.limit_count,
        'tail_probability', last.tail_probability,
        'nodes', last.node_count,
        'gpu_h', round(last.gpu_h, 1),
        'rate_per_1000_gpu_h_shrunk', round(last.rate_shrunk, 4),
        'fleet_rate_per_1000_gpu_h', round(last.fleet_rate, 4),
        'last_reasons', last.last_reasons,
        'coverage_ratio', round(last.coverage_ratio, 4),
        'action', 'take the node out and run field diagnostics'
    )::VARCHAR AS evidence
FROM episode
