/*
doc = "How much more time users ask for than their jobs take, per month of submission: limits that are too long keep backfill from filling gaps. Only attempts that completed and had a limit; percentiles interpolate linearly."
grain = ["cluster", "principal", "start_ts"]
time = "start_ts"
window = "month"
sort = ["cluster", "start_ts", "principal"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
principal = { type = "VARCHAR", doc = "user; '' where not recorded" }
start_ts = { type = "TIMESTAMP", doc = "start of the month in which the attempts were submitted" }
completed_count = { type = "BIGINT", doc = "attempts that completed", unit = "count" }
limited_count = { type = "BIGINT", doc = "of these with a time limit", unit = "count" }
used_p50_ratio = { type = "DOUBLE", doc = "median of run by limit", unit = "ratio" }
used_p90_ratio = { type = "DOUBLE", doc = "90th percentile of it", unit = "ratio" }
unused_gpu_s = { type = "DOUBLE", doc = "GPUs x (limit - run), summed: asked for and not used", unit = "s" }
used_gpu_s = { type = "DOUBLE", doc = "GPUs x run, summed", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "limited_count with known GPUs, of completed_count", unit = "ratio" }
*/
WITH run AS (
    SELECT
        cluster,
        coalesce(principal, '') AS principal,
        date_trunc('month', attempt_ts)::TIMESTAMP AS start_ts,
        coalesce(alloc_gpu_amount, alloc_gpus)::DOUBLE AS gpus,
        epoch(end_ts - start_ts) - coalesce(suspended_s, 0) AS run_s,
        nullif(timelimit_s, 0) AS limit_s
    FROM job_attempt
    WHERE state = 'COMPLETED' AND start_ts IS NOT NULL AND end_ts IS NOT NULL
)
SELECT
    cluster, principal, start_ts,
    count(*) AS completed_count,
    count(limit_s) AS limited_count,
    quantile_cont(run_s / limit_s, 0.5) AS used_p50_ratio,
    quantile_cont(run_s / limit_s, 0.9) AS used_p90_ratio,
    sum(gpus * if(limit_s > run_s, limit_s - run_s, 0 * limit_s))::DOUBLE AS unused_gpu_s,
    sum(gpus * run_s) FILTER (limit_s IS NOT NULL)::DOUBLE AS used_gpu_s,
    count(gpus + limit_s) / count(*)::DOUBLE AS coverage_ratio
FROM run
GROUP BY ALL
