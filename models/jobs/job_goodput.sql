/*
doc = """
Goodput per attempt and day: GPU-seconds held, how the attempt ended, and who owns its time by the ledger (goodput_segment). The classes add
up to allocated_gpu_s; those that the evidence cannot show are NULL, and so are all where the GPUs are not recorded. docs/goodput.md defines every figure.
"""
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
evidence = { type = "VARCHAR", doc = "what is known of the attempt on the day: scheduler, telemetry, steps or collectives, as in goodput_segment" }
productive_gpu_s = { type = "DOUBLE", doc = "ideal part of kept steps", unit = "s" }
evaluation_gpu_s = { type = "DOUBLE", doc = "evaluation", unit = "s" }
init_gpu_s = { type = "DOUBLE", doc = "first attempt: from its start to its first step", unit = "s" }
data_stall_gpu_s = { type = "DOUBLE", doc = "waiting for input beyond what is usual", unit = "s" }
checkpoint_save_gpu_s = { type = "DOUBLE", doc = "training stopped by saving", unit = "s" }
checkpoint_load_gpu_s = { type = "DOUBLE", doc = "loading a checkpoint", unit = "s" }
lost_work_gpu_s = { type = "DOUBLE", doc = "steps that were done again later, or that no checkpoint holds", unit = "s" }
straggler_gpu_s = { type = "DOUBLE", doc = "waiting for a slow rank that telemetry has nothing against", unit = "s" }
communication_stall_gpu_s = { type = "DOUBLE", doc = "communication beyond what is usual, of all ranks", unit = "s" }
throttle_gpu_s = { type = "DOUBLE", doc = "steps beyond the ideal while a GPU throttled", unit = "s" }
silent_degradation_gpu_s = { type = "DOUBLE", doc = "the same while a GPU did less than is usual for it", unit = "s" }
hang_detection_gpu_s = { type = "DOUBLE", doc = "no step any more until the attempt ended badly, or standstill of a known culprit", unit = "s" }
restart_gpu_s = { type = "DOUBLE", doc = "later attempts: from their start to their first step", unit = "s" }
preemption_gpu_s = { type = "DOUBLE", doc = "from the last step to the end of a preempted attempt", unit = "s" }
idle_gpu_s = { type = "DOUBLE", doc = "GPUs that did nothing", unit = "s" }
unexplained_gpu_s = { type = "DOUBLE", doc = "nothing is known of it", unit = "s" }
in_step_gpu_s = { type = "DOUBLE", doc = "length of kept steps without saves: productive as Google's library counts", unit = "s" }
goodput_library_ratio = { type = "DOUBLE", doc = "in_step_gpu_s / allocated_gpu_s: slow steps that were kept count as a whole; NULL without evidence of steps", unit = "ratio" }
goodput_strict_ratio = { type = "DOUBLE", doc = "productive_gpu_s / allocated_gpu_s: of slow steps only the ideal part counts; NULL without evidence of steps", unit = "ratio" }
library_lower_gpu_s = { type = "DOUBLE", doc = "least that in_step_gpu_s can be by this evidence", unit = "s" }
library_upper_gpu_s = { type = "DOUBLE", doc = "most", unit = "s" }
strict_lower_gpu_s = { type = "DOUBLE", doc = "least that productive_gpu_s can be by this evidence", unit = "s" }
strict_upper_gpu_s = { type = "DOUBLE", doc = "most", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "1 if the record says how many GPUs were held, else 0", unit = "ratio" }
has_all_attempts = { type = "BOOLEAN", doc = "job_attempt.has_all_attempts" }

[params.least_useful_ratio]
default = 0.5
doc = "ratio of an attempt that completed, of which no steps are known: at least so much of its time was useful. Published runs keep 58.9 % (OPT-175B, whole chronicle) to 98.8 % (HLAT); MLPerf runs with their initialisation 70 % and more."

[params.ideal_error_ratio]
default = 0.02
doc = "ratio; how far the ideal step may be off. The median of 64 steps that wander by 4 % is off by 0.6 %, its first quartile over a day by as much again; the rest is reserve."
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
-- Whole microseconds, so that the order of addition never shows.
ledger AS (
    SELECT
        cluster, job_id, attempt, day_ts,
        any_value(evidence) AS evidence,
        coalesce(sum(us) FILTER (class = 'productive'), 0) / 1e6 AS productive_gpu_s,
        coalesce(sum(us) FILTER (class = 'evaluation'), 0) / 1e6 AS evaluation_gpu_s,
        coalesce(sum(us) FILTER (class = 'init'), 0) / 1e6 AS init_gpu_s,
        coalesce(sum(us) FILTER (class = 'data_stall'), 0) / 1e6 AS data_stall_gpu_s,
        coalesce(sum(us) FILTER (class = 'checkpoint_save'), 0) / 1e6 AS checkpoint_save_gpu_s,
        coalesce(sum(us) FILTER (class = 'checkpoint_load'), 0) / 1e6 AS checkpoint_load_gpu_s,
        coalesce(sum(us) FILTER (class = 'lost_work'), 0) / 1e6 AS lost_work_gpu_s,
        coalesce(sum(us) FILTER (class = 'straggler'), 0) / 1e6 AS straggler_gpu_s,
        coalesce(sum(us) FILTER (class = 'communication_stall'), 0) / 1e6 AS communication_stall_gpu_s,
        coalesce(sum(us) FILTER (class = 'throttle'), 0) / 1e6 AS throttle_gpu_s,
        coalesce(sum(us) FILTER (class = 'silent_degradation'), 0) / 1e6 AS silent_degradation_gpu_s,
        coalesce(sum(us) FILTER (class = 'hang_detection'), 0) / 1e6 AS hang_detection_gpu_s,
        coalesce(sum(us) FILTER (class = 'restart'), 0) / 1e6 AS restart_gpu_s,
        coalesce(sum(us) FILTER (class = 'preemption'), 0) / 1e6 AS preemption_gpu_s,
        coalesce(sum(us) FILTER (class = 'idle'), 0) / 1e6 AS idle_gpu_s,
        coalesce(sum(us) FILTER (class = 'unexplained'), 0) / 1e6 AS unexplained_gpu_s,
        coalesce(sum(us) FILTER (in_step), 0) / 1e6 AS in_step_gpu_s,
        coalesce(sum(us) FILTER (class = 'unexplained' AND NOT in_step), 0) / 1e6 AS unknown_gpu_s
    FROM (
        SELECT *, date_trunc('day', start_ts) AS day_ts, round(gpu_s * 1e6)::BIGINT AS us
        FROM goodput_segment
        WHERE is_scheduled AND gpu_s IS NOT NULL
    )
    GROUP BY cluster, job_id, attempt, day_ts
),
-- Work of a badly ended attempt that nobody carried on, and of whose checkpoints nothing is known.
risky AS (
    SELECT cluster, job_id, attempt, bool_or(is_last_attempt AND saved_step IS NULL) AS is_risky
    FROM train_progress_day
    GROUP BY ALL
),
counted AS (
    SELECT
        *,
        held_s - day_suspended_s AS allocated_s,
        (held_s - day_suspended_s) * alloc_gpus AS allocated_gpu_s
    FROM split
)
SELECT
    c.cluster,
    c.job_id,
    c.attempt,
    c.day_ts,
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
    evidence,
    if(knows_steps, productive_gpu_s, NULL) AS productive_gpu_s,
    if(knows_steps, evaluation_gpu_s, NULL) AS evaluation_gpu_s,
    if(knows_steps, init_gpu_s, NULL) AS init_gpu_s,
    if(knows_steps, data_stall_gpu_s, NULL) AS data_stall_gpu_s,
    if(knows_steps, checkpoint_save_gpu_s, NULL) AS checkpoint_save_gpu_s,
    if(knows_steps, checkpoint_load_gpu_s, NULL) AS checkpoint_load_gpu_s,
    if(knows_steps, lost_work_gpu_s, NULL) AS lost_work_gpu_s,
    if(knows_steps, straggler_gpu_s, NULL) AS straggler_gpu_s,
    if(knows_steps, communication_stall_gpu_s, NULL) AS communication_stall_gpu_s,
    if(knows_steps, throttle_gpu_s, NULL) AS throttle_gpu_s,
    if(knows_steps, silent_degradation_gpu_s, NULL) AS silent_degradation_gpu_s,
    if(knows_steps, hang_detection_gpu_s, NULL) AS hang_detection_gpu_s,
    if(knows_steps, restart_gpu_s, NULL) AS restart_gpu_s,
    if(knows_steps, preemption_gpu_s, NULL) AS preemption_gpu_s,
    if(evidence <> 'scheduler', idle_gpu_s, NULL) AS idle_gpu_s,
    unexplained_gpu_s,
    if(knows_steps, in_step_gpu_s, NULL) AS in_step_gpu_s,
    if(knows_steps AND allocated_gpu_s > 0, in_step_gpu_s / allocated_gpu_s, NULL)::DOUBLE AS goodput_library_ratio,
    if(knows_steps AND allocated_gpu_s > 0, productive_gpu_s / allocated_gpu_s, NULL)::DOUBLE AS goodput_strict_ratio,
    CASE WHEN NOT knows_steps THEN least_gpu_s
        WHEN may_be_lost THEN 0
        ELSE in_step_gpu_s * (1 - getvariable('ideal_error_ratio')) END::DOUBLE AS library_lower_gpu_s,
    CASE WHEN NOT knows_steps THEN allocated_gpu_s - idle_gpu_s
        ELSE least(allocated_gpu_s, in_step_gpu_s * (1 + getvariable('ideal_error_ratio')) + unknown_gpu_s)
        END::DOUBLE AS library_upper_gpu_s,
    CASE WHEN NOT knows_steps THEN least_gpu_s
        WHEN may_be_lost THEN 0
        ELSE productive_gpu_s * (1 - getvariable('ideal_error_ratio')) END::DOUBLE AS strict_lower_gpu_s,
    CASE WHEN NOT knows_steps THEN allocated_gpu_s - idle_gpu_s
        ELSE least(allocated_gpu_s, productive_gpu_s * (1 + getvariable('ideal_error_ratio')) + unknown_gpu_s)
        END::DOUBLE AS strict_upper_gpu_s,
    (alloc_gpus IS NOT NULL)::INTEGER::DOUBLE AS coverage_ratio,
    has_all_attempts
FROM (
    SELECT
        c.*, l.* EXCLUDE (cluster, job_id, attempt, day_ts),
        evidence IN ('steps', 'collectives') AS knows_steps,
        coalesce(is_risky, false) AND end_class NOT IN ('completed', 'running') AS may_be_lost,
        if(
            end_class = 'completed',
            getvariable('least_useful_ratio') * (allocated_gpu_s - idle_gpu_s), 0 * allocated_gpu_s
        ) AS least_gpu_s
    FROM counted c
    LEFT JOIN ledger l USING (cluster, job_id, attempt, day_ts)
    LEFT JOIN risky USING (cluster, job_id, attempt)
) c
