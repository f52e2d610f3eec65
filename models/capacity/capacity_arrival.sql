/*
doc = """
Demand as a capacity replay needs it: one row per attempt that wanted GPUs, from when it could have started. Parts
of a heterogeneous job are one. Attempts without GPUs are left out; where no record says whether an attempt has GPUs it
stays, without a count.
"""
grain = ["cluster", "job_id", "attempt"]
time = "ready_ts"
end = "end_ts"
observed = "observed_ts"
sort = ["cluster", "ready_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id; of a heterogeneous job the id all parts share" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
ready_ts = { type = "TIMESTAMP", doc = "from when it could have started: eligible, else submitted" }
start_ts = { type = "TIMESTAMP", doc = "start; NULL if it has not started" }
end_ts = { type = "TIMESTAMP", doc = "end; NULL while open" }
observed_ts = { type = "TIMESTAMP", doc = "job_attempt.observed_ts" }
account = { type = "VARCHAR", doc = "account charged; the namespace on Kubernetes" }
partition = { type = "VARCHAR", doc = "partition; the queue on Kubernetes" }
gpu_count = { type = "DOUBLE", doc = "GPUs held, else asked for, shares of one included; NULL if not known", unit = "count" }
timelimit_s = { type = "BIGINT", doc = "time limit", unit = "s" }
has_all_attempts = { type = "BOOLEAN", doc = "job_attempt.has_all_attempts" }
source = { type = "VARCHAR", doc = "job_attempt.source" }
*/
WITH part AS (
    SELECT
        cluster, coalesce(het_job_id, job_id) AS job_id, attempt, het_job_id, het_offset,
        coalesce(eligible_ts, submit_ts, attempt_ts) AS ready_ts, start_ts, end_ts, observed_ts, account, partition,
        coalesce(alloc_gpu_amount, alloc_gpus, req_gpu_amount, req_gpus)::DOUBLE AS gpu_count,
        gpu_count_source, timelimit_s, has_all_attempts, source
    FROM job_attempt
),
whole AS (
    SELECT * FROM part WHERE het_job_id IS NULL
    UNION ALL BY NAME
    SELECT
        cluster, job_id, attempt,
        max(ready_ts) AS ready_ts, min(start_ts) AS start_ts,
        CASE WHEN count(end_ts) = count(*) THEN max(end_ts) END AS end_ts,
        max(observed_ts) AS observed_ts,
        first(account ORDER BY het_offset) AS account,
        first(partition ORDER BY het_offset) AS partition,
        CASE WHEN count(gpu_count) = count(*) THEN sum(gpu_count) END AS gpu_count,
        CASE WHEN bool_and(gpu_count_source = 'no_gpu_entry') THEN 'no_gpu_entry' END AS gpu_count_source,
        max(timelimit_s) AS timelimit_s, bool_and(has_all_attempts) AS has_all_attempts, any_value(source) AS source
    FROM part
    WHERE het_job_id IS NOT NULL
    GROUP BY cluster, job_id, attempt
)
SELECT
    cluster, job_id, attempt, ready_ts, start_ts, end_ts, observed_ts, account, partition, gpu_count, timelimit_s,
    has_all_attempts, source
FROM whole
WHERE gpu_count > 0 OR (gpu_count IS NULL AND gpu_count_source IS DISTINCT FROM 'no_gpu_entry')
