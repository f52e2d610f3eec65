/*
doc = """
Where the time of jobs went after their first start, by month of their end and size: run, waited for a restart,
lost with interruptions, spent on getting ready again. What the measured ETTR is made of.

Jobs that ran min_run_s or more in all; weights are GPU-seconds. Lost time is an interval where no log tells
of checkpoints.
"""
grain = ["cluster", "month_ts", "size_bucket"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts", "size_bucket"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the jobs" }
month_ts = { type = "TIMESTAMP", doc = "start of the month in which they ended, UTC" }
size_bucket = { type = "VARCHAR", doc = "GPUs of the last attempt that started, as in run_exposure_day; unknown where the record does not say" }
job_count = { type = "BIGINT", doc = "jobs", unit = "count" }
interrupted_job_count = { type = "BIGINT", doc = "of them those interrupted at least once", unit = "count" }
mean_gpu_count = { type = "DOUBLE", doc = "their GPUs, mean weighted by run time", unit = "count" }
max_gpu_count = { type = "BIGINT", doc = "most GPUs of one of them", unit = "count" }
run_gpu_s = { type = "DOUBLE", doc = "GPU-seconds run", unit = "s" }
wait_gpu_s = { type = "DOUBLE", doc = "GPU-seconds from the end of an attempt to the next start", unit = "s" }
lost_lower_gpu_s = { type = "DOUBLE", doc = "GPU-seconds of work lost with interruptions, at least", unit = "s" }
lost_upper_gpu_s = { type = "DOUBLE", doc = "the same, at most", unit = "s" }
init_gpu_s = { type = "DOUBLE", doc = "GPU-seconds from restart to work, where known", unit = "s" }
known_lost_count = { type = "BIGINT", doc = "interruptions whose lost work is known", unit = "count" }
known_init_count = { type = "BIGINT", doc = "restarts whose time to work is known", unit = "count" }
interruption_count = { type = "BIGINT", doc = "interruptions", unit = "count" }
init_p50_s = { type = "DOUBLE", doc = "median time from restart to work", unit = "s" }
has_all_attempts = { type = "BOOLEAN", doc = "false if some records were collected without earlier attempts, NULL if nobody said" }

[params.min_run_s]
default = 86400
doc = "s; jobs that ran less in all are left out: few of them save checkpoints, and none is what a planner sizes for. Meta's ETTR is of runs of at least 24 hours (arXiv 2410.21680)."
*/
WITH broken AS (
    SELECT
        cluster, job_id, job_ts,
        sum(queue_gap_s) AS wait_s,
        sum(CASE WHEN lost_source = 'unknown' THEN 0 ELSE epoch(end_ts - coalesce(last_checkpoint_ts, start_ts)) END) AS lost_lower_s,
        sum(epoch(end_ts - coalesce(last_checkpoint_ts, start_ts))) AS lost_upper_s,
        sum(init_s) AS init_s,
        median(init_s) AS init_p50_s,
        count(*) FILTER (lost_source <> 'unknown') AS known_lost_count,
        count(init_s) AS known_init_count,
        count(*) AS interruption_count
    FROM interruption
    GROUP BY ALL
),
ended AS (
    SELECT
        cluster, job_id, date_trunc('month', last_end_ts)::TIMESTAMP AS month_ts,
        alloc_gpus AS gpu_count, run_s, has_all_attempts, broken.* EXCLUDE (cluster, job_id, job_ts),
        CASE
            WHEN alloc_gpus = 0 THEN '0'
            WHEN alloc_gpus < 2 THEN '1'
            WHEN alloc_gpus < 8 THEN '2-7'
            WHEN alloc_gpus = 8 THEN '8'
            WHEN alloc_gpus <= 64 THEN '9-64'
            WHEN alloc_gpus <= 512 THEN '65-512'
            WHEN alloc_gpus <= 2048 THEN '513-2048'
            WHEN alloc_gpus > 2048 THEN '>2048'
            ELSE 'unknown'
        END AS size_bucket
    FROM job
    LEFT JOIN broken USING (cluster, job_id, job_ts)
    WHERE last_end_ts IS NOT NULL AND first_start_ts IS NOT NULL AND run_s >= getvariable('min_run_s')
)
SELECT
    cluster, month_ts, size_bucket,
    count(*) AS job_count,
    count(interruption_count) AS interrupted_job_count,
    (sum(gpu_count * run_s) / sum(run_s) FILTER (gpu_count IS NOT NULL))::DOUBLE AS mean_gpu_count,
    max(gpu_count)::BIGINT AS max_gpu_count,
    sum(gpu_count * run_s)::DOUBLE AS run_gpu_s,
    sum(gpu_count * coalesce(wait_s, 0))::DOUBLE AS wait_gpu_s,
    sum(gpu_count * coalesce(lost_lower_s, 0))::DOUBLE AS lost_lower_gpu_s,
    sum(gpu_count * coalesce(lost_upper_s, 0))::DOUBLE AS lost_upper_gpu_s,
    sum(gpu_count * coalesce(init_s, 0))::DOUBLE AS init_gpu_s,
    coalesce(sum(known_lost_count), 0)::BIGINT AS known_lost_count,
    coalesce(sum(known_init_count), 0)::BIGINT AS known_init_count,
    coalesce(sum(interruption_count), 0)::BIGINT AS interruption_count,
    median(init_p50_s)::DOUBLE AS init_p50_s,
    CASE WHEN bool_or(NOT has_all_attempts) THEN false WHEN count(has_all_attempts) = count(*) THEN true END AS has_all_attempts
FROM ended
GROUP BY ALL
