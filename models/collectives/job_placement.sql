/*
doc = """
Whether a job is slow because of where its nodes are: one row per attempt of several nodes, day and
level of the network, with the number of racks, leaf switches or NVLink domains it spans and its speed
against jobs of the same shape in the 14 days up to that day which span fewer. Placement is only blamed
when other jobs that span as many are slow too.

Speed is bus bandwidth between nodes, for exactly the same function, size, ranks and nodes; where nobody
recorded it, the length of steps of jobs with the same user, name and GPUs.
"""
grain = ["cluster", "job_id", "attempt", "level", "day_ts"]
time = "day_ts"
lookback = "14d"
sort = ["job_id", "level"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt" }
level = { type = "VARCHAR", doc = "nvlink_domain, leaf_switch or rack, from inventory_gpu_span; a node without NVLink domain is its own" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
principal = { type = "VARCHAR", doc = "user who submitted the job" }
node = { type = "VARCHAR[]", doc = "nodes of the allocation" }
node_count = { type = "INTEGER", doc = "nodes", unit = "count" }
gpu_count = { type = "INTEGER", doc = "GPUs, where recorded", unit = "count" }
span_count = { type = "BIGINT", doc = "racks, switches or domains that the nodes belong to, as far as placed", unit = "count" }
least_span_count = { type = "BIGINT", doc = "fewest that could hold so many nodes: nodes / most nodes of any, rounded up", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "nodes of the job that the inventory places", unit = "ratio" }
compact_job_count = { type = "BIGINT", doc = "comparable jobs that span fewer", unit = "count" }
spread_job_count = { type = "BIGINT", doc = "other comparable jobs that span as many", unit = "count" }
basis = { type = "VARCHAR", doc = "busbw or step_s: what the jobs were compared by; NULL where neither was recorded" }
busbw_ratio = { type = "DOUBLE", doc = "median over sizes of the job's bus bandwidth over the median of the jobs that span fewer", unit = "ratio" }
spread_busbw_ratio = { type = "DOUBLE", doc = "the same for the other jobs that span as many", unit = "ratio" }
step_ratio = { type = "DOUBLE", doc = "median step of the job over the median of the jobs that span fewer", unit = "ratio" }
spread_step_ratio = { type = "DOUBLE", doc = "the same for the other jobs that span as many", unit = "ratio" }
start_ts = { type = "TIMESTAMP", doc = "first record of speed that day" }
end_ts = { type = "TIMESTAMP", doc = "last record of speed that day" }
verdict = { type = "VARCHAR", doc = "is_the_problem, is_not_the_problem, unclear, too_few_comparable_jobs, not_evaluable" }
reason = { type = "VARCHAR", doc = "why" }

[params.max_busbw_ratio]
default = 0.90
doc = "ratio; bandwidth below it is slow. As busbw_change.max_ratio."
[params.min_step_ratio]
default = 1.03
doc = "ratio; a longer step is slow. Median of 3 above max(3 %, 3 sigma) gave 0 alarms on four healthy public step-time series."
[params.min_compact_jobs]
default = 3
doc = "count; fewer jobs that span less give no median."
[params.min_spread_jobs]
default = 2
doc = "count; other jobs that span as many, to tell placement from anything else about this job."
*/
WITH placed_node AS (
    SELECT
        cluster, node,
        unnest(['nvlink_domain', 'leaf_switch', 'rack']) AS level,
        unnest([coalesce(arg_max(nvlink_domain, start_ts), node), arg_max(leaf_switch, start_ts),
                arg_max(rack, start_ts)]) AS place
    FROM inventory_gpu_span
    GROUP BY cluster, node
),

capacity AS (
    SELECT cluster, level, max(nodes) AS most_nodes
    FROM (
        SELECT cluster, level, place, count(*) AS nodes
        FROM placed_node
        WHERE place IS NOT NULL
        GROUP BY ALL
    )
    GROUP BY ALL
),

attempt AS (
    SELECT
        cluster, job_id, attempt, raw_job_id, principal, job_name, start_ts, node_list,
        len(node_list)::INTEGER AS node_count,
        alloc_gpus,
        array_to_string(gpu_models, ',') AS models
    FROM job_attempt
    WHERE start_ts IS NOT NULL AND len(node_list) > 1
),

span AS (
    SELECT
        a.cluster, job_id, attempt, level,
        count(DISTINCT place) AS span_count,
        count(place) / count(*) AS coverage_ratio
    FROM (SELECT *, unnest(node_list) AS node FROM attempt) AS a
    JOIN placed_node USING (cluster, node)
    GROUP BY ALL
),

-- Records may carry the run's own number, and name no attempt: they belong to the one started last.
named AS (
    SELECT cluster, unnest(list_distinct([job_id, raw_job_id])) AS stated_job_id, job_id, attempt,
        start_ts AS began_ts
    FROM attempt
),

-- What makes jobs comparable, and how fast each was, one row per job, day and kind of work.
speed AS (
    SELECT
        c.cluster, n.job_id, attempt, day_ts, 'busbw' AS basis,
        concat_ws(' ', function, size_bytes, n_ranks, n_nodes, timing_source) AS work,
        median(busbw_bytes_per_s) AS speed,
        min(first_ts) AS start_ts,
        max(last_ts) AS end_ts
    FROM comm_perf_day AS c
    ASOF JOIN named AS n
        ON c.cluster = n.cluster AND c.job_id = n.stated_job_id AND c.first_ts >= n.began_ts
    WHERE n_nodes > 1
    GROUP BY ALL
    UNION ALL
    SELECT
        s.cluster, s.job_id, s.attempt, date_trunc('day', s.ts)::TIMESTAMP AS day_ts,
        'step_s' AS basis,
        concat_ws(' ', principal, job_name, alloc_gpus, models) AS work,
        1 / median(step_s) AS speed,
        min(s.ts) AS start_ts,
        max(s.ts) AS end_ts
    FROM step_sample AS s
    JOIN attempt USING (cluster, job_id, attempt)
    WHERE step_s > 0 AND time_basis <> 'relative'
    GROUP BY ALL
),

job_speed AS (
    SELECT *
    FROM speed
    JOIN span USING (cluster, job_id, attempt)
),

-- Each job and day against the others of the same work in the 14 days up to it.
pair AS (
    SELECT
        j.cluster, j.job_id, j.attempt, j.level, j.day_ts, j.basis, j.work, j.span_count,
        o.job_id AS other_job_id,
        o.attempt AS other_attempt,
        o.span_count < j.span_count AS is_compact,
        median(o.speed) AS speed
    FROM job_speed AS j
    JOIN job_speed AS o
        ON j.cluster = o.cluster AND j.level = o.level AND j.basis = o.basis AND j.work = o.work
        AND o.day_ts BETWEEN j.day_ts - INTERVAL 14 DAY AND j.day_ts
        AND (o.job_id, o.attempt) <> (j.job_id, j.attempt)
    WHERE o.coverage_ratio = 1 AND o.span_count <= j.span_count
    GROUP BY ALL
),

work_ratio AS (
    SELECT
        cluster, job_id, attempt, level, day_ts, basis, work,
        median(speed) FILTER (is_compact) AS compact_speed,
        median(speed) FILTER (NOT is_compact) / compact_speed AS spread_ratio
    FROM pair
    GROUP BY ALL
),

ratio AS (
    SELECT
        cluster, job_id, attempt, level, day_ts, basis,
        median(speed / compact_speed) AS ratio,
        median(spread_ratio) AS spread_ratio
    FROM job_speed
    JOIN work_ratio USING (cluster, job_id, attempt, level, day_ts, basis, work)
    GROUP BY ALL
),

others AS (
    SELECT
        cluster, job_id, attempt, level, day_ts, basis,
        count(DISTINCT (other_job_id, other_attempt)) FILTER (is_compact) AS compact_job_count,
        count(DISTINCT (other_job_id, other_attempt)) FILTER (NOT is_compact) AS spread_job_count
    FROM pair
    GROUP BY ALL
),

job_day AS (
    SELECT
        cluster, job_id, attempt, level, day_ts, span_count, coverage_ratio,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts,
        min(basis) AS basis
    FROM job_speed
    GROUP BY ALL
),

joined AS (
    SELECT
        d.*, principal, node_list AS node, node_count, alloc_gpus AS gpu_count,
        ceil(node_count / most_nodes)::BIGINT AS least_span_count,
        coalesce(compact_job_count, 0) AS compact_job_count,
        coalesce(spread_job_count, 0) AS spread_job_count,
        b.ratio AS busbw_ratio,
        b.spread_ratio AS spread_busbw_ratio,
        1 / t.ratio AS step_ratio,
        1 / t.spread_ratio AS spread_step_ratio
    FROM job_day AS d
    JOIN attempt USING (cluster, job_id, attempt)
    JOIN capacity USING (cluster, level)
    LEFT JOIN others USING (cluster, job_id, attempt, level, day_ts, basis)
    LEFT JOIN ratio AS b
        ON (d.cluster, d.job_id, d.attempt, d.level, d.day_ts, 'busbw')
            = (b.cluster, b.job_id, b.attempt, b.level, b.day_ts, b.basis)
    LEFT JOIN ratio AS t
        ON (d.cluster, d.job_id, d.attempt, d.level, d.day_ts, 'step_s')
            = (t.cluster, t.job_id, t.attempt, t.level, t.day_ts, t.basis)
),

judged AS (
    SELECT
        *,
        CASE basis
            WHEN 'busbw' THEN busbw_ratio < getvariable('max_busbw_ratio')
            ELSE step_ratio > getvariable('min_step_ratio')
        END AS is_slow,
        CASE basis
            WHEN 'busbw' THEN spread_busbw_ratio < (1 + getvariable('max_busbw_ratio')) / 2
            ELSE spread_step_ratio > (1 + getvariable('min_step_ratio')) / 2
        END AS are_spread_slow
    FROM joined
)

SELECT
    cluster, job_id, attempt, level, day_ts, principal, node, node_count, gpu_count, span_count,
    least_span_count, coverage_ratio, compact_job_count, spread_job_count, basis, busbw_ratio,
    spread_busbw_ratio, step_ratio, spread_step_ratio, start_ts, end_ts,
    CASE
        WHEN coverage_ratio < 1 THEN 'not_evaluable'
        WHEN span_count <= least_span_count THEN 'is_not_the_problem'
        WHEN compact_job_count < getvariable('min_compact_jobs') THEN 'too_few_comparable_jobs'
        WHEN NOT is_slow OR step_ratio <= 1 THEN 'is_not_the_problem'
        WHEN spread_job_count < getvariable('min_spread_jobs') THEN 'unclear'
        WHEN are_spread_slow THEN 'is_the_problem'
        ELSE 'is_not_the_problem'
    END AS verdict,
    CASE
        WHEN coverage_ratio < 1 THEN 'the inventory does not place all of its nodes'
        WHEN span_count <= least_span_count THEN 'as compact as its size allows'
        WHEN compact_job_count < getvariable('min_compact_jobs')
            THEN format('{} comparable jobs span fewer', compact_job_count)
        WHEN NOT is_slow THEN 'as fast as jobs that span fewer'
        WHEN step_ratio <= 1 THEN 'its bandwidth is lower, but its steps are not longer'
        WHEN spread_job_count < getvariable('min_spread_jobs')
            THEN 'slower than jobs that span fewer, but no others span as many'
        WHEN are_spread_slow THEN 'slower than jobs that span fewer, and so are others that span as many'
        ELSE 'slower than jobs that span fewer, but others that span as many are not'
    END AS reason
FROM judged
