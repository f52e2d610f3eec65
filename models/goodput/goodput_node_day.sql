/*
doc = "Goodput per node and day: GPU-hours that attempts held there, how many of them were productive, and how many GPU-hours of whole jobs were lost to the node."
grain = ["cluster", "node", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "node"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
node = { type = "VARCHAR", doc = "node" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
allocated_gpu_h = { type = "DOUBLE", doc = "GPU-hours that attempts held on it; an attempt's are divided evenly by its nodes, as in gpu_allocation", unit = "gpu_h", null = false }
productive_gpu_h = { type = "DOUBLE", doc = "of these, productive in the strict sense", unit = "gpu_h", null = false }
idle_gpu_h = { type = "DOUBLE", doc = "of these, idle: an even share of what the attempt left idle, whichever node it was", unit = "gpu_h", null = false }
unexplained_gpu_h = { type = "DOUBLE", doc = "of these, unexplained", unit = "gpu_h", null = false }
accused_gpu_h = { type = "DOUBLE", doc = "GPU-hours of all GPUs of jobs that the ledger lays to this node", unit = "gpu_h", null = false }
accused_cause = { type = "VARCHAR", doc = "the cause with most of them" }
job_count = { type = "BIGINT", doc = "attempts that held GPUs on it", unit = "count", null = false }
steps_coverage_ratio = { type = "DOUBLE", doc = "GPU-hours of attempts whose steps are known, of allocated_gpu_h", unit = "ratio" }
*/
WITH held AS (
    SELECT
        c.cluster, a.node, day_ts, c.job_id, c.attempt, cause, evidence,
        gpu_h / count(DISTINCT a.node) OVER (PARTITION BY c.cluster, c.job_id, c.attempt, day_ts, cause, culprit) AS gpu_h
    FROM goodput_cause_day c
    JOIN gpu_allocation a ON a.cluster = c.cluster AND a.job_id = c.job_id AND a.attempt = c.attempt
),
node AS (
    SELECT
        cluster, node, day_ts,
        sum(round(gpu_h * 1e9)::HUGEINT) / 1e9 AS allocated_gpu_h,
        coalesce(sum(round(gpu_h * 1e9)::HUGEINT) FILTER (cause = 'productive'), 0) / 1e9 AS productive_gpu_h,
        coalesce(sum(round(gpu_h * 1e9)::HUGEINT) FILTER (cause = 'idle'), 0) / 1e9 AS idle_gpu_h,
        coalesce(sum(round(gpu_h * 1e9)::HUGEINT) FILTER (cause = 'unexplained'), 0) / 1e9 AS unexplained_gpu_h,
        coalesce(sum(round(gpu_h * 1e9)::HUGEINT) FILTER (evidence IN ('steps', 'collectives')), 0) / 1e9 AS stepped_gpu_h,
        count(DISTINCT (job_id, attempt)) AS job_count
    FROM held
    GROUP BY ALL
),
by_cause AS (
    SELECT cluster, culprit AS node, day_ts, cause, sum(round(gpu_h * 1e9)::HUGEINT) / 1e9 AS gpu_h
    FROM goodput_cause_day
    WHERE culprit <> ''
    GROUP BY ALL
),
accused AS (
    SELECT cluster, node, day_ts, sum(gpu_h) AS gpu_h, arg_max(cause, (gpu_h, cause)) AS cause
    FROM by_cause
    GROUP BY ALL
)
SELECT
    n.cluster, n.node, n.day_ts, allocated_gpu_h, productive_gpu_h, idle_gpu_h, unexplained_gpu_h,
    coalesce(a.gpu_h, 0) AS accused_gpu_h, a.cause AS accused_cause, job_count,
    stepped_gpu_h / nullif(allocated_gpu_h, 0) AS steps_coverage_ratio
FROM node n
LEFT JOIN accused a USING (cluster, node, day_ts)
