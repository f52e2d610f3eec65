/*
doc = """
How many gangs of 8, 16, 64, 256 and 1,024 GPUs would fit, per pool and day: whole free nodes in service with a free CPU, by the nodes that a
gang needs (several gangs on a node where they are smaller than it). Free parts of nodes do not count. Nodes of different size do not mix in one gang.
Topology (racks, NVLink domains) is not looked at: an upper bound.
"""
grain = ["cluster", "pool", "day_ts", "gang_gpu_count"]
time = "day_ts"
sort = ["cluster", "day_ts", "pool", "gang_gpu_count"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
pool = { type = "VARCHAR", doc = "free_node_level.pool" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
gang_gpu_count = { type = "INTEGER", doc = "GPUs of a gang", unit = "count" }
last_gang_count = { type = "BIGINT", doc = "gangs that fit at the last change of the day", unit = "count" }
mean_gang_count = { type = "DOUBLE", doc = "mean over the minutes known", unit = "count" }
max_gang_count = { type = "BIGINT", doc = "most", unit = "count" }
none_minute_count = { type = "BIGINT", doc = "minutes in which none fits", unit = "count" }
known_minute_count = { type = "BIGINT", doc = "minutes in which any node of the pool is known to be in service", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "known_minute_count of 1440, times the share of allocations whose nodes are known", unit = "ratio" }
*/
WITH gang AS (
    SELECT unnest([8, 16, 64, 256, 1024])::INTEGER AS gang_gpu_count
),
size AS (
    SELECT
        cluster, pool, start_ts, minute_count, coverage_ratio, node_gpu_count,
        coalesce(sum(node_count) FILTER (free_gpu_count = node_gpu_count AND has_free_cpu), 0) AS whole_count
    FROM free_node_level
    GROUP BY ALL
),
fit AS (
    SELECT
        cluster, pool, start_ts, gang_gpu_count,
        any_value(minute_count) AS minute_count,
        any_value(coverage_ratio) AS coverage_ratio,
        sum(
            CASE WHEN node_gpu_count >= gang_gpu_count THEN whole_count * floor(node_gpu_count / gang_gpu_count)
            ELSE floor(whole_count / ceil(gang_gpu_count / node_gpu_count)) END
        )::BIGINT AS gang_count
    FROM size, gang
    GROUP BY ALL
)
SELECT
    cluster, pool,
    date_trunc('day', start_ts)::TIMESTAMP AS day_ts,
    gang_gpu_count,
    arg_max(gang_count, start_ts) AS last_gang_count,
    sum(gang_count * minute_count) / sum(minute_count) AS mean_gang_count,
    max(gang_count) AS max_gang_count,
    coalesce(sum(minute_count) FILTER (gang_count = 0), 0)::BIGINT AS none_minute_count,
    sum(minute_count)::BIGINT AS known_minute_count,
    sum(minute_count * coverage_ratio) / 1440 AS coverage_ratio
FROM fit
GROUP BY ALL
