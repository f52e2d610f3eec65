/*
doc = """
Fragmentation as in FGD (Weng et al., USENIX ATC 2023), per pool and day: F = sum over nodes n and task classes m of p(m) x F_n(m), with F_n(m) the free GPUs
of node n that a task of class m cannot use, and p(m) the share of class m among the tasks submitted in the 7 days before and on the day.
By free GPUs it is the share of what is free that the usual mix of tasks cannot use.

A class is what a task asks of one node: its GPUs by its nodes, at most the whole node. It cannot use a node with fewer free GPUs, or without a free CPU, at all; else
it cannot use what is left of a GPU when it asks for whole ones. Tasks without GPUs are no class here. Which GPU of a node is shared is not in the records: the shares free on a
node count as lying on one GPU. Memory is not looked at.
"""
grain = ["cluster", "pool", "day_ts"]
time = "day_ts"
lookback = "7d"
sort = ["cluster", "day_ts", "pool"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
pool = { type = "VARCHAR", doc = "free_node_level.pool" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
free_gpu_count = { type = "DOUBLE", doc = "GPUs free on nodes in service, mean over the day", unit = "count" }
fragmented_gpu_count = { type = "DOUBLE", doc = "F, mean over the day; NULL if nothing was submitted", unit = "count" }
fragmentation_ratio = { type = "DOUBLE", doc = "F by free GPUs; NULL if none is free", unit = "ratio" }
task_count = { type = "BIGINT", doc = "tasks with GPUs that the mix rests on", unit = "count" }
class_count = { type = "BIGINT", doc = "classes among them", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "minutes known of 1440, times the share of allocations whose nodes are known", unit = "ratio" }
*/
WITH asked AS (
    SELECT
        cluster,
        date_trunc('day', coalesce(submit_ts, attempt_ts)) AS day_ts,
        coalesce(req_gpu_amount, req_gpus, alloc_gpu_amount, alloc_gpus)::DOUBLE
            / greatest(1, coalesce(req_nodes, alloc_nodes, 1)) AS gpus
    FROM job_attempt
),
asked_day AS (
    SELECT cluster, day_ts, ceil(gpus * if(gpus < 1, 1000, 1)) / if(gpus < 1, 1000, 1) AS gpus, count(*) AS task_count
    FROM asked
    WHERE gpus > 0
    GROUP BY ALL
),
mix AS (
    SELECT cluster, day_ts + n * INTERVAL 1 DAY AS day_ts, gpus, sum(task_count) AS task_count
    FROM asked_day, range(0, 8) AS ahead (n)
    GROUP BY cluster, day_ts + n * INTERVAL 1 DAY, gpus
),
popularity AS (
    SELECT *, task_count / sum(task_count) OVER (PARTITION BY cluster, day_ts) AS p FROM mix
),
class AS (
    SELECT
        cluster, pool, date_trunc('day', start_ts)::TIMESTAMP AS day_ts, node_gpu_count, free_gpu_count, has_free_cpu,
        sum(node_count * minute_count) AS node_minutes
    FROM free_node_level
    GROUP BY ALL
),
minutes AS (
    SELECT
        cluster, pool, date_trunc('day', start_ts)::TIMESTAMP AS day_ts,
        sum(minute_count) AS minute_count,
        sum(minute_count * coverage_ratio) AS covered_count
    FROM (SELECT DISTINCT cluster, pool, start_ts, minute_count, coverage_ratio FROM free_node_level)
    GROUP BY ALL
),
lost AS (
    SELECT
        c.cluster, c.pool, c.day_ts,
        sum(c.node_minutes * p.p * CASE
            WHEN NOT c.has_free_cpu OR c.free_gpu_count < least(p.gpus, c.node_gpu_count) THEN c.free_gpu_count
            WHEN p.gpus >= 1 THEN c.free_gpu_count - floor(c.free_gpu_count)
            ELSE 0
        END) AS fragmented
    FROM class AS c
    JOIN popularity AS p USING (cluster, day_ts)
    GROUP BY ALL
),
free AS (
    SELECT cluster, pool, day_ts, sum(node_minutes * free_gpu_count) AS free FROM class GROUP BY ALL
),
counted AS (
    SELECT cluster, day_ts, sum(task_count)::BIGINT AS task_count, count(*) AS class_count FROM mix GROUP BY ALL
)
SELECT
    cluster, pool, day_ts,
    free / minute_count AS free_gpu_count,
    fragmented / minute_count AS fragmented_gpu_count,
    fragmented / nullif(free, 0) AS fragmentation_ratio,
    coalesce(task_count, 0) AS task_count,
    coalesce(class_count, 0) AS class_count,
    covered_count / 1440 AS coverage_ratio
FROM minutes
JOIN free USING (cluster, pool, day_ts)
LEFT JOIN lost USING (cluster, pool, day_ts)
LEFT JOIN counted USING (cluster, day_ts)
