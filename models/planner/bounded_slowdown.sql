/*
doc = "Bounded slowdown of the attempts that started and ended: max(1, (wait + run) / max(run, 600 s)), percentiles by size, per day and month of submission. Percentiles interpolate linearly; '*' as in queue_wait."
grain = ["cluster", "period", "start_ts", "partition", "size_bucket"]
time = "start_ts"
window = "month"
sort = ["cluster", "period", "start_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
period = { type = "VARCHAR", doc = "day or month" }
start_ts = { type = "TIMESTAMP", doc = "start of the day or month in which the attempts were submitted" }
partition = { type = "VARCHAR", doc = "job_wait.partition, or *" }
size_bucket = { type = "VARCHAR", doc = "job_wait.size_bucket, or *" }
attempt_count = { type = "BIGINT", doc = "attempts submitted", unit = "count" }
ended_count = { type = "BIGINT", doc = "of these started and ended", unit = "count" }
p50_ratio = { type = "DOUBLE", doc = "median", unit = "ratio" }
p90_ratio = { type = "DOUBLE", doc = "90th percentile", unit = "ratio" }
mean_ratio = { type = "DOUBLE", doc = "mean", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "ended_count / attempt_count", unit = "ratio" }
*/
WITH wait AS (
    SELECT
        cluster, coalesce(partition, '') AS partition, size_bucket, bounded_slowdown_ratio,
        unnest([
            {'period': 'day', 'start_ts': date_trunc('day', attempt_ts)::TIMESTAMP},
            {'period': 'month', 'start_ts': date_trunc('month', attempt_ts)::TIMESTAMP}
        ], recursive := true)
    FROM job_wait
)
SELECT
    cluster, period, start_ts,
    coalesce(partition, '*') AS partition,
    coalesce(size_bucket, '*') AS size_bucket,
    count(*) AS attempt_count,
    count(bounded_slowdown_ratio) AS ended_count,
    quantile_cont(bounded_slowdown_ratio, 0.5) AS p50_ratio,
    quantile_cont(bounded_slowdown_ratio, 0.9) AS p90_ratio,
    avg(bounded_slowdown_ratio) AS mean_ratio,
    count(bounded_slowdown_ratio) / count(*)::DOUBLE AS coverage_ratio
FROM wait
GROUP BY GROUPING SETS (
    (cluster, period, start_ts, partition, size_bucket),
    (cluster, period, start_ts, partition),
    (cluster, period, start_ts, size_bucket),
    (cluster, period, start_ts)
)
