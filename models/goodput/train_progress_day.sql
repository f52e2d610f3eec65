/*
doc = """
What a training attempt's day has to know of the other days of the job: from which step the work was done again
later, where the attempt's steps begin and end, and the ideal length of a step. One row per row of train_run_day.

An attempt whose log prints every tenth step does not show with which one it began: that is the one behind the last
checkpoint of the attempts before, if its first row can stand for it, else all steps that a row stands for as a rule.

Ideal is the first quartile, over the job's attempts and days with as many GPUs and the same batch, of the usual
steps of those days: a job that is slow on fewer than three quarters of its days does not pass for usual.
"""
grain = ["cluster", "job_id", "attempt", "day_ts"]
time = "from_ts"
end = "until_ts"
# Whether a step was done again is known by what comes after it.
window = "all"
sort = ["job_id", "day_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job, as in train_run_day" }
attempt = { type = "BIGINT", doc = "attempt, as in train_run_day" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
from_ts = { type = "TIMESTAMP", doc = "from when the row says the latest of the attempt: the day; of its first day the start of the attempt" }
until_ts = { type = "TIMESTAMP", doc = "until when: the attempt's next day with steps; of its last the attempt's end; NULL while that is open" }
is_scheduled = { type = "BOOLEAN", doc = "a scheduler record knows the job", null = false }
stride = { type = "BIGINT", doc = "every how many steps one is recorded that day", unit = "count", null = false }
noise_ratio = { type = "DOUBLE", doc = "how much single steps wander that day", unit = "ratio" }
batch_sizes = { type = "BIGINT[]", doc = "sizes of the global batch of the day; 0: not known", unit = "count", null = false }
ideal_s = { type = "DOUBLE[]", doc = "ideal length of a step with each", unit = "s", null = false }
previous_step = { type = "BIGINT", doc = "last step recorded by the attempt on an earlier day; NULL: none" }
previous_ts = { type = "TIMESTAMP", doc = "its end" }
last_ts = { type = "TIMESTAMP", doc = "end of the day's last recorded step", null = false }
next_ts = { type = "TIMESTAMP", doc = "start of the steps of the attempt's next day, or last_ts if that is later; NULL: it records none" }
next_is_lost = { type = "BOOLEAN", doc = "these were done again later" }
next_is_again = { type = "BOOLEAN", doc = "these were done before" }
resume_step = { type = "BIGINT", doc = "step behind the last checkpoint of earlier attempts, if the attempt's first row (of this day) may begin with it; NULL: it cannot be told" }
attempt_first_ts = { type = "TIMESTAMP", doc = "start of the attempt's first recorded step", null = false }
attempt_last_ts = { type = "TIMESTAMP", doc = "end of its last one", null = false }
attempt_last_step = { type = "BIGINT", doc = "number of the last one", null = false }
attempt_last_stride = { type = "BIGINT", doc = "how many steps its row stands for", unit = "count", null = false }
attempt_basis = { type = "VARCHAR", doc = "log where the job's own log tells of any of its steps, else ranks: records of ranks may be a sample from the middle", null = false }
is_first_attempt = { type = "BOOLEAN", doc = "no earlier attempt of the job recorded steps", null = false }
is_last_attempt = { type = "BOOLEAN", doc = "no later one did, so that nobody shows what was done again", null = false }
later_min_step = { type = "BIGINT", doc = "lowest step recorded on later days of the job: steps from there on were done again; NULL: none" }
saved_step = { type = "BIGINT", doc = "highest step that a checkpoint of the attempt, or of an earlier one, is stated to hold; NULL: no checkpoint with a step is known" }
gpu_count = { type = "BIGINT", doc = "GPUs of the attempt by the scheduler, else by the job's events; NULL: not known", unit = "count" }
log_start_ts = { type = "TIMESTAMP", doc = "first time that steps or events of the attempt state: stands for the allocation where no scheduler record does", null = false }
log_end_ts = { type = "TIMESTAMP", doc = "the last one", null = false }
*/
WITH saved AS (
    SELECT e.cluster, r.job_id, r.attempt,
        max(max(e.step) FILTER (e.event IN ('checkpoint_saved', 'checkpoint_save_stop')))
            OVER (PARTITION BY e.cluster, r.job_id ORDER BY r.attempt) AS saved_step,
        max(e.gpu_count) AS gpu_count,
        min(e.ts) AS first_event_ts,
        max(e.ts) AS last_event_ts
    FROM train_event e
    JOIN (
        SELECT cluster, job_id, attempt, any_value(is_scheduled) AS is_scheduled, min(first_ts) AS first_ts,
            max(last_ts) AS last_ts,
            lag(max(last_ts)) OVER (PARTITION BY cluster, job_id ORDER BY attempt) AS before_ts,
            -- The end of its first row: how many steps that stands for is not known yet.
            lead(min(first_ts + to_microseconds((stride * coalesce(first_step_s, 0) * 1e6)::BIGINT)))
                OVER (PARTITION BY cluster, job_id ORDER BY attempt) AS after_ts
        FROM train_run_day
        GROUP BY cluster, job_id, attempt
    ) r
        ON r.cluster = e.cluster AND r.job_id = e.job_id
        AND CASE WHEN r.is_scheduled
            -- Events of an attempt lie between the steps before it and its own last step, or shortly behind.
            THEN e.ts > coalesce(r.before_ts, '-infinity'::TIMESTAMP)
                AND e.ts <= least(r.last_ts + INTERVAL 1 HOUR, coalesce(r.after_ts, 'infinity'::TIMESTAMP))
            ELSE r.attempt = e.attempt END
    GROUP BY e.cluster, r.job_id, r.attempt
),
held AS (
    SELECT
        cluster, job_id, attempt,
        max(any_value(saved_step)) OVER (
            PARTITION BY cluster, job_id ORDER BY attempt ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS held_step,
        min(day_ts) AS first_day_ts
    FROM train_run_day
    LEFT JOIN saved USING (cluster, job_id, attempt)
    GROUP BY cluster, job_id, attempt
),
resumed AS (
    SELECT
        r.*,
        if(day_ts = first_day_ts AND held_step BETWEEN first_step - stride AND first_step - 1, held_step + 1, NULL)
            AS resume_step,
        first_step - stride + 1 AS row_step
    FROM train_run_day r
    LEFT JOIN held USING (cluster, job_id, attempt)
),
begun AS (
    SELECT * REPLACE (
        first_ts + to_microseconds(
            (coalesce((resume_step - row_step) * first_step_s, 0) * 1e6)::BIGINT
        ) AS first_ts,
        if(min_step = row_step, coalesce(resume_step, min_step), min_step) AS min_step
    )
    FROM resumed
),
run AS (
    SELECT *,
        min(first_ts) OVER attempt AS attempt_first_ts,
        max(last_ts) OVER attempt AS attempt_last_ts,
        last(last_step) OVER (attempt ORDER BY day_ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
            AS attempt_last_step,
        last(last_stride) OVER (attempt ORDER BY day_ts ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
            AS attempt_last_stride,
        min(basis) OVER attempt AS attempt_basis,
        attempt = min(attempt) OVER job AS is_first_attempt,
        attempt = max(attempt) OVER job AS is_last_attempt,
        min(min_step) OVER (job ORDER BY day_ts, attempt ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)
            AS later_min_step,
        lag(last_step) OVER (attempt ORDER BY day_ts) AS previous_step,
        lag(last_ts) OVER (attempt ORDER BY day_ts) AS previous_ts,
        lead(first_ts) OVER (attempt ORDER BY day_ts) AS following_ts,
        lead(first_step) OVER (attempt ORDER BY day_ts) AS following_step,
        min(min_step) OVER (job ORDER BY day_ts, attempt ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING)
            AS following_min_step,
        lead(day_ts) OVER (attempt ORDER BY day_ts) AS next_day_ts,
        lag(day_ts) OVER (attempt ORDER BY day_ts) IS NULL AS is_first_day
    FROM begun
    WINDOW job AS (PARTITION BY cluster, job_id), attempt AS (PARTITION BY cluster, job_id, attempt)
),
usual AS (
    SELECT cluster, job_id, alloc_gpus, unnest(batch_sizes) AS batch, unnest(batch_step_s) AS step_s
    FROM train_run_day
),
ideal AS (
    SELECT cluster, job_id, alloc_gpus, batch, quantile_disc(step_s, 0.25) AS ideal_s
    FROM usual
    GROUP BY ALL
),
batch AS (
    SELECT r.cluster, r.job_id, r.attempt, r.day_ts, list(i.ideal_s ORDER BY i.batch) AS ideal_s
    FROM (SELECT cluster, job_id, attempt, day_ts, alloc_gpus, unnest(batch_sizes) AS batch FROM train_run_day) r
    JOIN ideal i
        ON i.cluster = r.cluster AND i.job_id = r.job_id AND i.batch = r.batch
        AND i.alloc_gpus IS NOT DISTINCT FROM r.alloc_gpus
    GROUP BY ALL
)
SELECT
    cluster, job_id, attempt, day_ts,
    CASE WHEN is_first_day
        THEN least(day_ts, coalesce(a.start_ts, attempt_first_ts), coalesce(first_event_ts, attempt_first_ts))
        ELSE day_ts END AS from_ts,
    CASE WHEN next_day_ts IS NOT NULL THEN next_day_ts
        WHEN is_scheduled THEN if(a.end_ts IS NULL, NULL, greatest(a.end_ts, day_ts + INTERVAL 1 DAY))
        ELSE greatest(attempt_last_ts, coalesce(last_event_ts, attempt_last_ts), day_ts + INTERVAL 1 DAY)
    END AS until_ts,
    is_scheduled, stride, noise_ratio, batch_sizes,
    coalesce(b.ideal_s, []) AS ideal_s,
    previous_step, previous_ts, last_ts,
    if(following_ts IS NULL, NULL, greatest(last_ts, following_ts)) AS next_ts,
    if(following_ts IS NULL, NULL, coalesce(following_step >= following_min_step, false)) AS next_is_lost,
    following_step <= last_step AS next_is_again,
    resume_step, attempt_first_ts, attempt_last_ts, attempt_last_step, attempt_last_stride, attempt_basis, is_first_attempt, is_last_attempt, later_min_step, saved_step,
    coalesce(r.alloc_gpus, s.gpu_count) AS gpu_count,
    least(attempt_first_ts, first_event_ts) AS log_start_ts,
    greatest(attempt_last_ts, last_event_ts) AS log_end_ts
FROM run r
LEFT JOIN batch b USING (cluster, job_id, attempt, day_ts)
LEFT JOIN saved s USING (cluster, job_id, attempt)
LEFT JOIN (SELECT cluster, job_id, attempt, start_ts, end_ts FROM job_attempt) a USING (cluster, job_id, attempt)
