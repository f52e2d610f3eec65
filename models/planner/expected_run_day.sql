/*
doc = "How long a run of a user and size may be expected to last on a day: the median of the daily medians of the 30 days before. What was submitted in that time and still runs is not in it, so growing runs are underestimated."
grain = ["cluster", "principal", "size_bucket", "day_ts"]
time = "day_ts"
lookback = "30d"
sort = ["cluster", "day_ts", "principal"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
principal = { type = "VARCHAR", doc = "user; '' where not recorded" }
size_bucket = { type = "VARCHAR", doc = "job_wait.size_bucket" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day for which it is expected" }
day_count = { type = "BIGINT", doc = "days with a run among the 30 before", unit = "count" }
run_count = { type = "BIGINT", doc = "runs on these days", unit = "count" }
run_expected_s = { type = "DOUBLE", doc = "median of the daily medians", unit = "s" }
*/
SELECT
    cluster, principal, size_bucket,
    day_ts + n * INTERVAL 1 DAY AS day_ts,
    count(*) AS day_count,
    sum(run_count)::BIGINT AS run_count,
    quantile_cont(run_p50_s, 0.5) AS run_expected_s
FROM run_length_day, range(1, 31) AS ahead (n)
GROUP BY cluster, principal, size_bucket, day_ts + n * INTERVAL 1 DAY
