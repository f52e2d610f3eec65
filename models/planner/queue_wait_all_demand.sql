/*
doc = """
How long demand waits, with what was given up and what still waits, by Kaplan and Meier: S(t) = product over the waits
up to t of 1 - d/n, with n waits at least as long and d of them ending at t. Two curves: leave_… ends a wait when the
attempt starts or is abandoned and censors only what still waits; start_… censors the abandoned too, so it says how
long one waits for GPUs who does not give up. A percentile is the first t with S(t) at most 1 - p; NULL: so much was
censored that the curve does not come down that far. leave_mean_s and leave_interpolated_p99_s are those of the
recorded waits, for comparison with queue_wait, where nothing waits still.
Per day and month of submission; '*' as in queue_wait, here per partition, per size_bucket, and together.
"""
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
started_count = { type = "BIGINT", doc = "of these started", unit = "count" }
abandoned_count = { type = "BIGINT", doc = "ended without a start", unit = "count" }
waiting_count = { type = "BIGINT", doc = "not known to have done either", unit = "count" }
leave_p50_s = { type = "DOUBLE", doc = "until started or given up: median", unit = "s" }
leave_p90_s = { type = "DOUBLE", doc = "90th percentile", unit = "s" }
leave_p99_s = { type = "DOUBLE", doc = "99th percentile", unit = "s" }
leave_mean_s = { type = "DOUBLE", doc = "mean of the waits that ended; NULL while any still waits", unit = "s" }
leave_interpolated_p99_s = { type = "DOUBLE", doc = "99th percentile of the same waits, linearly interpolated; NULL while any still waits", unit = "s" }
start_p50_s = { type = "DOUBLE", doc = "until started, abandoned censored: median", unit = "s" }
start_p90_s = { type = "DOUBLE", doc = "90th percentile", unit = "s" }
start_p99_s = { type = "DOUBLE", doc = "99th percentile", unit = "s" }
censored_ratio = { type = "DOUBLE", doc = "share censored in start_…: abandoned and still waiting", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "attempts with a known wait, of all submitted", unit = "ratio" }
*/
WITH wait AS (
    SELECT
        cluster, coalesce(partition, '') AS partition, size_bucket, outcome, demand_wait_s,
        unnest([
            {'period': 'day', 'start_ts': date_trunc('day', attempt_ts)::TIMESTAMP},
            {'period': 'month', 'start_ts': date_trunc('month', attempt_ts)::TIMESTAMP}
        ], recursive := true)
    FROM job_wait
),
at_wait AS (
    SELECT
        cluster, period, start_ts,
        coalesce(partition, '*') AS partition,
        coalesce(size_bucket, '*') AS size_bucket,
        demand_wait_s AS wait_s,
        count(*) AS wait_count,
        count(*) FILTER (outcome = 'started') AS started_count,
        count(*) FILTER (outcome = 'abandoned') AS abandoned_count,
        count(*) FILTER (outcome = 'waiting') AS waiting_count
    FROM wait
    GROUP BY GROUPING SETS (
        (cluster, period, start_ts, demand_wait_s, partition, size_bucket),
        (cluster, period, start_ts, demand_wait_s, partition),
        (cluster, period, start_ts, demand_wait_s, size_bucket),
        (cluster, period, start_ts, demand_wait_s)
    )
),
at_risk AS (
    SELECT
        *,
        sum(wait_count) OVER (
            PARTITION BY cluster, period, start_ts, partition, size_bucket
            ORDER BY wait_s DESC ROWS UNBOUNDED PRECEDING
        ) AS risk_count
    FROM at_wait
    WHERE wait_s IS NOT NULL
),
-- Once all that is left ends together, S is 0; the logarithm of that is left out and marked.
curve AS (
    SELECT
        *,
        exp(sum(CASE WHEN started_count + abandoned_count < risk_count
            THEN ln(1 - (started_count + abandoned_count) / risk_count) ELSE 0 END) OVER upto)
            * (max((started_count + abandoned_count = risk_count)::INTEGER) OVER upto = 0)::INTEGER AS leave_s,
        exp(sum(CASE WHEN started_count < risk_count THEN ln(1 - started_count / risk_count) ELSE 0 END) OVER upto)
            * (max((started_count = risk_count)::INTEGER) OVER upto = 0)::INTEGER AS start_s
    FROM at_risk
    WINDOW upto AS (
        PARTITION BY cluster, period, start_ts, partition, size_bucket ORDER BY wait_s ROWS UNBOUNDED PRECEDING
    )
),
-- The product of rounded factors may miss its limit by as much as they were rounded.
quantile AS (
    SELECT
        cluster, period, start_ts, partition, size_bucket,
        min(wait_s) FILTER (leave_s <= 0.5 + 1e-9) AS leave_p50_s,
        min(wait_s) FILTER (leave_s <= 0.1 + 1e-9) AS leave_p90_s,
        min(wait_s) FILTER (leave_s <= 0.01 + 1e-9) AS leave_p99_s,
        min(wait_s) FILTER (start_s <= 0.5 + 1e-9) AS start_p50_s,
        min(wait_s) FILTER (start_s <= 0.1 + 1e-9) AS start_p90_s,
        min(wait_s) FILTER (start_s <= 0.01 + 1e-9) AS start_p99_s,
        sum(wait_s * wait_count) / sum(wait_count) AS mean_s
    FROM curve
    GROUP BY ALL
),
-- The two waits beside the place of the 99th percentile: 0.99 x (n - 1) from below, counted from 0.
placed AS (
    SELECT
        *,
        sum(wait_count) OVER (PARTITION BY cluster, period, start_ts, partition, size_bucket) - 1 AS last_place,
        sum(wait_count) OVER (PARTITION BY cluster, period, start_ts, partition, size_bucket) - risk_count AS place
    FROM at_risk
),
interpolated AS (
    SELECT
        cluster, period, start_ts, partition, size_bucket,
        max(wait_s) FILTER (place <= floor(0.99 * last_place)) AS low_s,
        max(wait_s) FILTER (place <= ceil(0.99 * last_place)) AS high_s,
        any_value(0.99 * last_place - floor(0.99 * last_place)) AS share
    FROM placed
    GROUP BY ALL
),
counted AS (
    SELECT
        cluster, period, start_ts, partition, size_bucket,
        sum(wait_count)::BIGINT AS attempt_count,
        sum(started_count)::BIGINT AS started_count,
        sum(abandoned_count)::BIGINT AS abandoned_count,
        sum(waiting_count)::BIGINT AS waiting_count,
        coalesce(sum(wait_count) FILTER (wait_s IS NOT NULL), 0) AS known_count
    FROM at_wait
    GROUP BY ALL
)
SELECT
    cluster, period, start_ts, partition, size_bucket,
    attempt_count, started_count, abandoned_count, waiting_count,
    leave_p50_s, leave_p90_s, leave_p99_s,
    CASE WHEN waiting_count = 0 THEN mean_s END::DOUBLE AS leave_mean_s,
    CASE WHEN waiting_count = 0 THEN low_s + share * (high_s - low_s) END::DOUBLE AS leave_interpolated_p99_s,
    start_p50_s, start_p90_s, start_p99_s,
    (abandoned_count + waiting_count) / attempt_count::DOUBLE AS censored_ratio,
    known_count / attempt_count::DOUBLE AS coverage_ratio
FROM counted
LEFT JOIN quantile USING (cluster, period, start_ts, partition, size_bucket)
LEFT JOIN interpolated USING (cluster, period, start_ts, partition, size_bucket)
