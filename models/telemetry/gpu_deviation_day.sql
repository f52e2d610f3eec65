/*
doc = """
What the comparison of each GPU with its peers saw in a day, and what a silent day means: the share of the day that
could be judged, why the rest could not, and the smallest lasting change per signal that would have been found. NULL:
no change of that signal could have been found.
"""
grain = ["cluster", "node", "gpu_uuid", "day_ts"]
time = "day_ts"
sort = ["cluster", "node", "gpu_uuid"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
window_count = { type = "BIGINT", doc = "five-minute windows in which the GPU was seen", unit = "count" }
compared_window_count = { type = "BIGINT", doc = "of them, compared with peers", unit = "count" }
judged_window_count = { type = "BIGINT", doc = "of them, with a limit for any signal", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "judged windows of the day's 288", unit = "ratio" }
main_obstacle = { type = "VARCHAR", doc = "most frequent reason why a window was not compared (gpu_job_5min.obstacle)" }
clock_detectable_ratio = { type = "DOUBLE", doc = "smallest lasting loss of multiprocessor clock that would have been found: median over the judged windows", unit = "ratio" }
compute_detectable_ratio = { type = "DOUBLE", doc = "the same for compute time", unit = "ratio" }
tensor_detectable_ratio = { type = "DOUBLE", doc = "the same for work done", unit = "ratio" }
dram_detectable_ratio = { type = "DOUBLE", doc = "the same for memory time per work", unit = "ratio" }
power_detectable_ratio = { type = "DOUBLE", doc = "the same for power", unit = "ratio" }
clock_deviation = { type = "DOUBLE", doc = "median deviation of the multiprocessor clock", unit = "ratio" }
lasting_window_count = { type = "BIGINT", doc = "windows in which any signal's deviation lasted", unit = "count" }
*/
WITH seen AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', window_ts)::TIMESTAMP AS day_ts, obstacle, count(*) AS windows
    FROM gpu_job_5min
    GROUP BY ALL
),
seen_day AS (
    SELECT
        cluster, node, gpu_uuid, day_ts,
        sum(windows)::BIGINT AS window_count,
        coalesce(sum(windows) FILTER (obstacle IS NULL), 0)::BIGINT AS compared_window_count,
        max((windows, obstacle)) FILTER (obstacle IS NOT NULL)[2] AS main_obstacle
    FROM seen
    GROUP BY ALL
),
judged AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', window_ts)::TIMESTAMP AS day_ts,
        count(DISTINCT window_ts) AS judged_window_count,
        median(detectable_ratio) FILTER (signal = 'sm_clock_mhz') AS clock_detectable_ratio,
        median(detectable_ratio) FILTER (signal = 'compute_s') AS compute_detectable_ratio,
        median(detectable_ratio) FILTER (signal = 'tensor_rate_mhz') AS tensor_detectable_ratio,
        median(detectable_ratio) FILTER (signal = 'dram_per_tensor_s') AS dram_detectable_ratio,
        median(detectable_ratio) FILTER (signal = 'power_w') AS power_detectable_ratio,
        median(deviation) FILTER (signal = 'sm_clock_mhz') AS clock_deviation,
        count(DISTINCT window_ts) FILTER (is_lasting) AS lasting_window_count
    FROM gpu_deviation_5min
    GROUP BY ALL
)
SELECT
    cluster, node, gpu_uuid, day_ts, window_count, compared_window_count,
    coalesce(judged_window_count, 0) AS judged_window_count,
    coalesce(judged_window_count, 0) / 288 AS coverage_ratio,
    main_obstacle, clock_detectable_ratio, compute_detectable_ratio, tensor_detectable_ratio,
    dram_detectable_ratio, power_detectable_ratio, clock_deviation,
    coalesce(lasting_window_count, 0) AS lasting_window_count
FROM seen_day
LEFT JOIN judged USING (cluster, node, gpu_uuid, day_ts)
