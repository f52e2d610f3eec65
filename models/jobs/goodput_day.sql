/*
doc = "Goodput per cluster and day: GPU-seconds held, by how the attempt ended and by who owns them in the ledger (job_goodput), and the intervals in which the useful share lies. docs/goodput.md defines every figure."
grain = ["cluster", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
attempt_count = { type = "BIGINT", doc = "attempts that held an allocation on the day", unit = "count" }
allocated_gpu_s = { type = "DOUBLE", doc = "GPU-seconds held and not suspended; the classes below sum to it", unit = "s" }
completed_gpu_s = { type = "DOUBLE", doc = "in attempts that completed", unit = "s" }
failed_gpu_s = { type = "DOUBLE", doc = "in attempts that failed", unit = "s" }
timeout_gpu_s = { type = "DOUBLE", doc = "in attempts stopped at their time limit", unit = "s" }
cancelled_gpu_s = { type = "DOUBLE", doc = "in attempts cancelled by a person", unit = "s" }
preempted_gpu_s = { type = "DOUBLE", doc = "in attempts that had to make room", unit = "s" }
requeued_gpu_s = { type = "DOUBLE", doc = "in attempts put back into the queue", unit = "s" }
node_fail_gpu_s = { type = "DOUBLE", doc = "in attempts that lost a node, or whose node did not boot", unit = "s" }
oom_gpu_s = { type = "DOUBLE", doc = "in attempts that ran out of memory", unit = "s" }
running_gpu_s = { type = "DOUBLE", doc = "in attempts not known to have ended", unit = "s" }
unknown_gpu_s = { type = "DOUBLE", doc = "in attempts that ended in a way the record does not tell, or at a deadline", unit = "s" }
suspended_gpu_s = { type = "DOUBLE", doc = "GPU-seconds suspended, beside allocated_gpu_s", unit = "s" }
goodput_lower_ratio = { type = "DOUBLE", doc = "share of allocated_gpu_s that was useful if every attempt that did not complete lost all its work; NULL if earlier attempts of jobs are stated to be missing", unit = "ratio" }
goodput_upper_ratio = { type = "DOUBLE", doc = "the same if no attempt lost any work", unit = "ratio" }
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
goodput_library_ratio = { type = "DOUBLE", doc = "in_step_gpu_s by the GPU-seconds of attempts whose steps are known; NULL: of none", unit = "ratio" }
goodput_strict_ratio = { type = "DOUBLE", doc = "productive_gpu_s by the same", unit = "ratio" }
steps_coverage_ratio = { type = "DOUBLE", doc = "GPU-seconds of attempts whose steps are known, of allocated_gpu_s: what the two ratios speak of", unit = "ratio" }
library_lower_ratio = { type = "DOUBLE", doc = "least that the library ratio of all allocated GPU-seconds can be, by whatever evidence each attempt has", unit = "ratio" }
library_upper_ratio = { type = "DOUBLE", doc = "most", unit = "ratio" }
strict_lower_ratio = { type = "DOUBLE", doc = "the same of the strict ratio: least", unit = "ratio" }
strict_upper_ratio = { type = "DOUBLE", doc = "most", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "share of the attempts' seconds for which the GPUs held are known: recorded, or none by a TRES list without GPUs on a day on which the cluster's lists name GPUs", unit = "ratio" }
has_all_attempts = { type = "BOOLEAN", doc = "false if some records were collected without earlier attempts, NULL if nobody said" }
*/
WITH sums AS (
    SELECT
        cluster,
        day_ts,
        count(*) AS attempt_count,
        sum(allocated_gpu_s) AS allocated_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class = 'completed') AS completed_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class = 'failed') AS failed_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class = 'timeout') AS timeout_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class = 'cancelled') AS cancelled_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class = 'preempted') AS preempted_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class = 'requeued') AS requeued_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class IN ('node_fail', 'boot_fail')) AS node_fail_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class = 'oom') AS oom_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class = 'running') AS running_gpu_s,
        sum(allocated_gpu_s) FILTER (end_class IN ('unknown', 'deadline')) AS unknown_gpu_s,
        sum(suspended_gpu_s) AS suspended_gpu_s,
        sum(goodput_lower_gpu_s) AS goodput_lower_gpu_s,
        sum(goodput_upper_gpu_s) AS goodput_upper_gpu_s,
        sum(productive_gpu_s) AS productive_gpu_s,
        sum(evaluation_gpu_s) AS evaluation_gpu_s,
        sum(init_gpu_s) AS init_gpu_s,
        sum(data_stall_gpu_s) AS data_stall_gpu_s,
        sum(checkpoint_save_gpu_s) AS checkpoint_save_gpu_s,
        sum(checkpoint_load_gpu_s) AS checkpoint_load_gpu_s,
        sum(lost_work_gpu_s) AS lost_work_gpu_s,
        sum(straggler_gpu_s) AS straggler_gpu_s,
        sum(communication_stall_gpu_s) AS communication_stall_gpu_s,
        sum(throttle_gpu_s) AS throttle_gpu_s,
        sum(silent_degradation_gpu_s) AS silent_degradation_gpu_s,
        sum(hang_detection_gpu_s) AS hang_detection_gpu_s,
        sum(restart_gpu_s) AS restart_gpu_s,
        sum(preemption_gpu_s) AS preemption_gpu_s,
        sum(idle_gpu_s) AS idle_gpu_s,
        sum(unexplained_gpu_s) AS unexplained_gpu_s,
        sum(in_step_gpu_s) AS in_step_gpu_s,
        sum(library_lower_gpu_s) AS library_lower_gpu_s,
        sum(library_upper_gpu_s) AS library_upper_gpu_s,
        sum(strict_lower_gpu_s) AS strict_lower_gpu_s,
        sum(strict_upper_gpu_s) AS strict_upper_gpu_s,
        sum(allocated_gpu_s) FILTER (goodput_strict_ratio IS NOT NULL) AS stepped_gpu_s,
        sum(allocated_s) AS allocated_s,
        sum(allocated_s) FILTER (alloc_gpus IS NOT NULL) AS counted_s,
        coalesce(sum(allocated_s) FILTER (gpu_count_source = 'no_gpu_entry'), 0) AS no_entry_s,
        bool_or(alloc_gpus IS NOT NULL) AS names_gpus,
        bool_and(has_all_attempts) AND count(has_all_attempts) = count(*) AS all_stated,
        bool_or(has_all_attempts = false) AS some_missing
    FROM job_goodput
    GROUP BY cluster, day_ts
)
-- A class without attempts is zero only if the allocation itself is known.
SELECT
    cluster,
    day_ts,
    attempt_count,
    allocated_gpu_s,
    coalesce(completed_gpu_s, 0 * allocated_gpu_s) AS completed_gpu_s,
    coalesce(failed_gpu_s, 0 * allocated_gpu_s) AS failed_gpu_s,
    coalesce(timeout_gpu_s, 0 * allocated_gpu_s) AS timeout_gpu_s,
    coalesce(cancelled_gpu_s, 0 * allocated_gpu_s) AS cancelled_gpu_s,
    coalesce(preempted_gpu_s, 0 * allocated_gpu_s) AS preempted_gpu_s,
    coalesce(requeued_gpu_s, 0 * allocated_gpu_s) AS requeued_gpu_s,
    coalesce(node_fail_gpu_s, 0 * allocated_gpu_s) AS node_fail_gpu_s,
    coalesce(oom_gpu_s, 0 * allocated_gpu_s) AS oom_gpu_s,
    coalesce(running_gpu_s, 0 * allocated_gpu_s) AS running_gpu_s,
    coalesce(unknown_gpu_s, 0 * allocated_gpu_s) AS unknown_gpu_s,
    suspended_gpu_s,
    CASE WHEN some_missing IS NOT true AND allocated_gpu_s > 0
        THEN goodput_lower_gpu_s / allocated_gpu_s END AS goodput_lower_ratio,
    CASE WHEN some_missing IS NOT true AND allocated_gpu_s > 0
        THEN goodput_upper_gpu_s / allocated_gpu_s END AS goodput_upper_ratio,
    productive_gpu_s, evaluation_gpu_s, init_gpu_s, data_stall_gpu_s, checkpoint_save_gpu_s, checkpoint_load_gpu_s, lost_work_gpu_s, straggler_gpu_s, communication_stall_gpu_s, throttle_gpu_s, silent_degradation_gpu_s, hang_detection_gpu_s, restart_gpu_s, preemption_gpu_s, idle_gpu_s, unexplained_gpu_s, in_step_gpu_s,
    in_step_gpu_s / nullif(stepped_gpu_s, 0) AS goodput_library_ratio,
    productive_gpu_s / nullif(stepped_gpu_s, 0) AS goodput_strict_ratio,
    coalesce(stepped_gpu_s, 0) / nullif(allocated_gpu_s, 0) AS steps_coverage_ratio,
    library_lower_gpu_s / nullif(allocated_gpu_s, 0) AS library_lower_ratio,
    library_upper_gpu_s / nullif(allocated_gpu_s, 0) AS library_upper_ratio,
    strict_lower_gpu_s / nullif(allocated_gpu_s, 0) AS strict_lower_ratio,
    strict_upper_gpu_s / nullif(allocated_gpu_s, 0) AS strict_upper_ratio,
    CASE WHEN allocated_s > 0
        THEN (coalesce(counted_s, 0) + CASE WHEN names_gpus THEN no_entry_s ELSE 0 END) / allocated_s
    END AS coverage_ratio,
    CASE WHEN some_missing THEN false WHEN all_stated THEN true END AS has_all_attempts
FROM sums
