/*
doc = """
What preemptions cost, by month and by the queue that took the GPUs: work lost since the last checkpoint, and
the time until the victims ran again. Each preemption is a row of interruption (state PREEMPTED).

Lost GPU-hours are an interval: where no log tells of checkpoints, between none and the whole attempt;
coverage_ratio is the share of preemptions where it is known.
"""
grain = ["cluster", "month_ts", "preemptor_queue", "victim_partition"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
month_ts = { type = "TIMESTAMP", doc = "start of the month of the preemption, UTC" }
preemptor_queue = { type = "VARCHAR", doc = "queue (else partition) of the job that took the place; unknown where nobody is named" }
victim_partition = { type = "VARCHAR", doc = "partition of the preempted jobs; unknown where the record says none" }
preemption_count = { type = "BIGINT", doc = "preemptions", unit = "count" }
victim_job_count = { type = "BIGINT", doc = "jobs preempted", unit = "count" }
named_count = { type = "BIGINT", doc = "preemptions whose preemptor the scheduler names", unit = "count" }
inferred_count = { type = "BIGINT", doc = "those where it is inferred: it started on the victim's nodes", unit = "count" }
lost_lower_gpu_h = { type = "DOUBLE", doc = "GPU-hours lost at least, over victims whose GPUs are known; NULL if none is", unit = "h" }
lost_upper_gpu_h = { type = "DOUBLE", doc = "GPU-hours lost at most", unit = "h" }
restarted_count = { type = "BIGINT", doc = "victims that started again", unit = "count" }
restart_gap_p50_s = { type = "DOUBLE", doc = "median from preemption to work: ready_ts, else the next start; linear interpolation, over restarted_count", unit = "s" }
restart_gap_p90_s = { type = "DOUBLE", doc = "90th percentile of the same", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "share of preemptions whose lost work and GPUs are known", unit = "ratio" }
*/
SELECT
    cluster,
    date_trunc('month', end_ts)::TIMESTAMP AS month_ts,
    coalesce(preemptor_queue, 'unknown') AS preemptor_queue,
    coalesce(partition, 'unknown') AS victim_partition,
    count(*) AS preemption_count,
    count(DISTINCT job_id) AS victim_job_count,
    count(*) FILTER (preemptor_source = 'scheduler') AS named_count,
    count(*) FILTER (preemptor_source = 'inferred') AS inferred_count,
    sum(lost_lower_gpu_h) AS lost_lower_gpu_h,
    sum(lost_upper_gpu_h) AS lost_upper_gpu_h,
    count(next_start_ts) AS restarted_count,
    quantile_cont(epoch(coalesce(ready_ts, next_start_ts) - end_ts), 0.5) AS restart_gap_p50_s,
    quantile_cont(epoch(coalesce(ready_ts, next_start_ts) - end_ts), 0.9) AS restart_gap_p90_s,
    (count(*) FILTER (lost_source <> 'unknown' AND gpu_count IS NOT NULL) / count(*))::DOUBLE AS coverage_ratio
FROM interruption
WHERE state = 'PREEMPTED'
GROUP BY ALL
