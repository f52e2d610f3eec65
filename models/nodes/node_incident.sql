/*
doc = """
Incidents of nodes: unplanned outages, and attempts that ended for the infrastructure or hardware of a node.
What comes within merge_window_s of the one before is the same incident: the job that fails and the drain that
follows. Attempts whose failure no node is named for count for none.
"""
grain = ["cluster", "node", "start_ts"]
time = "start_ts"
sort = ["cluster", "start_ts", "node"]
# Incidents may follow each other over midnight.
window = "all"

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the node" }
node = { type = "VARCHAR", doc = "node" }
start_ts = { type = "TIMESTAMP", doc = "first sign" }
sign_count = { type = "BIGINT", doc = "outages and attempts it is made of", unit = "count" }
attempt_count = { type = "BIGINT", doc = "attempts that it ended", unit = "count" }
outage_count = { type = "BIGINT", doc = "outages in it", unit = "count" }
reason = { type = "VARCHAR", doc = "reason class of the outage, else the sign that decided of the attempt (failure_rule.value)" }
job_ids = { type = "VARCHAR[]", doc = "jobs concerned, 20 at most" }

[params.merge_window_s]
default = 3600
doc = "s; signs this close are one incident. A node is drained within minutes of the job's end, checked and often drained again; own choice."
*/
WITH sign AS (
    SELECT cluster, node, start_ts, reason_class AS reason, 0 AS rank, NULL AS job_id
    FROM node_outage
    WHERE NOT is_planned
    UNION ALL BY NAME
    SELECT cluster, evidence_node AS node, coalesce(evidence_ts, outcome_ts) AS start_ts, evidence_value AS reason, 1 AS rank, job_id
    FROM attempt_outcome
    WHERE evidence_node IS NOT NULL AND failure_domain IN ('infrastructure', 'hardware')
),
marked AS (
    SELECT *,
        coalesce(start_ts - lag(start_ts) OVER (PARTITION BY cluster, node ORDER BY start_ts, rank, job_id)
            > to_seconds(getvariable('merge_window_s')), true) AS is_new
    FROM sign
),
numbered AS (
    SELECT *, sum(is_new::INTEGER) OVER (PARTITION BY cluster, node ORDER BY start_ts, rank, job_id) AS number
    FROM marked
)
SELECT
    cluster, node,
    min(start_ts) AS start_ts,
    count(*) AS sign_count,
    count(job_id) AS attempt_count,
    count(*) - count(job_id) AS outage_count,
    arg_min(reason, (rank, start_ts, reason)) AS reason,
    coalesce(list_sort(list(DISTINCT job_id) FILTER (job_id IS NOT NULL))[:20], []) AS job_ids
FROM numbered
GROUP BY cluster, node, number
