/*
doc = """
Time a job spent on starting again, over all its restarts: queue part (end of an attempt to the next start) and
init part (start to the first training step, else to pods ready). The init part of restarts that no log
covers is not known and not counted: coverage_ratio says how many are.
"""
grain = ["cluster", "job_id", "job_ts"]
time = "job_ts"
sort = ["cluster", "job_ts", "job_id"]
# A job's interruptions may lie months apart.
window = "all"

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the job" }
job_id = { type = "VARCHAR", doc = "job.job_id" }
job_ts = { type = "TIMESTAMP", doc = "job.job_ts" }
principal = { type = "VARCHAR", doc = "user who submitted it" }
partition = { type = "VARCHAR", doc = "partition of its first interrupted attempt" }
gpu_count = { type = "DOUBLE", doc = "most GPUs that an interrupted attempt held; NULL if not known", unit = "count" }
interruption_count = { type = "BIGINT", doc = "attempts that were interrupted", unit = "count" }
restart_count = { type = "BIGINT", doc = "interruptions after which it started again", unit = "count" }
queue_s = { type = "DOUBLE", doc = "queue part, summed; NULL without a restart", unit = "s" }
init_s = { type = "DOUBLE", doc = "init part, summed over restarts where it is known; NULL if none is", unit = "s" }
queue_gpu_h = { type = "DOUBLE", doc = "GPUs of the interrupted attempts times their queue parts: what the job did without", unit = "h" }
init_gpu_h = { type = "DOUBLE", doc = "the same of init parts: GPUs held and not working", unit = "h" }
coverage_ratio = { type = "DOUBLE", doc = "share of restarts whose init part is known; NULL without a restart", unit = "ratio" }
*/
SELECT
    cluster,
    job_id,
    job_ts,
    arg_min(principal, attempt) AS principal,
    arg_min(partition, attempt) AS partition,
    max(gpu_count) AS gpu_count,
    count(*) AS interruption_count,
    count(next_start_ts) AS restart_count,
    sum(queue_gap_s) AS queue_s,
    sum(init_s) AS init_s,
    sum(queue_gap_s * gpu_count) / 3600 AS queue_gpu_h,
    sum(init_s * gpu_count) / 3600 AS init_gpu_h,
    (count(init_s) / nullif(count(next_start_ts), 0))::DOUBLE AS coverage_ratio
FROM interruption
GROUP BY cluster, job_id, job_ts
