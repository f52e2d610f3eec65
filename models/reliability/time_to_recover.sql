/*
doc = """
From a failure of infrastructure or hardware to work again, by month of the failure: to the first training step
(else pods ready) of the restart, and to its start. Jobs that have not started again are counted, not timed:
percentiles are of those that have. Domain any is both together.
"""
grain = ["cluster", "month_ts", "failure_domain"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
month_ts = { type = "TIMESTAMP", doc = "start of the month of the failure, UTC" }
failure_domain = { type = "VARCHAR", doc = "infrastructure, hardware or any" }
failure_count = { type = "BIGINT", doc = "attempts interrupted so", unit = "count" }
restarted_count = { type = "BIGINT", doc = "of them those whose job started again", unit = "count" }
ready_count = { type = "BIGINT", doc = "of them those known to have worked again", unit = "count" }
start_p50_s = { type = "DOUBLE", doc = "median from failure to the next start, linear interpolation", unit = "s" }
start_p90_s = { type = "DOUBLE", doc = "90th percentile of the same", unit = "s" }
recover_p50_s = { type = "DOUBLE", doc = "median from failure to work (interruption.ready_ts); NULL if ready_count is 0", unit = "s" }
recover_p90_s = { type = "DOUBLE", doc = "90th percentile of the same", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "ready_count / failure_count", unit = "ratio" }
*/
WITH failure AS (
    SELECT *, unnest(['any', failure_domain]) AS domain
    FROM interruption
    WHERE failure_domain IN ('infrastructure', 'hardware')
)
SELECT
    cluster,
    date_trunc('month', end_ts)::TIMESTAMP AS month_ts,
    domain AS failure_domain,
    count(*) AS failure_count,
    count(next_start_ts) AS restarted_count,
    count(ready_ts) AS ready_count,
    quantile_cont(queue_gap_s, 0.5) AS start_p50_s,
    quantile_cont(queue_gap_s, 0.9) AS start_p90_s,
    quantile_cont(epoch(ready_ts - end_ts), 0.5) AS recover_p50_s,
    quantile_cont(epoch(ready_ts - end_ts), 0.9) AS recover_p90_s,
    (count(ready_ts) / count(*))::DOUBLE AS coverage_ratio
FROM failure
GROUP BY ALL
