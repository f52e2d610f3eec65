/*
doc = "Goodput from job records alone, per attempt and day: GPU-seconds held and how much of them can at least and at most have been useful. Every second of an attempt has one class, by how the attempt ended."
grain = ["cluster", "job_id", "attempt", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "job_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
principal = { type = "VARCHAR", doc = "user who submitted the job" }
account = { type = "VARCHAR", doc = "account charged" }
partition = { type = "VARCHAR", doc = "partition" }
end_class = { type = "VARCHAR", doc = "how the attempt ended: completed failed timeout cancelled preempted requeued node_fail oom boot_fail deadline unknown, or running while it has not" }
alloc_gpus = { type = "INTEGER", doc = "GPUs held; NULL if not recorded", unit = "count" }
gpu_count_source = { type = "VARCHAR", doc = "job_attempt.gpu_count_source" }
allocated_s = { type = "DOUBLE", doc = "seconds of the day the attempt held its allocation and was not suspended; an open attempt counts up to observed_ts", unit = "s" }
suspended_s = { type = "DOUBLE", doc = "seconds of the day suspended; over several days in proportion, since records do not say when", unit = "s" }
allocated_gpu_s = { type = "DOUBLE", doc = "allocated_s x alloc_gpus", unit = "s" }
suspended_gpu_s = { type = "DOUBLE", doc = "suspended_s x alloc_gpus", unit = "s" }
goodput_lower_gpu_s = { type = "DOUBLE", doc = "GPU-seconds that were useful even if every attempt that did not complete lost all its work: allocated_gpu_s of completed attempts", unit = "s" }
goodput_upper_gpu_s = { type = "DOUBLE", doc = "GPU-seconds that were useful if no attempt lost any (each saved a checkpoint in its last second): allocated_gpu_s", unit = "s" }
goodput_lower_ratio = { type = "DOUBLE", doc = "goodput_lower_gpu_s / allocated_gpu_s", unit = "ratio" }
goodput_upper_ratio = { type = "DOUBLE", doc = "goodput_upper_gpu_s / allocated_gpu_s", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "1 if the record says how many GPUs were held, else 0", unit = "ratio" }
has_all_attempts = { type = "BOOLEAN", doc = "job_attempt.has_all_attempts" }
*/
-- Scheduler records do not show checkpoints: of an attempt that did not complete, anything between
-- none and all of the work may be lost. A completed attempt counts as useful as a whole, since a
-- record cannot show work lost or wasted inside it.
WITH run AS (
    SELECT
        *,
        greatest(start_ts, coalesce(end_ts, observed_ts, start_ts)) AS until_ts,
        CASE state
            WHEN 'COMPLETED' THEN 'completed'
            WHEN 'FAILED' THEN 'failed'
            WHEN 'TIMEOUT' THEN 'timeout'
            WHEN 'CANCELLED' THEN 'cancelled'
            WHEN 'PREEMPTED' THEN 'preempted'
            WHEN 'REQUEUED' THEN 'requeued'
            WHEN 'NODE_FAIL' THEN 'node_fail'
            WHEN 'OUT_OF_MEMORY' THEN 'oom'
            WHEN 'BOOT_FAIL' THEN 'boot_fail'
            WHEN 'DEADLINE' THEN 'deadline'
            WHEN 'RUNNING' THEN 'running'
            WHEN 'SUSPENDED' THEN 'running'
            ELSE 'unknown'
        END AS end_class
    FROM job_attempt
    WHERE start_ts IS NOT NULL
),
-- One row per day touched, the first one even if the attempt lasted no second.
day AS (
    SELECT
        *,
        unnest(generate_series(
            date_trunc('day', start_ts),
            greatest(date_trunc('day', start_ts), until_ts - INTERVAL 1 MICROSECOND),
            INTERVAL 1 DAY
        )) AS day_ts
    FROM run
),
held AS (
    SELECT
        *,
        epoch(until_ts - start_ts) AS run_s,
        epoch(least(until_ts, day_ts + INTERVAL 1 DAY) - greatest(start_ts, day_ts)) AS held_s
    FROM day
),
split AS (
    SELECT
        *,
        CASE WHEN run_s > 0 THEN least(coalesce(suspended_s, 0), run_s) * held_s / run_s ELSE 0.0 END
            AS day_suspended_s
    FROM held
),
counted AS (
    SELECT
        *,
        held_s - day_suspended_s AS allocated_s,
        (held_s - day_suspended_s) * alloc_gpus AS allocated_gpu_s
    FROM split
)
SELECT
    cluster,
    job_id,
    attempt,
    day_ts,
    principal,
    account,
    partition,
    end_class,
    alloc_gpus,
    gpu_count_source,
    allocated_s::DOUBLE AS allocated_s,
    day_suspended_s::DOUBLE AS suspended_s,
    allocated_gpu_s::DOUBLE AS allocated_gpu_s,
    (day_suspended_s * alloc_gpus)::DOUBLE AS suspended_gpu_s,
    CASE WHEN end_class = 'completed' THEN allocated_gpu_s ELSE 0 * allocated_gpu_s END::DOUBLE
        AS goodput_lower_gpu_s,
    allocated_gpu_s::DOUBLE AS goodput_upper_gpu_s,
    CASE WHEN allocated_gpu_s > 0 THEN (end_class = 'completed')::INTEGER END::DOUBLE
        AS goodput_lower_ratio,
    CASE WHEN allocated_gpu_s > 0 THEN 1 END::DOUBLE AS goodput_upper_ratio,
    (alloc_gpus IS NOT NULL)::INTEGER::DOUBLE AS coverage_ratio,
    has_all_attempts
FROM counted
