/*
doc = """
How long what started had waited: percentiles of three waits, per day and month of submission. Rows with '*' in a
dimension are taken over all its values (percentiles cannot be added up): every combination of partition, qos,
gpu_model and size_bucket, each of them alone, and all together. Percentiles interpolate linearly (quantile_cont).
Survivors only: what was given up or still waits is in queue_wait_all_demand. All NULL where earlier attempts of
jobs are stated to be missing (sacct without -D): a requeue would hide the wait before it.
"""
grain = ["cluster", "period", "start_ts", "partition", "qos", "gpu_model", "size_bucket"]
time = "start_ts"
window = "month"
sort = ["cluster", "period", "start_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
period = { type = "VARCHAR", doc = "day or month" }
start_ts = { type = "TIMESTAMP", doc = "start of the day or month in which the attempts were submitted" }
partition = { type = "VARCHAR", doc = "job_wait.partition, or *" }
qos = { type = "VARCHAR", doc = "job_wait.qos, or *" }
gpu_model = { type = "VARCHAR", doc = "job_wait.gpu_model, or *" }
size_bucket = { type = "VARCHAR", doc = "job_wait.size_bucket, or *" }
attempt_count = { type = "BIGINT", doc = "attempts submitted", unit = "count" }
started_count = { type = "BIGINT", doc = "of these started, with a known wait", unit = "count" }
submit_wait_p50_s = { type = "DOUBLE", doc = "submit to start, per attempt: median", unit = "s" }
submit_wait_p90_s = { type = "DOUBLE", doc = "90th percentile", unit = "s" }
submit_wait_p99_s = { type = "DOUBLE", doc = "99th percentile", unit = "s" }
submit_wait_mean_s = { type = "DOUBLE", doc = "mean", unit = "s" }
submit_wait_max_s = { type = "DOUBLE", doc = "longest", unit = "s" }
eligible_wait_p50_s = { type = "DOUBLE", doc = "eligible to start, per attempt, where recorded: median", unit = "s" }
eligible_wait_p90_s = { type = "DOUBLE", doc = "90th percentile", unit = "s" }
eligible_wait_p99_s = { type = "DOUBLE", doc = "99th percentile", unit = "s" }
eligible_wait_mean_s = { type = "DOUBLE", doc = "mean", unit = "s" }
job_count = { type = "BIGINT", doc = "jobs first submitted in the period that started at all", unit = "count" }
first_wait_p50_s = { type = "DOUBLE", doc = "first submit to first start, per job: median", unit = "s" }
first_wait_p90_s = { type = "DOUBLE", doc = "90th percentile", unit = "s" }
first_wait_p99_s = { type = "DOUBLE", doc = "99th percentile", unit = "s" }
first_wait_mean_s = { type = "DOUBLE", doc = "mean", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "started_count / attempt_count: the share of demand these waits speak for", unit = "ratio" }
*/
WITH wait AS (
    SELECT
        * REPLACE (
            coalesce(partition, '') AS partition,
            coalesce(qos, '') AS qos,
            coalesce(gpu_model, '') AS gpu_model
        ),
        unnest([
            {'period': 'day', 'start_ts': date_trunc('day', attempt_ts)::TIMESTAMP},
            {'period': 'month', 'start_ts': date_trunc('month', attempt_ts)::TIMESTAMP}
        ], recursive := true)
    FROM job_wait
),
spread AS (
    SELECT
        cluster, period, start_ts,
        coalesce(partition, '*') AS partition,
        coalesce(qos, '*') AS qos,
        coalesce(gpu_model, '*') AS gpu_model,
        coalesce(size_bucket, '*') AS size_bucket,
        count(*) AS attempt_count,
        count(submit_wait_s) AS started_count,
        quantile_cont(submit_wait_s, [0.5, 0.9, 0.99]) AS submit_q,
        avg(submit_wait_s) AS submit_wait_mean_s,
        max(submit_wait_s) AS submit_wait_max_s,
        quantile_cont(eligible_wait_s, [0.5, 0.9, 0.99]) AS eligible_q,
        avg(eligible_wait_s) AS eligible_wait_mean_s,
        count(first_wait_s) AS job_count,
        quantile_cont(first_wait_s, [0.5, 0.9, 0.99]) AS first_q,
        avg(first_wait_s) AS first_wait_mean_s,
        bool_or(has_all_attempts = false) IS NOT true AS is_whole
    FROM wait
    GROUP BY GROUPING SETS (
        (cluster, period, start_ts, partition, qos, gpu_model, size_bucket),
        (cluster, period, start_ts, partition),
        (cluster, period, start_ts, qos),
        (cluster, period, start_ts, gpu_model),
        (cluster, period, start_ts, size_bucket),
        (cluster, period, start_ts)
    )
)
SELECT
    cluster, period, start_ts, partition, qos, gpu_model, size_bucket, attempt_count, started_count,
    CASE WHEN is_whole THEN submit_q[1] END AS submit_wait_p50_s,
    CASE WHEN is_whole THEN submit_q[2] END AS submit_wait_p90_s,
    CASE WHEN is_whole THEN submit_q[3] END AS submit_wait_p99_s,
    CASE WHEN is_whole THEN submit_wait_mean_s END AS submit_wait_mean_s,
    CASE WHEN is_whole THEN submit_wait_max_s END AS submit_wait_max_s,
    CASE WHEN is_whole THEN eligible_q[1] END AS eligible_wait_p50_s,
    CASE WHEN is_whole THEN eligible_q[2] END AS eligible_wait_p90_s,
    CASE WHEN is_whole THEN eligible_q[3] END AS eligible_wait_p99_s,
    CASE WHEN is_whole THEN eligible_wait_mean_s END AS eligible_wait_mean_s,
    job_count,
    CASE WHEN is_whole THEN first_q[1] END AS first_wait_p50_s,
    CASE WHEN is_whole THEN first_q[2] END AS first_wait_p90_s,
    CASE WHEN is_whole THEN first_q[3] END AS first_wait_p99_s,
    CASE WHEN is_whole THEN first_wait_mean_s END AS first_wait_mean_s,
    started_count / attempt_count::DOUBLE AS coverage_ratio
FROM spread
