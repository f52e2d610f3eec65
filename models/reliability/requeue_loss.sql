/*
doc = """
What interruptions that were no preemption cost, by month, final state of the attempt and failure domain: work
lost since the last checkpoint as an interval, and the time until the jobs ran again. Only ends after which
the job had a further attempt, or that are a requeue: a failed job that nobody started again is in failure_share.
"""
grain = ["cluster", "month_ts", "state", "failure_domain"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
month_ts = { type = "TIMESTAMP", doc = "start of the month of the interruption, UTC" }
state = { type = "VARCHAR", doc = "state the attempt ended in" }
failure_domain = { type = "VARCHAR", doc = "attempt_outcome.failure_domain" }
interruption_count = { type = "BIGINT", doc = "interruptions", unit = "count" }
job_count = { type = "BIGINT", doc = "jobs concerned", unit = "count" }
lost_lower_gpu_h = { type = "DOUBLE", doc = "GPU-hours lost at least, over attempts whose GPUs are known; NULL if none is", unit = "h" }
lost_upper_gpu_h = { type = "DOUBLE", doc = "GPU-hours lost at most", unit = "h" }
restarted_count = { type = "BIGINT", doc = "interruptions after which the job started again", unit = "count" }
restart_gap_p50_s = { type = "DOUBLE", doc = "median from the end to work: ready_ts, else the next start; linear interpolation, over restarted_count", unit = "s" }
restart_gap_p90_s = { type = "DOUBLE", doc = "90th percentile of the same", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "share of interruptions whose lost work and GPUs are known", unit = "ratio" }
*/
SELECT
    cluster,
    date_trunc('month', end_ts)::TIMESTAMP AS month_ts,
    state,
    failure_domain,
    count(*) AS interruption_count,
    count(DISTINCT job_id) AS job_count,
    sum(lost_lower_gpu_h) AS lost_lower_gpu_h,
    sum(lost_upper_gpu_h) AS lost_upper_gpu_h,
    count(next_start_ts) AS restarted_count,
    quantile_cont(epoch(coalesce(ready_ts, next_start_ts) - end_ts), 0.5) AS restart_gap_p50_s,
    quantile_cont(epoch(coalesce(ready_ts, next_start_ts) - end_ts), 0.9) AS restart_gap_p90_s,
    (count(*) FILTER (lost_source <> 'unknown' AND gpu_count IS NOT NULL) / count(*))::DOUBLE AS coverage_ratio
FROM interruption
WHERE state <> 'PREEMPTED'
GROUP BY ALL
