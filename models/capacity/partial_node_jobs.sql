/*
doc = "Attempts spread over more nodes than they need: several nodes, and on some of them fewer GPUs than the node has. Published on the day of the start. GPUs per node come from accounting, which states the sum: an even split is assumed."
grain = ["cluster", "job_id", "attempt"]
time = "start_ts"
sort = ["cluster", "start_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
start_ts = { type = "TIMESTAMP", doc = "start of the allocation" }
principal = { type = "VARCHAR", doc = "user" }
account = { type = "VARCHAR", doc = "account" }
node_count = { type = "BIGINT", doc = "nodes held", unit = "count" }
gpu_count = { type = "DOUBLE", doc = "GPUs held", unit = "count" }
node_gpu_count = { type = "DOUBLE", doc = "GPUs of the smallest of these nodes", unit = "count" }
needed_node_count = { type = "BIGINT", doc = "nodes that would do: gpu_count / node_gpu_count, rounded up", unit = "count" }
spare_gpu_count = { type = "DOUBLE", doc = "GPUs on its nodes beside its own: left for small jobs, lost for gangs", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "share of its nodes whose GPUs are known; jobs with less than all are listed only if those known show it", unit = "ratio" }
*/
WITH node AS (
    SELECT cluster, node, day_ts, max(gpu_count) AS gpu_count
    FROM node_service
    GROUP BY ALL
),
held AS (
    SELECT
        a.cluster, a.job_id, a.attempt, a.start_ts,
        any_value(a.principal) AS principal,
        any_value(a.account) AS account,
        count(*) AS node_count,
        sum(a.gpu_count) AS gpu_count,
        min(n.gpu_count) AS node_gpu_count,
        sum(if(n.gpu_count > a.gpu_count, n.gpu_count - a.gpu_count, 0)) AS spare_gpu_count,
        count(n.gpu_count) / count(*)::DOUBLE AS coverage_ratio
    FROM gpu_allocation AS a
    LEFT JOIN node AS n ON n.cluster = a.cluster AND n.node = a.node AND n.day_ts = date_trunc('day', a.start_ts)
    WHERE a.gpu_count > 0
    GROUP BY ALL
)
SELECT
    cluster, job_id, attempt, start_ts, principal, account, node_count, gpu_count::DOUBLE AS gpu_count, node_gpu_count,
    ceil(gpu_count / node_gpu_count)::BIGINT AS needed_node_count,
    spare_gpu_count::DOUBLE AS spare_gpu_count,
    coverage_ratio
FROM held
WHERE node_count > 1 AND spare_gpu_count > 0 AND node_gpu_count > 0
