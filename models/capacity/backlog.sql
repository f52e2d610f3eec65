/*
doc = """
What waits, read at full minutes, and how long all GPUs in service would need for it. The work is GPUs times the smaller of the
time limit and what runs of the same user and size took in the 30 days before (expected_run_day); demand for which
neither is known is in pending_gpu_count but adds no work, so drain_s is then a lower bound.
"""
grain = ["cluster", "pool", "start_ts"]
time = "start_ts"
sort = ["cluster", "pool", "start_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
pool = { type = "VARCHAR", doc = "pool_level.pool" }
start_ts = { type = "TIMESTAMP", doc = "the first minute for which it is so" }
minute_count = { type = "BIGINT", doc = "minutes for which it stays so", unit = "count" }
pending_gpu_count = { type = "DOUBLE", doc = "GPUs asked for by eligible attempts that have not started", unit = "count" }
pending_attempt_count = { type = "BIGINT", doc = "those attempts", unit = "count" }
pending_work_gpu_s = { type = "DOUBLE", doc = "GPU-seconds they are expected to take; NULL in data sets without jobs", unit = "s" }
in_service_gpu_count = { type = "DOUBLE", doc = "GPUs in service; of pool any all of the cluster; NULL if not known", unit = "count" }
drain_s = { type = "DOUBLE", doc = "pending_work_gpu_s / in_service_gpu_count", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "pool_level.coverage_ratio", unit = "ratio" }
*/
WITH moment AS (
    SELECT
        cluster, pool, start_ts, minute_count, pending_gpu_count, pending_attempt_count, pending_work_gpu_s, coverage_ratio,
        CASE WHEN pool = 'any' THEN sum(in_service_gpu_count) OVER (PARTITION BY cluster, start_ts)
            ELSE in_service_gpu_count END AS in_service_gpu_count
    FROM pool_level
)
SELECT
    cluster, pool, start_ts, minute_count, pending_gpu_count, pending_attempt_count, pending_work_gpu_s,
    in_service_gpu_count::DOUBLE AS in_service_gpu_count,
    pending_work_gpu_s / nullif(in_service_gpu_count, 0) AS drain_s,
    coverage_ratio
FROM moment
WHERE pending_attempt_count > 0
