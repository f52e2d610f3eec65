/*
doc = """
GPU-seconds of each node and day: installed, out of service, held by jobs. A node that is closed but still runs
jobs is in service for the GPUs they hold, so that allocated is never more than in service because of a drain.
Allocations without nodes in their record stand under node ''.
"""
grain = ["cluster", "node", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "node"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
node = { type = "VARCHAR", doc = "node; '' for allocations whose nodes are not recorded" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
gpu_model = { type = "VARCHAR", doc = "node_service.gpu_model; of a node that is not listed the model of its jobs; '' if not known" }
installed_gpu_s = { type = "DOUBLE", doc = "GPUs installed times the day; NULL if not known", unit = "s" }
out_of_service_gpu_s = { type = "DOUBLE", doc = "of these out of service and held by no job; NULL if nobody reported on the state of nodes", unit = "s" }
in_service_gpu_s = { type = "DOUBLE", doc = "installed less out of service", unit = "s" }
allocated_gpu_s = { type = "DOUBLE", doc = "held by jobs; NULL if jobs ran on it and none states its GPUs", unit = "s" }
allocated_closed_gpu_s = { type = "DOUBLE", doc = "of these on the node while it was closed", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "share of the day's node-seconds of jobs with known GPUs, 1 if no job ran", unit = "ratio" }
*/
WITH held AS (
    SELECT
        cluster, node, gpu_count, gpu_model,
        start_ts,
        greatest(start_ts, coalesce(end_ts, observed_ts, start_ts)) AS end_ts
    FROM gpu_allocation
    UNION ALL
    -- job_attempt counts GPUs where it does not name nodes.
    SELECT
        cluster, '', coalesce(alloc_gpu_amount, alloc_gpus)::DOUBLE,
        CASE WHEN len(gpu_models) = 1 THEN gpu_models[1] END,
        start_ts, greatest(start_ts, coalesce(end_ts, observed_ts, start_ts))
    FROM job_attempt
    WHERE start_ts IS NOT NULL AND coalesce(len(node_list), 0) = 0
),
held_day AS (
    SELECT
        cluster, node, gpu_count, gpu_model, day_ts,
        greatest(start_ts, day_ts) AS start_ts,
        least(end_ts, day_ts + INTERVAL 1 DAY) AS end_ts
    FROM (
        SELECT *, unnest(generate_series(
            date_trunc('day', start_ts),
            greatest(date_trunc('day', start_ts), end_ts - INTERVAL 1 MICROSECOND),
            INTERVAL 1 DAY
        ))::TIMESTAMP AS day_ts
        FROM held
    )
),
allocated AS (
    SELECT
        cluster, node, day_ts,
        sum(gpu_count * epoch(end_ts - start_ts)) AS allocated_gpu_s,
        sum(epoch(end_ts - start_ts)) AS held_s,
        sum(epoch(end_ts - start_ts)) FILTER (gpu_count IS NOT NULL) AS known_s,
        CASE WHEN count(DISTINCT gpu_model) > 1 THEN 'mixed' ELSE any_value(gpu_model) END AS gpu_model
    FROM held_day
    GROUP BY ALL
),
on_closed AS (
    SELECT
        h.cluster, h.node, h.day_ts,
        sum(h.gpu_count * epoch(least(h.end_ts, s.end_ts) - greatest(h.start_ts, s.start_ts))) AS gpu_s
    FROM held_day AS h
    JOIN node_service AS s
        ON s.cluster = h.cluster AND s.node = h.node AND s.day_ts = h.day_ts
        AND s.start_ts < h.end_ts AND s.end_ts > h.start_ts
    WHERE s.is_in_service = false
    GROUP BY ALL
),
offered AS (
    SELECT
        cluster, node, day_ts,
        any_value(gpu_model) AS gpu_model,
        sum(gpu_count * epoch(end_ts - start_ts)) AS installed_gpu_s,
        CASE WHEN count(is_in_service) = count(*)
            THEN coalesce(sum(gpu_count * epoch(end_ts - start_ts)) FILTER (is_in_service = false), 0) END AS closed_gpu_s
    FROM node_service
    GROUP BY ALL
)
SELECT
    cluster, node, day_ts,
    coalesce(nullif(o.gpu_model, ''), a.gpu_model, '') AS gpu_model,
    o.installed_gpu_s::DOUBLE AS installed_gpu_s,
    (if(o.closed_gpu_s > coalesce(c.gpu_s, 0), o.closed_gpu_s - coalesce(c.gpu_s, 0), 0 * o.closed_gpu_s))::DOUBLE
        AS out_of_service_gpu_s,
    (o.installed_gpu_s
        - if(o.closed_gpu_s > coalesce(c.gpu_s, 0), o.closed_gpu_s - coalesce(c.gpu_s, 0), 0 * o.closed_gpu_s))::DOUBLE
        AS in_service_gpu_s,
    CASE WHEN a.held_s IS NULL THEN 0.0 ELSE a.allocated_gpu_s END::DOUBLE AS allocated_gpu_s,
    CASE WHEN a.held_s IS NULL THEN 0.0 WHEN a.allocated_gpu_s IS NOT NULL THEN coalesce(c.gpu_s, 0) END::DOUBLE
        AS allocated_closed_gpu_s,
    CASE WHEN a.held_s > 0 THEN coalesce(a.known_s, 0) / a.held_s ELSE 1 END::DOUBLE AS coverage_ratio
FROM offered AS o
FULL JOIN allocated AS a USING (cluster, node, day_ts)
LEFT JOIN on_closed AS c USING (cluster, node, day_ts)
