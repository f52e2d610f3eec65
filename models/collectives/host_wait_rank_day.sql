/*
doc = "Per rank, UTC day and kind of wait: what part of the job's steps its GPU waited for its host, by the rank's own records. Whether most ranks wait alike (storage, the loader's design) or few do (their hosts) stands beside it."
grain = ["cluster", "job_id", "attempt", "rank", "day_ts", "wait"]
time = "day_ts"
sort = ["job_id", "wait", "rank"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
rank = { type = "INTEGER", doc = "global rank" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
wait = { type = "VARCHAR", doc = "data (step_sample.data_s) or launch (launch_s); no row for what the rank did not record" }
node = { type = "VARCHAR", doc = "node the rank ran on; NULL where several that day" }
gpu_uuid = { type = "VARCHAR", doc = "GPU the rank ran on; NULL where several that day" }
time_basis = { type = "VARCHAR", doc = "what times mean: step_sample.time_basis" }
step_count = { type = "BIGINT", doc = "steps in which the wait and the step's length are known", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "those of the job's steps seen that day", unit = "ratio" }
wait_ratio = { type = "DOUBLE", doc = "wait by the length of the job's step, at most 1, mean over these steps", unit = "ratio" }
worst_ratio = { type = "DOUBLE", doc = "the largest such mean over min_steps steps in a row; NULL with fewer", unit = "ratio" }
lost_s = { type = "DOUBLE", doc = "waiting in these steps", unit = "s" }
slow_start_ts = { type = "TIMESTAMP", doc = "start of the first step of the first min_steps that meet the conditions; NULL unless it waits" }
slow_end_ts = { type = "TIMESTAMP", doc = "end of the last step at which they held, within the day; NULL unless it waits" }
evidence_ts = { type = "TIMESTAMP", doc = "end of the step at which they first held, within the day; NULL unless it waits" }
job_gpu_count = { type = "BIGINT", doc = "GPUs of the job as far as records show; all are held up", unit = "count" }
rank_count = { type = "BIGINT", doc = "ranks of the job that record any such wait above 0, and so issue or load something themselves", unit = "count" }
waiting_rank_count = { type = "BIGINT", doc = "ranks of the job with verdict waits", unit = "count" }
is_job_wide = { type = "BOOLEAN", doc = "two ranks or more wait, and at least half of rank_count" }
verdict = { type = "VARCHAR", doc = "waits, does_not_wait or not_evaluable (fewer than min_steps steps)" }

[params.min_steps]
default = 20
doc = "count; steps in a row that the conditions must hold over, as in step_straggler."
[params.min_wait_ratio]
default = 0.05
doc = "ratio of the steps' length. Launching late costs 0.5 to 1.9 % of the time on the public traces AR and ST (what_if.launch_ratio); prefetching hides all reading. Own choice above both."
[params.min_stalled_steps]
default = 3
doc = "count; steps of these with a wait of min_wait_ratio: filling the prefetch queue stalls the first step or two of an attempt, and is over then."
*/
WITH seen AS (
    SELECT *,
        date_trunc('day', ts) AS day_ts,
        max(step_s) OVER (PARTITION BY cluster, job_id, attempt, day_ts, step) AS job_step_s
    FROM step_sample
),
recorded AS (
    SELECT cluster, job_id, attempt, rank, day_ts, step, ts, node, gpu_uuid, time_basis, job_step_s,
        least(ts + to_microseconds(round(coalesce(step_s, job_step_s) * 1e6)::BIGINT),
            day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND) AS end_ts,
        unnest(['data', 'launch']) AS wait,
        unnest([data_s, launch_s]) AS wait_s
    FROM seen
    WHERE job_step_s > 0
),
share AS (
    SELECT *,
        -- Sums of whole billionths do not depend on the order of rows.
        round(least(wait_s / job_step_s, 1) * 1e9)::BIGINT AS share_e9
    FROM recorded
    WHERE wait_s >= 0
),
running AS (
    SELECT *,
        count(*) OVER latest AS steps,
        first_value(ts) OVER latest AS from_ts,
        if(steps = getvariable('min_steps'), avg(share_e9) OVER latest / 1e9, NULL) AS ratio,
        coalesce(
            ratio >= getvariable('min_wait_ratio')
                AND count(*) FILTER (share_e9 >= 1e9 * getvariable('min_wait_ratio')) OVER latest
                    >= getvariable('min_stalled_steps'),
            false
        ) AS holds
    FROM share
    WINDOW latest AS (PARTITION BY cluster, job_id, attempt, rank, day_ts, wait ORDER BY ts, step
                      ROWS (getvariable('min_steps') - 1) PRECEDING)
),
rank_day AS (
    SELECT cluster, job_id, attempt, rank, day_ts, wait,
        if(min(node) = max(node), min(node), NULL) AS node,
        if(min(gpu_uuid) = max(gpu_uuid), min(gpu_uuid), NULL) AS gpu_uuid,
        min(time_basis) AS time_basis,
        count(*) AS step_count,
        avg(share_e9) / 1e9 AS wait_ratio,
        max(ratio) AS worst_ratio,
        sum(round(wait_s * 1e9)::BIGINT) / 1e9 AS lost_s,
        min(from_ts) FILTER (holds) AS slow_start_ts,
        max(end_ts) FILTER (holds) AS slow_end_ts,
        min(end_ts) FILTER (holds) AS evidence_ts,
        CASE
            WHEN max(steps) < getvariable('min_steps') THEN 'not_evaluable'
            WHEN bool_or(holds) THEN 'waits'
            ELSE 'does_not_wait'
        END AS verdict
    FROM running
    GROUP BY ALL
),
job_day AS (
    SELECT cluster, job_id, attempt, day_ts, count(*) AS steps, max(gpus)::BIGINT AS job_gpu_count
    FROM (
        SELECT cluster, job_id, attempt, day_ts, step, sum(coalesce(gpu_count, 1)) AS gpus
        FROM seen
        GROUP BY ALL
    )
    GROUP BY ALL
)
SELECT cluster, job_id, attempt, rank, day_ts, wait, node, gpu_uuid, time_basis, step_count,
    step_count / steps AS coverage_ratio,
    wait_ratio, worst_ratio, lost_s, slow_start_ts, slow_end_ts, evidence_ts, job_gpu_count,
    count(*) FILTER (lost_s > 0) OVER job AS rank_count,
    count(*) FILTER (verdict = 'waits') OVER job AS waiting_rank_count,
    waiting_rank_count >= 2 AND 2 * waiting_rank_count >= rank_count AS is_job_wide,
    verdict
FROM rank_day
JOIN job_day USING (cluster, job_id, attempt, day_ts)
WINDOW job AS (PARTITION BY cluster, job_id, attempt, day_ts, wait)
