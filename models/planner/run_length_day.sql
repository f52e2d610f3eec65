/*
doc = "How long the runs of each user and size lasted, by the day of submission. The basis of expected_run_day."
grain = ["cluster", "principal", "size_bucket", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "principal"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
principal = { type = "VARCHAR", doc = "user; '' where not recorded" }
size_bucket = { type = "VARCHAR", doc = "job_wait.size_bucket" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day of submission" }
run_count = { type = "BIGINT", doc = "attempts that started and ended", unit = "count" }
run_p50_s = { type = "DOUBLE", doc = "median of their runs", unit = "s" }
*/
SELECT
    cluster,
    coalesce(principal, '') AS principal,
    size_bucket,
    date_trunc('day', attempt_ts)::TIMESTAMP AS day_ts,
    count(*) AS run_count,
    quantile_cont(run_s, 0.5) AS run_p50_s
FROM job_wait
WHERE run_s IS NOT NULL AND size_bucket IS NOT NULL
GROUP BY ALL
