/*
doc = """
GPUs that were free while others waited for GPUs, summed over the minutes of a day: at each minute the smaller of free and
pending. Demand for any model takes what its model's own demand leaves, in proportion to what is free. NULL where
what is free is not known. Whether the free GPUs could have served who waited is stranded_gpus' question.
"""
grain = ["cluster", "pool", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "pool"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
pool = { type = "VARCHAR", doc = "pool_level.pool: GPU model or virtual cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the day" }
idle_while_pending_gpu_s = { type = "DOUBLE", doc = "GPU-seconds free while as many were waited for", unit = "s" }
idle_while_pending_minute_count = { type = "BIGINT", doc = "minutes in which any was", unit = "count" }
free_gpu_s = { type = "DOUBLE", doc = "GPU-seconds free at all", unit = "s" }
pending_gpu_s = { type = "DOUBLE", doc = "GPU-seconds waited for in this pool alone, without demand for any model", unit = "s" }
idle_ratio = { type = "DOUBLE", doc = "idle_while_pending_gpu_s by GPU-seconds in service", unit = "ratio" }
known_minute_count = { type = "BIGINT", doc = "minutes for which both are known", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "known_minute_count of 1440, times the share of attempts whose GPUs are known", unit = "ratio" }
*/
WITH served AS (
    SELECT
        *,
        CASE WHEN pool <> 'any' THEN least(free_gpu_count, pending_gpu_count) + 0 * free_gpu_count END AS own,
        coalesce(sum(pending_gpu_count) FILTER (pool = 'any') OVER moment, 0) AS any_pending
    FROM pool_level
    WINDOW moment AS (PARTITION BY cluster, start_ts)
),
shared AS (
    SELECT
        *,
        free_gpu_count - own AS left_over,
        sum(free_gpu_count - own) OVER (PARTITION BY cluster, start_ts) AS left_over_all
    FROM served
),
minute AS (
    SELECT
        *,
        own + CASE WHEN left_over_all > 0 THEN least(any_pending, left_over_all) * left_over / left_over_all ELSE 0 END AS idle
    FROM shared
    WHERE pool <> 'any'
)
SELECT
    cluster, pool,
    date_trunc('day', start_ts)::TIMESTAMP AS day_ts,
    (60 * sum(idle * minute_count))::DOUBLE AS idle_while_pending_gpu_s,
    CASE WHEN count(idle) > 0 THEN coalesce(sum(minute_count) FILTER (idle > 0), 0) END::BIGINT AS idle_while_pending_minute_count,
    (60 * sum(free_gpu_count * minute_count))::DOUBLE AS free_gpu_s,
    (60 * sum(pending_gpu_count * minute_count))::DOUBLE AS pending_gpu_s,
    sum(idle * minute_count) / nullif(sum(in_service_gpu_count * minute_count), 0) AS idle_ratio,
    coalesce(sum(minute_count) FILTER (idle IS NOT NULL), 0)::BIGINT AS known_minute_count,
    coalesce(sum(minute_count * coverage_ratio) FILTER (idle IS NOT NULL), 0) / 1440 AS coverage_ratio
FROM minute
GROUP BY ALL
