/*
doc = """
GPU-hours that nodes carried and incidents they had, over the month and the 60 days before: what lemon_nodes
judges. GPUs of attempts on several nodes are divided evenly (gpu_allocation).
"""
grain = ["cluster", "month_ts", "node"]
time = "month_ts"
period = "month"
window = "month"
lookback = "60d"
sort = ["cluster", "month_ts", "node"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the node" }
month_ts = { type = "TIMESTAMP", doc = "start of the month, UTC" }
node = { type = "VARCHAR", doc = "node" }
gpu_h = { type = "DOUBLE", doc = "GPU-hours held on it; NULL if no record says", unit = "h" }
held_h = { type = "DOUBLE", doc = "hours that attempts held it, each counted", unit = "h" }
known_held_h = { type = "DOUBLE", doc = "of them those whose GPUs are known", unit = "h" }
incident_count = { type = "BIGINT", doc = "incidents (node_incident)", unit = "count" }
last_reasons = { type = "VARCHAR[]", doc = "reasons of the last five, latest first" }
last_ts = { type = "TIMESTAMP", doc = "start of the last one" }
job_ids = { type = "VARCHAR[]", doc = "jobs concerned, 20 at most" }
*/
WITH month AS (
    SELECT DISTINCT cluster, date_trunc('month', start_ts)::TIMESTAMP AS month_ts FROM gpu_allocation
    UNION
    SELECT DISTINCT cluster, date_trunc('month', coalesce(end_ts, observed_ts, start_ts))::TIMESTAMP FROM gpu_allocation
    UNION
    SELECT DISTINCT cluster, date_trunc('month', start_ts)::TIMESTAMP FROM node_incident
),
span AS (
    SELECT cluster, month_ts, month_ts - INTERVAL 60 DAY AS from_ts, month_ts + INTERVAL 1 MONTH AS until_ts
    FROM month
),
held AS (
    SELECT
        span.cluster, month_ts, node, gpu_count,
        epoch(least(coalesce(end_ts, observed_ts, start_ts), until_ts) - greatest(start_ts, from_ts)) / 3600 AS held_h
    FROM span
    JOIN gpu_allocation AS held ON held.cluster = span.cluster
        AND start_ts < until_ts AND coalesce(end_ts, observed_ts, start_ts) > from_ts
),
carried AS (
    SELECT
        cluster, month_ts, node,
        sum(held_h * gpu_count) AS gpu_h,
        sum(held_h) AS held_h,
        coalesce(sum(held_h) FILTER (gpu_count IS NOT NULL), 0) AS known_held_h
    FROM held
    GROUP BY ALL
),
fallen AS (
    SELECT
        span.cluster, month_ts, node,
        count(*) AS incident_count,
        list(reason ORDER BY start_ts DESC)[:5] AS last_reasons,
        max(start_ts) AS last_ts,
        list_sort(list_distinct(flatten(list(job_ids))))[:20] AS job_ids
    FROM span
    JOIN node_incident AS incident ON incident.cluster = span.cluster AND start_ts >= from_ts AND start_ts < until_ts
    GROUP BY ALL
)
SELECT
    cluster, month_ts, node,
    gpu_h::DOUBLE AS gpu_h,
    coalesce(held_h, 0)::DOUBLE AS held_h,
    coalesce(known_held_h, 0)::DOUBLE AS known_held_h,
    coalesce(incident_count, 0) AS incident_count,
    coalesce(last_reasons, []) AS last_reasons,
    last_ts,
    coalesce(job_ids, []) AS job_ids
FROM carried
FULL JOIN fallen USING (cluster, month_ts, node)
