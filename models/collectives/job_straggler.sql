/*
doc = "Per job and day: slowness that is no single rank's. A stage that has more work than the others, and slowness that moves from rank to rank, with what each costs at most and what hints at its cause."
grain = ["cluster", "job_id", "attempt", "day_ts"]
time = "day_ts"
sort = ["job_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
start_ts = { type = "TIMESTAMP", doc = "start of the first step of the day", null = false }
end_ts = { type = "TIMESTAMP", doc = "end of the last step of the day; its start where lengths are unknown", null = false }
time_basis = { type = "VARCHAR", doc = "what times mean: step_sample.time_basis" }
step_count = { type = "BIGINT", doc = "steps with compute times", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "rank-steps with compute and stage of those seen that day", unit = "ratio" }
rank_count = { type = "BIGINT", doc = "ranks seen", unit = "count" }
stage_count = { type = "BIGINT", doc = "pipeline stages seen", unit = "count" }
job_gpu_count = { type = "BIGINT", doc = "GPUs of the job as far as records show", unit = "count" }
heavy_stage = { type = "INTEGER", doc = "stage whose fastest rank takes longest, in the median over the steps; NULL with a single stage" }
heavy_is_last = { type = "BOOLEAN", doc = "it is the last stage, which holds the output layer and the loss" }
stage_ratio = { type = "DOUBLE", doc = "compute of the fastest rank of the heavy stage by the median of that of the other stages, median over the steps: a slow rank beside faster ones does not raise it", unit = "ratio" }
stage_step_ratio = { type = "DOUBLE", doc = "steps in which the heavy stage is the heaviest by min_stage_ratio", unit = "ratio" }
stage_lost_ratio = { type = "DOUBLE", doc = "compute of the heavy stage beyond the mean of all stages, of the steps' length: what a balanced split would save at most", unit = "ratio" }
evidence_ts = { type = "TIMESTAMP", doc = "end of the step with which min_steps steps of the day had been seen; NULL with fewer" }
spread_ratio = { type = "DOUBLE", doc = "largest step_ratio.ratio of any rank in a step, median over the steps", unit = "ratio" }
spread_step_ratio = { type = "DOUBLE", doc = "steps in which a rank was slower than its peers by min_spread_ratio", unit = "ratio" }
slowest_rank = { type = "INTEGER", doc = "the rank that was the slowest most often in those steps" }
slowest_rank_ratio = { type = "DOUBLE", doc = "in how many of those steps it was the slowest: near 1 one rank is slow, near 1 / rank_count it moves", unit = "ratio" }
spread_lost_ratio = { type = "DOUBLE", doc = "compute of the slowest rank beyond that of its peers in those steps, of the length of all steps", unit = "ratio" }
spread_lost_gpu_s = { type = "DOUBLE", doc = "the same in GPU-seconds of the whole job; where times are absolute steps without a record count like those with one, as in step_straggler.lost_gpu_s", unit = "s" }
direction_corr = { type = "DOUBLE", doc = "correlation of forward and backward times, each by its median over the stage in the step: near 1 where sequence lengths differ (they stretch both), low where a pause hits one of them. 0.99 per stage on public trace SE (sequence lengths), 0.81 to 0.88 on ST (none)" }

[params.min_stage_ratio]
default = 1.10
doc = "ratio; from here a stage is heavier. Stages of public trace AR, balanced, lie within 1.05; ST's last one is at 1.61."
[params.min_spread_ratio]
default = 1.10
doc = "ratio; from here a rank's step counts as slow. Twice the noise of the public traces would be 1.02; sequence lengths on SE make 1.5."
[params.min_steps]
default = 20
doc = "count; steps of a day until evidence_ts, as in step_straggler."
*/
WITH seen AS (
    SELECT *,
        date_trunc('day', ts) AS day_ts,
        compute_s > 0 AND pp_stage IS NOT NULL AS comparable,
        ts + to_microseconds(coalesce(round(step_s * 1e6)::BIGINT, 0)) AS end_ts
    FROM step_sample
),
job_step AS (
    SELECT cluster, job_id, attempt, day_ts, step,
        max(step_s) AS length_s,
        sum(coalesce(gpu_count, 1)) AS gpus,
        max(end_ts) AS end_ts
    FROM seen
    GROUP BY ALL
),
job_day AS (
    SELECT cluster, job_id, attempt, day_ts,
        min(ts) AS start_ts, max(end_ts) AS end_ts, min(time_basis) AS time_basis,
        count(DISTINCT step) FILTER (comparable) AS step_count,
        count(*) FILTER (comparable) / count(*) AS coverage_ratio,
        count(DISTINCT rank) AS rank_count, count(DISTINCT pp_stage) AS stage_count,
        max(pp_stage) AS last_stage
    FROM seen
    GROUP BY ALL
),
job_length AS (
    SELECT cluster, job_id, attempt, day_ts,
        sum(round(length_s * 1e9)::BIGINT) / 1e9 AS length_s,
        max(gpus)::BIGINT AS gpus,
        count(*) / (max(step) - min(step) + 1) AS recorded_step_ratio,
        if(count(*) >= getvariable('min_steps'), list_sort(list(end_ts))[getvariable('min_steps')], NULL)
            AS evidence_ts
    FROM job_step
    GROUP BY ALL
),
stage_step AS (
    SELECT cluster, job_id, attempt, day_ts, step, pp_stage, min(compute_s) AS floor_s
    FROM seen
    WHERE comparable
    GROUP BY ALL
),
stage_day AS (
    SELECT cluster, job_id, attempt, day_ts, pp_stage, median(floor_s) AS floor_s
    FROM stage_step
    GROUP BY ALL
),
heaviest AS (
    SELECT cluster, job_id, attempt, day_ts, arg_max(pp_stage, (floor_s, pp_stage)) AS heavy_stage
    FROM stage_day
    GROUP BY ALL
    HAVING count(*) > 1
),
heavy_step AS (
    SELECT cluster, job_id, attempt, day_ts, step, heavy_stage,
        max(floor_s) FILTER (pp_stage = heavy_stage) AS heavy_s,
        median(floor_s) FILTER (pp_stage <> heavy_stage) AS other_s,
        fsum(floor_s ORDER BY pp_stage) / count(*) AS mean_s
    FROM stage_step
    JOIN heaviest USING (cluster, job_id, attempt, day_ts)
    GROUP BY ALL
),
heavy AS (
    SELECT cluster, job_id, attempt, day_ts, heavy_stage,
        median(heavy_s / other_s) AS stage_ratio,
        avg((heavy_s / other_s > getvariable('min_stage_ratio'))::INTEGER) AS stage_step_ratio,
        sum(round((heavy_s - mean_s) * 1e9)::BIGINT) / 1e9 AS stage_lost_s
    FROM heavy_step
    WHERE heavy_s IS NOT NULL AND other_s IS NOT NULL
    GROUP BY ALL
),
slowest_step AS (
    SELECT cluster, job_id, attempt, date_trunc('day', ts) AS day_ts, step,
        max(ratio) AS ratio,
        arg_max(rank, (ratio, -rank)) AS slowest,
        max(least(own_s - reference_s, job_step_s)) AS lost_s
    FROM step_ratio
    WHERE ratio IS NOT NULL
    GROUP BY ALL
),
spread AS (
    SELECT cluster, job_id, attempt, day_ts,
        median(ratio) AS spread_ratio,
        avg((ratio > getvariable('min_spread_ratio'))::INTEGER) AS spread_step_ratio,
        coalesce(sum(round(lost_s * 1e9)::BIGINT) FILTER (ratio > getvariable('min_spread_ratio')), 0) / 1e9
            AS spread_lost_s
    FROM slowest_step
    GROUP BY ALL
),
slowest_rank AS (
    SELECT cluster, job_id, attempt, day_ts,
        arg_max(slowest, (steps, -slowest)) AS slowest_rank,
        max(steps) / sum(steps) AS slowest_rank_ratio
    FROM (
        SELECT cluster, job_id, attempt, day_ts, slowest, count(*) AS steps
        FROM slowest_step
        WHERE ratio > getvariable('min_spread_ratio')
        GROUP BY ALL
    )
    GROUP BY ALL
),
direction AS (
    SELECT cluster, job_id, attempt, day_ts,
        -- Rounded so that the order of addition never shows.
        round(corr(forward, backward), 6) AS direction_corr
    FROM (
        SELECT cluster, job_id, attempt, day_ts,
            forward_s / median(forward_s) OVER same_work AS forward,
            backward_s / median(backward_s) OVER same_work AS backward
        FROM seen
        WHERE comparable AND forward_s > 0 AND backward_s > 0
        WINDOW same_work AS (PARTITION BY cluster, job_id, attempt, day_ts, step, pp_stage)
    )
    GROUP BY ALL
)
SELECT cluster, job_id, attempt, day_ts, start_ts, end_ts, time_basis, step_count, coverage_ratio, rank_count,
    stage_count, gpus AS job_gpu_count, heavy_stage,
    heavy_stage = last_stage AS heavy_is_last,
    stage_ratio, stage_step_ratio,
    stage_lost_s / length_s AS stage_lost_ratio,
    evidence_ts,
    spread_ratio, spread_step_ratio, slowest_rank, slowest_rank_ratio,
    spread_lost_s / length_s AS spread_lost_ratio,
    spread_lost_s * gpus / if(time_basis = 'absolute', recorded_step_ratio, 1) AS spread_lost_gpu_s,
    if(isfinite(direction_corr), direction_corr, NULL) AS direction_corr
FROM job_day
JOIN job_length USING (cluster, job_id, attempt, day_ts)
LEFT JOIN heavy USING (cluster, job_id, attempt, day_ts)
LEFT JOIN spread USING (cluster, job_id, attempt, day_ts)
LEFT JOIN slowest_rank USING (cluster, job_id, attempt, day_ts)
LEFT JOIN direction USING (cluster, job_id, attempt, day_ts)
