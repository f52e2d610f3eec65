/*
doc = """
GPUs of a pool, read at full minutes, from one minute to the next change in the cluster: installed, in service, held by jobs, free, and waited for. From scheduler
records a pool is the GPUs of one model in a cluster; demand whose model is not known stands in pool 'any' where the cluster has
several models, as does what names a model of which the cluster has no node. From data sets of virtual clusters it is the virtual cluster.

Levels are running sums over starts and ends within the day. An attempt waits from eligible (else submit) to its start, its end or the
last observation of it; it waits for the model it got in the end, for any if it never started. free: in service and not held, GPUs of closed nodes
left out; NULL if the capacity, or whether nodes are in service, is not known, or while jobs hold GPUs of which neither model nor node is recorded. Days without any attempt have no rows.
"""
grain = ["cluster", "pool", "start_ts"]
time = "start_ts"
sort = ["cluster", "start_ts", "pool"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
pool = { type = "VARCHAR", doc = "GPU model, any, or virtual cluster; '' where no model is known" }
start_ts = { type = "TIMESTAMP", doc = "the first minute for which it is so" }
minute_count = { type = "BIGINT", doc = "minutes for which it stays so, within the day; changes of any pool of the cluster begin new rows in all of them", unit = "count" }
installed_gpu_count = { type = "DOUBLE", doc = "GPUs installed; NULL if not known", unit = "count" }
in_service_gpu_count = { type = "DOUBLE", doc = "of these in service; NULL if nobody reported on the state of nodes", unit = "count" }
allocated_gpu_count = { type = "DOUBLE", doc = "held by jobs", unit = "count" }
free_gpu_count = { type = "DOUBLE", doc = "in service and held by no job", unit = "count" }
pending_gpu_count = { type = "DOUBLE", doc = "asked for by eligible attempts that have not started", unit = "count" }
pending_attempt_count = { type = "BIGINT", doc = "those attempts; NULL where only GPUs are recorded", unit = "count" }
pending_work_gpu_s = { type = "DOUBLE", doc = "GPU-seconds they are expected to take: GPUs x the smaller of time limit and expected_run_day, where either is known", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "share of the attempts then open whose GPUs are known; 1 if none is open", unit = "ratio" }
*/
WITH attempt AS (
    SELECT
        a.cluster,
        coalesce(a.principal, '') AS principal,
        CASE WHEN len(a.gpu_models) = 1 THEN coalesce(n.gpu_model, a.gpu_models[1]) END AS gpu_model,
        a.node_list[1] AS first_node,
        a.start_ts,
        CASE WHEN a.start_ts IS NOT NULL THEN greatest(a.start_ts, coalesce(a.end_ts, a.observed_ts, a.start_ts)) END AS until_ts,
        coalesce(a.eligible_ts, a.submit_ts) AS wait_ts,
        coalesce(a.start_ts, a.end_ts, if(a.phase < 2, a.observed_ts, NULL)) AS wait_until_ts,
        coalesce(a.alloc_gpu_amount, a.alloc_gpus, if(a.gpu_count_source = 'no_gpu_entry', 0, NULL))::DOUBLE AS alloc_gpus,
        coalesce(a.req_gpu_amount, a.req_gpus, a.alloc_gpu_amount, a.alloc_gpus)::DOUBLE AS req_gpus,
        a.timelimit_s,
        w.size_bucket
    FROM job_attempt AS a
    LEFT JOIN job_wait AS w ON w.cluster = a.cluster AND w.job_id = a.job_id AND w.attempt = a.attempt
    LEFT JOIN gpu_model_alias AS n ON n.raw_model = a.gpu_models[1]
),
-- Each attempt's wait and run, cut at midnight: every day stands on its own.
span AS (
    SELECT *, 'run' AS kind, start_ts AS from_ts, until_ts AS to_ts, alloc_gpus AS gpus
    FROM attempt WHERE start_ts IS NOT NULL
    UNION ALL
    SELECT *, 'wait', wait_ts, wait_until_ts, req_gpus
    FROM attempt WHERE wait_until_ts > wait_ts
),
piece AS (
    SELECT *, greatest(from_ts, day_ts) AS piece_ts, least(to_ts, day_ts + INTERVAL 1 DAY) AS piece_end_ts
    FROM (
        SELECT *, unnest(generate_series(
            date_trunc('day', from_ts),
            greatest(date_trunc('day', from_ts), to_ts - INTERVAL 1 MICROSECOND),
            INTERVAL 1 DAY
        ))::TIMESTAMP AS day_ts
        FROM span
    )
),
model_day AS (
    SELECT
        cluster, day_ts,
        CASE WHEN count(DISTINCT gpu_model) = 1 THEN any_value(gpu_model) END AS only_model,
        list(DISTINCT gpu_model) AS models
    FROM node_service
    WHERE gpu_count > 0
    GROUP BY ALL
),
node_model AS (
    SELECT cluster, node, day_ts, any_value(gpu_model) AS gpu_model
    FROM node_service
    WHERE gpu_count > 0 AND gpu_model NOT IN ('', 'mixed')
    GROUP BY ALL
),
pooled AS (
    SELECT
        p.cluster, p.day_ts, p.kind, p.gpus, p.piece_ts, p.piece_end_ts,
        CASE
            WHEN m.cluster IS NULL THEN coalesce(p.gpu_model, '')
            ELSE coalesce(n.gpu_model, m.only_model, if(list_contains(m.models, p.gpu_model), p.gpu_model, NULL), 'any')
        END AS pool,
        if(p.kind = 'wait', p.gpus * coalesce(least(p.timelimit_s, e.run_expected_s), 0), 0) AS work_gpu_s
    FROM piece AS p
    LEFT JOIN node_model AS n ON n.cluster = p.cluster AND n.node = p.first_node AND n.day_ts = p.day_ts
    LEFT JOIN model_day AS m ON m.cluster = p.cluster AND m.day_ts = p.day_ts
    LEFT JOIN expected_run_day AS e
        ON e.cluster = p.cluster AND e.principal = p.principal AND e.size_bucket = p.size_bucket AND e.day_ts = p.day_ts
),
-- What allocations hold on nodes while these are closed: held, but not out of what is in service.
on_closed AS (
    SELECT
        h.cluster, s.day_ts, s.gpu_model AS pool, h.gpu_count AS gpus,
        greatest(h.start_ts, s.start_ts) AS piece_ts,
        least(coalesce(h.end_ts, h.observed_ts), s.end_ts) AS piece_end_ts
    FROM gpu_allocation AS h
    JOIN node_service AS s
        ON s.cluster = h.cluster AND s.node = h.node
        AND s.start_ts < coalesce(h.end_ts, h.observed_ts) AND s.end_ts > h.start_ts
    WHERE s.is_in_service = false
),
change AS (
    SELECT cluster, day_ts, pool, piece_ts AS ts, piece_end_ts AS end_ts,
        0.0 AS installed, 0.0 AS in_service, 0 AS unknown,
        if(kind = 'run', coalesce(gpus, 0), 0) AS allocated,
        0.0 AS closed,
        if(kind = 'wait', coalesce(gpus, 0), 0) AS pending,
        (kind = 'wait' AND coalesce(gpus, 1) > 0)::INTEGER AS pending_attempts,
        coalesce(work_gpu_s, 0) AS work_gpu_s,
        1 AS open,
        (gpus IS NOT NULL)::INTEGER AS known
    FROM pooled
    UNION ALL
    SELECT cluster, day_ts, gpu_model, start_ts, end_ts, gpu_count,
        if(is_in_service, gpu_count, 0), (is_in_service IS NULL)::INTEGER, 0, 0, 0, 0, 0, 0, 0
    FROM node_service
    WHERE gpu_count > 0
    UNION ALL
    SELECT cluster, day_ts, pool, piece_ts, piece_end_ts, 0, 0, 0, 0, gpus, 0, 0, 0, 0, 0
    FROM on_closed
    WHERE gpus IS NOT NULL
),
-- A change counts from the first minute that begins at or after it.
delta AS (
    SELECT
        cluster, day_ts, pool,
        date_trunc('minute', at_ts + INTERVAL 59999999 MICROSECOND)::TIMESTAMP AS minute_ts,
        sum(sign * installed) AS installed, sum(sign * in_service) AS in_service, sum(sign * unknown) AS unknown,
        sum(sign * allocated) AS allocated, sum(sign * closed) AS closed, sum(sign * pending) AS pending,
        sum(sign * pending_attempts) AS pending_attempts, sum(sign * work_gpu_s) AS work_gpu_s,
        sum(sign * open) AS open, sum(sign * known) AS known
    FROM (
        SELECT *, ts AS at_ts, 1 AS sign FROM change
        UNION ALL
        SELECT *, end_ts AS at_ts, -1 AS sign FROM change
    )
    GROUP BY ALL
),
moment AS (
    SELECT *, date_diff('minute', minute_ts, coalesce(
        lead(minute_ts) OVER (PARTITION BY cluster, day_ts ORDER BY minute_ts), day_ts + INTERVAL 1 DAY
    )) AS minute_count
    FROM (
        SELECT cluster, day_ts, minute_ts FROM delta WHERE minute_ts < day_ts + INTERVAL 1 DAY
        UNION
        SELECT cluster, day_ts, day_ts FROM delta
    )
),
grid AS (
    SELECT m.cluster, m.day_ts, p.pool, m.minute_ts, m.minute_count
    FROM moment AS m
    JOIN (SELECT DISTINCT cluster, day_ts, pool FROM change) AS p USING (cluster, day_ts)
),
seen_day AS (
    SELECT DISTINCT cluster, day_ts FROM pooled
),
level AS (
    SELECT
        g.cluster, g.day_ts, g.pool, g.minute_ts, g.minute_count,
        round(sum(d.installed) OVER upto, 6) AS installed,
        round(sum(d.in_service) OVER upto, 6) AS in_service,
        sum(d.unknown) OVER upto AS unknown,
        round(sum(d.allocated) OVER upto, 6) AS allocated,
        round(sum(d.closed) OVER upto, 6) AS closed,
        round(sum(d.pending) OVER upto, 6) AS pending,
        sum(d.pending_attempts) OVER upto AS pending_attempts,
        round(sum(d.work_gpu_s) OVER upto, 3) AS work_gpu_s,
        sum(d.open) OVER upto AS open,
        sum(d.known) OVER upto AS known
    FROM grid AS g
    LEFT JOIN delta AS d USING (cluster, day_ts, pool, minute_ts)
    WINDOW upto AS (PARTITION BY g.cluster, g.day_ts, g.pool ORDER BY g.minute_ts ROWS UNBOUNDED PRECEDING)
),
-- GPUs held nobody knows where: then it is not known either which pool has how many left.
placed AS (
    SELECT *, coalesce(sum(allocated) FILTER (pool = 'any') OVER (PARTITION BY cluster, minute_ts), 0) AS placeless
    FROM level
)
SELECT
    cluster, pool, minute_ts AS start_ts, minute_count,
    CASE WHEN installed > 0 THEN installed END::DOUBLE AS installed_gpu_count,
    CASE WHEN installed > 0 AND unknown = 0 THEN in_service END::DOUBLE AS in_service_gpu_count,
    coalesce(allocated, 0)::DOUBLE AS allocated_gpu_count,
    CASE WHEN installed > 0 AND unknown = 0 AND placeless = 0
        THEN greatest(0, in_service - (coalesce(allocated, 0) - coalesce(closed, 0))) END::DOUBLE AS free_gpu_count,
    coalesce(pending, 0)::DOUBLE AS pending_gpu_count,
    coalesce(pending_attempts, 0)::BIGINT AS pending_attempt_count,
    coalesce(work_gpu_s, 0)::DOUBLE AS pending_work_gpu_s,
    CASE WHEN open > 0 THEN known / open ELSE 1 END::DOUBLE AS coverage_ratio
FROM placed
SEMI JOIN seen_day USING (cluster, day_ts)
UNION ALL
SELECT
    cluster, vc, date_trunc('minute', ts)::TIMESTAMP, 1,
    total_gpu_count::DOUBLE,
    (running_gpu_count + idle_gpu_count)::DOUBLE,
    running_gpu_count::DOUBLE,
    idle_gpu_count::DOUBLE,
    pending_gpu_count::DOUBLE,
    pending_gpu_job_count::BIGINT,
    NULL,
    1.0
FROM vc_minute
