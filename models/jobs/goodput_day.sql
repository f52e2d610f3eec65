/*
doc = "Goodput from job records, per cluster and day: GPU-seconds held, by how the attempt ended, and the interval in which the useful share lies."
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
    CASE WHEN allocated_s > 0
        THEN (coalesce(counted_s, 0) + CASE WHEN names_gpus THEN no_entry_s ELSE 0 END) / allocated_s
    END AS coverage_ratio,
    CASE WHEN some_missing THEN false WHEN all_stated THEN true END AS has_all_attempts
FROM sums
