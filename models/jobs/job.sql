/*
doc = "One row per job over all its attempts: first submit, first start, last end, final state, waits. Jobs that never started are kept; parts of a heterogeneous job are one job."
grain = ["cluster", "job_id", "job_ts"]
time = "job_ts"
end = "last_end_ts"
observed = "observed_ts"
sort = ["cluster", "job_ts", "job_id"]
# A job's attempts may lie months apart, and a job id may come again: no lookback is long enough.
window = "all"

[columns]
cluster = { type = "VARCHAR", doc = "cluster the job was given to" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id; of a heterogeneous job the id all parts share" }
job_ts = { type = "TIMESTAMP", doc = "attempt_ts of its first known attempt; tells jobs apart whose id was used again" }
job_name = { type = "VARCHAR", doc = "name given at submission" }
principal = { type = "VARCHAR", doc = "user who submitted it" }
account = { type = "VARCHAR", doc = "account charged" }
partition = { type = "VARCHAR", doc = "partition of the last attempt" }
qos = { type = "VARCHAR", doc = "quality of service of the last attempt" }
array_job_id = { type = "VARCHAR", doc = "id of the array it is a task of" }
attempts = { type = "BIGINT[]", doc = "job_attempt.attempt of each attempt, in order: the n-th attempt is the n-th entry", unit = "s" }
attempt_count = { type = "INTEGER", doc = "attempts known", unit = "count" }
started_attempt_count = { type = "INTEGER", doc = "attempts that held an allocation", unit = "count" }
first_submit_ts = { type = "TIMESTAMP", doc = "submit of the first attempt" }
first_eligible_ts = { type = "TIMESTAMP", doc = "from when the first attempt could have started" }
first_start_ts = { type = "TIMESTAMP", doc = "first start; NULL if it never started" }
last_end_ts = { type = "TIMESTAMP", doc = "end of the last attempt; NULL while that is open" }
observed_ts = { type = "TIMESTAMP", doc = "the last attempt is known to have stood so at this time" }
final_state = { type = "VARCHAR", doc = "state of the last attempt" }
is_abandoned = { type = "BOOLEAN", doc = "ended without ever starting" }
first_wait_s = { type = "BIGINT", doc = "first submit to first start; 0 is a wait too", unit = "s" }
eligible_wait_s = { type = "BIGINT", doc = "eligible to start of the attempt that started first", unit = "s" }
requeue_wait_s = { type = "BIGINT", doc = "submit to start, summed over later attempts that started", unit = "s" }
run_s = { type = "BIGINT", doc = "start to end less suspended, summed over attempts; of open ones up to observed_ts", unit = "s" }
req_gpus = { type = "INTEGER", doc = "GPUs the last attempt asked for", unit = "count" }
alloc_gpus = { type = "INTEGER", doc = "GPUs of the last attempt that started", unit = "count" }
timelimit_s = { type = "BIGINT", doc = "time limit of the last attempt", unit = "s" }
has_all_attempts = { type = "BOOLEAN", doc = "false if the records were collected without earlier attempts, NULL if nobody said" }

[params.id_reuse_gap_s]
default = 2592000
doc = "s; an attempt submitted this long after the one before ended belongs to a new job with a reused id (Slurm starts again at MaxJobId). 30 days, longer than any finished job stays in slurmctld to be requeued (MinJobAge, 300 s)"
*/
WITH part AS (
    SELECT *, coalesce(het_job_id, job_id) AS whole_job_id
    FROM job_attempt
),
-- Parts of a heterogeneous job start and end together: one attempt of the whole.
attempt AS (
    SELECT
        cluster,
        whole_job_id AS job_id,
        attempt,
        any_value(attempt_ts) AS attempt_ts,
        first(job_name ORDER BY het_offset) AS job_name,
        first(principal ORDER BY het_offset) AS principal,
        first(account ORDER BY het_offset) AS account,
        first(partition ORDER BY het_offset) AS partition,
        first(qos ORDER BY het_offset) AS qos,
        first(array_job_id ORDER BY het_offset) AS array_job_id,
        min(submit_ts) AS submit_ts,
        max(eligible_ts) AS eligible_ts,
        min(start_ts) AS start_ts,
        CASE WHEN count(end_ts) = count(*) THEN max(end_ts) END AS end_ts,
        max(observed_ts) AS observed_ts,
        CASE WHEN count(DISTINCT state) = 1 THEN any_value(state)
            ELSE first(state ORDER BY state = 'COMPLETED', het_offset) END AS state,
        min(phase) AS phase,
        max(suspended_s) AS suspended_s,
        sum(req_gpus) AS req_gpus,
        sum(alloc_gpus) AS alloc_gpus,
        max(timelimit_s) AS timelimit_s,
        bool_and(has_all_attempts) AS has_all_attempts
    FROM part
    GROUP BY cluster, whole_job_id, attempt
),
marked AS (
    SELECT
        *,
        coalesce(
            attempt_ts - lag(coalesce(end_ts, observed_ts)) OVER one
                > getvariable('id_reuse_gap_s') * INTERVAL 1 SECOND
            OR principal <> lag(principal) OVER one,
            false
        ) AS is_new_job
    FROM attempt
    WINDOW one AS (PARTITION BY cluster, job_id ORDER BY attempt)
),
numbered AS (
    SELECT
        *,
        sum(is_new_job::INTEGER) OVER (PARTITION BY cluster, job_id ORDER BY attempt) AS job_number,
        greatest(0, epoch(coalesce(end_ts, observed_ts) - start_ts) - coalesce(suspended_s, 0)) AS run_s
    FROM marked
),
placed AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY cluster, job_id, job_number ORDER BY attempt) AS position
    FROM numbered
)
SELECT
    cluster,
    job_id,
    min(attempt_ts) AS job_ts,
    last(job_name ORDER BY attempt) AS job_name,
    last(principal ORDER BY attempt) AS principal,
    last(account ORDER BY attempt) AS account,
    last(partition ORDER BY attempt) AS partition,
    last(qos ORDER BY attempt) AS qos,
    last(array_job_id ORDER BY attempt) AS array_job_id,
    list(attempt ORDER BY attempt) AS attempts,
    count(*)::INTEGER AS attempt_count,
    count(start_ts)::INTEGER AS started_attempt_count,
    first(submit_ts ORDER BY attempt) AS first_submit_ts,
    first(eligible_ts ORDER BY attempt) AS first_eligible_ts,
    min(start_ts) AS first_start_ts,
    last(end_ts ORDER BY attempt) AS last_end_ts,
    last(observed_ts ORDER BY attempt) AS observed_ts,
    last(state ORDER BY attempt) AS final_state,
    count(start_ts) = 0 AND last(phase ORDER BY attempt) = 2 AS is_abandoned,
    epoch(min(start_ts) - first(submit_ts ORDER BY attempt))::BIGINT AS first_wait_s,
    epoch(min(start_ts) - arg_min(eligible_ts, start_ts))::BIGINT AS eligible_wait_s,
    (sum(epoch(start_ts - submit_ts)) FILTER (position > 1))::BIGINT AS requeue_wait_s,
    sum(run_s)::BIGINT AS run_s,
    last(req_gpus ORDER BY attempt)::INTEGER AS req_gpus,
    (last(alloc_gpus ORDER BY attempt) FILTER (start_ts IS NOT NULL))::INTEGER AS alloc_gpus,
    last(timelimit_s ORDER BY attempt) AS timelimit_s,
    bool_and(has_all_attempts) AS has_all_attempts
FROM placed
GROUP BY cluster, job_id, job_number
