/*
doc = """
What each GPU did in every five minutes, in which job, and whether it can be compared with the others of that job:
means over the minutes that have samples. obstacle is NULL where it can be, else the first reason why not.

A GPU belongs to a job when that job is the only one with GPUs on its node for the whole five minutes, and holds as many as
the node shows: accounting records name nodes, not GPUs, so which ones a job of half a node holds is not known. (Where
its count is an even split over nodes, a job that holds its nodes unevenly counts as holding parts.) Host names are the inventory's where it knows the GPU, because an exporter in a pod
reports the pod's. Peers are the comparable GPUs of the same model in the same attempt; of the same pipeline stage
where step records name it and the stage is large enough, because stages do different work.
"""
grain = ["cluster", "node", "gpu_uuid", "window_ts"]
time = "window_ts"
sort = ["node", "gpu_uuid", "window_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host by the inventory; by the exporter where the inventory has no entry" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
window_ts = { type = "TIMESTAMP", doc = "start of the five minutes" }
gpu_model = { type = "VARCHAR", doc = "model name as the driver gives it" }
job_id = { type = "VARCHAR", doc = "the only job with GPUs on the node, which holds all of them or does not say how many; NULL if there is none, or several, or some are free" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt of it", unit = "s" }
pp_stage = { type = "INTEGER", doc = "pipeline stage by step records; NULL where unknown" }
minute_count = { type = "BIGINT", doc = "minutes with a sample of the whole GPU", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "minutes with a sample, of five", unit = "ratio" }
activity_ratio = { type = "DOUBLE", doc = "SM active, else engine active, else GPU utilisation: only for telling work from idling", unit = "ratio" }
sm_clock_mhz = { type = "DOUBLE", doc = "multiprocessor clock", unit = "mhz" }
memory_clock_mhz = { type = "DOUBLE", doc = "memory clock", unit = "mhz" }
tensor_active_ratio = { type = "DOUBLE", doc = "share of cycles with a tensor pipe active", unit = "ratio" }
tensor_rate_mhz = { type = "DOUBLE", doc = "tensor-active cycles per second: share of cycles times clock, the work done", unit = "mhz" }
dram_active_ratio = { type = "DOUBLE", doc = "share of cycles the memory moved data", unit = "ratio" }
dram_per_tensor_s = { type = "DOUBLE", doc = "time the memory moved data per million tensor-active cycles: what the memory takes for the same work", unit = "s" }
power_w = { type = "DOUBLE", doc = "board power", unit = "w" }
power_limit_w = { type = "DOUBLE", doc = "lowest power limit in force", unit = "w" }
gpu_temp_c = { type = "DOUBLE", doc = "core temperature, mean of the minutes' highest", unit = "c" }
throttle_mask = { type = "BIGINT", doc = "all throttle bits seen, or-ed", unit = "bits" }
compute_s = { type = "DOUBLE", doc = "mean compute time of the steps that began here, where step records have clock time", unit = "s" }
peer_basis = { type = "VARCHAR", doc = "stage or job: whom it is compared with; NULL where it is not" }
peer_count = { type = "BIGINT", doc = "comparable GPUs beside it", unit = "count" }
obstacle = { type = "VARCHAR", doc = "why not comparable: mig, no_samples, frozen (every minute printed the same values), no_job, several_jobs, part_of_node, warm_up, idle, few_peers, job_idle" }

[params.warm_up_s]
default = 900
doc = "s from the start of an attempt that are not compared: loading, compiling and filling caches differ from GPU to GPU. Own choice; compilation of large models takes minutes."
[params.min_activity_ratio]
default = 0.05
doc = "ratio; below it the GPU itself does not work. Own choice."
[params.min_job_activity_ratio]
default = 0.20
doc = "ratio; the job's median must reach it: a job that pauses (checkpoint, data stall) compares nothing. Own choice, twice the tensor activity that field notes ask of busy peers, because SM activity is the larger figure."
[params.min_peers]
default = 3
doc = "count; with one peer nobody knows which of the two is off, with two the median is a mean. As in step_straggler."
*/
WITH gpu_window AS (
    SELECT
        cluster, node AS reported_node, gpu_uuid,
        time_bucket(INTERVAL 5 MINUTE, minute_ts) AS window_ts,
        arg_max(gpu_model, minute_ts) AS gpu_model,
        bool_or(mig_instance <> '') AS has_mig,
        count(*) FILTER (whole) AS minute_count,
        -- Real readings move in their last digits; an exporter that hangs repeats all of them.
        count(*) FILTER (whole AND tensor_active_ratio > 0) >= 3
            AND min(power_w) FILTER (whole) = max(power_w) FILTER (whole)
            AND min(tensor_active_ratio) FILTER (whole) = max(tensor_active_ratio) FILTER (whole)
            AND min(dram_active_ratio) FILTER (whole) IS NOT DISTINCT FROM max(dram_active_ratio) FILTER (whole)
            AS is_frozen,
        -- Rounded, so that the order of addition never shows.
        round(avg(coalesce(sm_active_ratio, gr_engine_active_ratio, gpu_busy_ratio)) FILTER (whole), 6) AS activity_ratio,
        round(avg(sm_clock_mhz) FILTER (whole), 6) AS sm_clock_mhz,
        round(avg(memory_clock_mhz) FILTER (whole), 6) AS memory_clock_mhz,
        round(avg(tensor_active_ratio) FILTER (whole), 6) AS tensor_active_ratio,
        round(avg(tensor_active_ratio * sm_clock_mhz) FILTER (whole), 6) AS tensor_rate_mhz,
        round(avg(dram_active_ratio) FILTER (whole), 6) AS dram_active_ratio,
        round(avg(power_w) FILTER (whole), 6) AS power_w,
        min(power_limit_w) FILTER (whole) AS power_limit_w,
        round(avg(gpu_temp_max_c) FILTER (whole), 6) AS gpu_temp_c,
        bit_or(throttle_mask) FILTER (whole) AS throttle_mask
    FROM (SELECT *, mig_instance = '' AND sample_count > 0 AS whole FROM gpu_minute)
    GROUP BY ALL
),
located AS (
    SELECT g.cluster, g.gpu_uuid, window_ts, max(i.node) AS node
    FROM gpu_window g
    JOIN inventory_gpu_span i
        ON i.cluster = g.cluster AND i.gpu_uuid = g.gpu_uuid
        AND i.start_ts <= window_ts AND coalesce(i.end_ts, 'infinity'::TIMESTAMP) > window_ts
    GROUP BY ALL
),
placed AS (
    SELECT g.* EXCLUDE (reported_node), coalesce(l.node, reported_node) AS node
    FROM gpu_window g
    LEFT JOIN located l USING (cluster, gpu_uuid, window_ts)
    -- A masked UUID can come from two hosts; where the inventory places both on one, the fuller stays.
    QUALIFY row_number() OVER (
        PARTITION BY g.cluster, coalesce(l.node, reported_node), g.gpu_uuid, window_ts
        ORDER BY minute_count DESC, reported_node
    ) = 1
),
node_window AS (
    SELECT
        cluster, node, window_ts, any_value(job_count) AS job_count,
        nullif(any_value(most_gpus), 0) AS held_gpu_count, min(job_id) AS job_id, min(attempt) AS attempt,
        bool_and(start_ts + to_seconds(getvariable('warm_up_s')) <= window_ts) AS is_warm,
        bool_and(end_ts IS NULL OR end_ts >= window_ts + INTERVAL 5 MINUTE) AS is_whole
    FROM (
        SELECT
            w.cluster, w.node, window_ts, job_id, attempt, start_ts, end_ts,
            coalesce(gpu_count, 0) AS gpus,
            max(gpus) OVER here AS most_gpus,
            count(*) OVER here AS allocations,
            count(*) FILTER (gpus > 0) OVER here AS with_gpus,
            -- Where accounting knows of GPUs, a record without them is a job that holds none.
            if(most_gpus > 0, with_gpus, allocations) AS job_count
        FROM (SELECT DISTINCT cluster, node, window_ts FROM placed) w
        JOIN gpu_allocation a
            ON a.cluster = w.cluster AND a.node = w.node AND gpu_count IS DISTINCT FROM 0
            AND start_ts < window_ts + INTERVAL 5 MINUTE
            AND coalesce(end_ts, 'infinity'::TIMESTAMP) > window_ts
        WINDOW here AS (PARTITION BY w.cluster, w.node, window_ts)
    )
    WHERE gpus = most_gpus OR gpus > 0
    GROUP BY cluster, node, window_ts
),
role AS (
    SELECT cluster, job_id, attempt, gpu_uuid, min(pp_stage) AS pp_stage
    FROM step_sample
    WHERE gpu_uuid IS NOT NULL
    GROUP BY ALL
    HAVING min(pp_stage) = max(pp_stage)
),
step AS (
    SELECT cluster, job_id, attempt, gpu_uuid, time_bucket(INTERVAL 5 MINUTE, ts) AS window_ts,
        round(avg(compute_s), 9) AS compute_s
    FROM step_sample
    WHERE gpu_uuid IS NOT NULL AND time_basis = 'absolute' AND compute_s > 0
    GROUP BY ALL
),
attributed AS (
    SELECT
        p.*, coalesce(minute_count / 5, 0) AS coverage_ratio,
        count(*) OVER (PARTITION BY p.cluster, p.node, window_ts) > held_gpu_count AS has_free_gpus,
        if(job_count = 1 AND has_free_gpus IS NOT TRUE, n.job_id, NULL) AS job_id,
        if(job_count = 1 AND has_free_gpus IS NOT TRUE, n.attempt, NULL) AS attempt,
        CASE
            WHEN has_mig THEN 'mig'
            WHEN minute_count = 0 THEN 'no_samples'
            WHEN is_frozen THEN 'frozen'
            WHEN job_count IS NULL THEN 'no_job'
            WHEN job_count > 1 THEN 'several_jobs'
            WHEN has_free_gpus THEN 'part_of_node'
            WHEN NOT is_warm OR NOT is_whole THEN 'warm_up'
            WHEN coalesce(activity_ratio, 0) < getvariable('min_activity_ratio') THEN 'idle'
        END AS own_obstacle
    FROM placed p
    LEFT JOIN node_window n USING (cluster, node, window_ts)
),
staged AS (
    SELECT
        a.*, pp_stage, compute_s,
        count(*) FILTER (own_obstacle IS NULL) OVER same_job AS job_peers,
        count(*) FILTER (own_obstacle IS NULL) OVER same_stage AS stage_peers,
        median(activity_ratio) FILTER (own_obstacle IS NULL) OVER same_job AS job_activity_ratio
    FROM attributed a
    LEFT JOIN role USING (cluster, job_id, attempt, gpu_uuid)
    LEFT JOIN step USING (cluster, job_id, attempt, gpu_uuid, window_ts)
    WINDOW
        same_job AS (PARTITION BY cluster, job_id, attempt, gpu_model, window_ts),
        same_stage AS (PARTITION BY cluster, job_id, attempt, gpu_model, window_ts, pp_stage)
),
judged AS (
    SELECT
        *,
        if(pp_stage IS NOT NULL AND stage_peers > getvariable('min_peers'), 'stage', 'job') AS basis,
        if(basis = 'stage', stage_peers, job_peers) - 1 AS peers,
        coalesce(
            own_obstacle,
            if(peers < getvariable('min_peers'), 'few_peers', NULL),
            if(job_activity_ratio < getvariable('min_job_activity_ratio'), 'job_idle', NULL)
        ) AS obstacle
    FROM staged
)
SELECT
    cluster, node, gpu_uuid, window_ts, gpu_model, job_id, attempt, pp_stage,
    minute_count, coverage_ratio, activity_ratio,
    sm_clock_mhz, memory_clock_mhz, tensor_active_ratio, tensor_rate_mhz, dram_active_ratio,
    if(tensor_active_ratio >= 0.01, round(dram_active_ratio / tensor_rate_mhz, 12), NULL) AS dram_per_tensor_s,
    power_w, power_limit_w, gpu_temp_c, throttle_mask, compute_s,
    if(obstacle IS NULL, basis, NULL) AS peer_basis,
    if(own_obstacle IS NULL, peers, NULL) AS peer_count,
    obstacle
FROM judged
