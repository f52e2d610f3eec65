/*
doc = """
How the free GPUs lie over the nodes in service: how many nodes have how many of their GPUs free, read at full minutes, from one minute to the
next change in the pool. GPUs and CPUs per node come from accounting, which states the sum of an attempt: an even split over its nodes is
assumed. Allocations whose nodes are not recorded are not seen, which shows in coverage_ratio.
"""
grain = ["cluster", "pool", "start_ts", "node_gpu_count", "free_gpu_count", "has_free_cpu"]
time = "start_ts"
sort = ["cluster", "start_ts", "pool"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
pool = { type = "VARCHAR", doc = "model of the nodes' GPUs; '' if not known" }
start_ts = { type = "TIMESTAMP", doc = "the first minute for which it is so" }
minute_count = { type = "BIGINT", doc = "minutes for which it stays so, within the day", unit = "count" }
node_gpu_count = { type = "DOUBLE", doc = "GPUs such a node has", unit = "count" }
free_gpu_count = { type = "DOUBLE", doc = "GPUs of it that no job holds", unit = "count" }
has_free_cpu = { type = "BOOLEAN", doc = "false: all its CPUs are held, so its free GPUs cannot be used; true also where CPUs are not known" }
node_count = { type = "BIGINT", doc = "nodes that are so", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "share of the cluster's allocations of the day whose nodes and GPUs are known; 1 if there are none", unit = "ratio" }
*/
WITH held AS (
    SELECT
        cluster,
        node_list,
        coalesce(alloc_gpu_amount, alloc_gpus)::DOUBLE / nullif(len(node_list), 0) AS gpus,
        coalesce(alloc_cpus, 0)::DOUBLE / nullif(len(node_list), 0) AS cpus,
        start_ts,
        greatest(start_ts, coalesce(end_ts, observed_ts, start_ts)) AS end_ts
    FROM job_attempt
    WHERE start_ts IS NOT NULL AND gpu_count_source IS DISTINCT FROM 'no_gpu_entry'
),
held_day AS (
    SELECT *, unnest(generate_series(
        date_trunc('day', start_ts),
        greatest(date_trunc('day', start_ts), end_ts - INTERVAL 1 MICROSECOND),
        INTERVAL 1 DAY
    ))::TIMESTAMP AS day_ts
    FROM held
),
known AS (
    SELECT cluster, day_ts, count(gpus) / count(*)::DOUBLE AS coverage_ratio
    FROM held_day
    GROUP BY ALL
),
change AS (
    SELECT cluster, day_ts, unnest(node_list) AS node,
        greatest(start_ts, day_ts) AS ts, least(end_ts, day_ts + INTERVAL 1 DAY) AS end_ts,
        gpus, cpus, 0 AS up
    FROM held_day
    WHERE gpus IS NOT NULL
    UNION ALL
    SELECT cluster, day_ts, node, start_ts, end_ts, 0, 0, 1
    FROM node_service
    WHERE is_in_service
),
node_delta AS (
    SELECT
        cluster, day_ts, node,
        date_trunc('minute', at_ts + INTERVAL 59999999 MICROSECOND)::TIMESTAMP AS minute_ts,
        sum(sign * gpus) AS gpus, sum(sign * cpus) AS cpus, sum(sign * up) AS up
    FROM (SELECT *, ts AS at_ts, 1 AS sign FROM change UNION ALL SELECT *, end_ts, -1 FROM change)
    GROUP BY ALL
),
node_level AS (
    SELECT
        cluster, day_ts, node, minute_ts,
        coalesce(lead(minute_ts) OVER one, day_ts + INTERVAL 1 DAY) AS until_ts,
        sum(gpus) OVER one AS gpus, sum(cpus) OVER one AS cpus, sum(up) OVER one AS up
    FROM node_delta
    WINDOW one AS (PARTITION BY cluster, day_ts, node ORDER BY minute_ts)
),
node_day AS (
    SELECT cluster, day_ts, node, max(gpu_count) AS gpu_count, max(cpu_count) AS cpu_count, any_value(gpu_model) AS pool
    FROM node_service
    WHERE gpu_count > 0
    GROUP BY ALL
),
class AS (
    SELECT
        l.cluster, l.day_ts, n.pool, l.minute_ts, l.until_ts,
        n.gpu_count AS node_gpu_count,
        greatest(0, round(n.gpu_count - l.gpus, 3)) AS free_gpu_count,
        coalesce(round(l.cpus, 3) < n.cpu_count, true) AS has_free_cpu
    FROM node_level AS l
    JOIN node_day AS n USING (cluster, day_ts, node)
    WHERE l.up > 0 AND l.minute_ts < l.until_ts
),
class_delta AS (
    SELECT cluster, day_ts, pool, node_gpu_count, free_gpu_count, has_free_cpu, at_ts AS minute_ts, sum(sign) AS nodes
    FROM (SELECT *, minute_ts AS at_ts, 1 AS sign FROM class UNION ALL SELECT *, until_ts, -1 FROM class)
    GROUP BY ALL
),
moment AS (
    SELECT *, date_diff('minute', minute_ts, coalesce(
        lead(minute_ts) OVER (PARTITION BY cluster, day_ts, pool ORDER BY minute_ts), day_ts + INTERVAL 1 DAY
    )) AS minute_count
    FROM (
        SELECT cluster, day_ts, pool, minute_ts
        FROM class_delta
        WHERE minute_ts < day_ts + INTERVAL 1 DAY
        GROUP BY ALL
    )
),
level AS (
    SELECT
        m.cluster, m.day_ts, m.pool, m.minute_ts, m.minute_count, c.node_gpu_count, c.free_gpu_count, c.has_free_cpu,
        sum(d.nodes) OVER (
            PARTITION BY m.cluster, m.day_ts, m.pool, c.node_gpu_count, c.free_gpu_count, c.has_free_cpu
            ORDER BY m.minute_ts ROWS UNBOUNDED PRECEDING
        ) AS node_count
    FROM moment AS m
    JOIN (SELECT DISTINCT cluster, day_ts, pool, node_gpu_count, free_gpu_count, has_free_cpu FROM class_delta) AS c
        USING (cluster, day_ts, pool)
    LEFT JOIN class_delta AS d USING (cluster, day_ts, pool, node_gpu_count, free_gpu_count, has_free_cpu, minute_ts)
)
SELECT
    l.cluster, l.pool, l.minute_ts AS start_ts, l.minute_count, l.node_gpu_count,
    l.free_gpu_count::DOUBLE AS free_gpu_count,
    l.has_free_cpu,
    l.node_count::BIGINT AS node_count,
    coalesce(k.coverage_ratio, 1) AS coverage_ratio
FROM level AS l
LEFT JOIN known AS k USING (cluster, day_ts)
WHERE l.node_count > 0
