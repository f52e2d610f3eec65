/*
doc = """
Failures and exposure per month and size for each failure population, what rates with bounds are made of.

Populations, each part of the next: hardware (domain hardware); infrastructure (hardware and infrastructure);
all (these, user and unknown: every failure nobody asked for, but not time limits, cancellations, preemptions).
Size any is the sum over the sizes that are GPU jobs: without 0 and unknown.
"""
grain = ["cluster", "month_ts", "size_bucket", "population"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts", "population", "size_bucket"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the jobs" }
month_ts = { type = "TIMESTAMP", doc = "start of the month, UTC" }
size_bucket = { type = "VARCHAR", doc = "run_exposure_day.size_bucket, or any" }
population = { type = "VARCHAR", doc = "which failures are counted: all, infrastructure or hardware" }
failure_count = { type = "BIGINT", doc = "started attempts that ended in the month by such a failure", unit = "count" }
unknown_count = { type = "BIGINT", doc = "started attempts that ended by a failure of unknown domain", unit = "count" }
known_ratio = { type = "DOUBLE", doc = "share of failures (population all) whose domain is known; NULL without failures", unit = "ratio" }
run_h = { type = "DOUBLE", doc = "hours that attempts of the size ran in the month, running ones included", unit = "h" }
gpu_h = { type = "DOUBLE", doc = "GPU-hours of the same; NULL where the GPUs are unknown", unit = "h" }
node_days = { type = "DOUBLE", doc = "node-days of the same, over attempts whose nodes are known; NULL where no record says", unit = "d" }
max_gpu_count = { type = "DOUBLE", doc = "most GPUs that one attempt held", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "share of run_h whose nodes are known", unit = "ratio" }
has_all_attempts = { type = "BOOLEAN", doc = "false if some records were collected without earlier attempts (failures that were requeued are then missing), NULL if nobody said" }
*/
WITH member(population, failure_domain) AS (
    VALUES ('hardware', 'hardware'), ('infrastructure', 'hardware'), ('infrastructure', 'infrastructure'),
        ('all', 'hardware'), ('all', 'infrastructure'), ('all', 'user'), ('all', 'unknown')
),
exposure AS (
    SELECT
        cluster, date_trunc('month', day_ts)::TIMESTAMP AS month_ts, size_bucket,
        sum(run_s) AS run_s, sum(gpu_s) AS gpu_s, sum(node_s) AS node_s, sum(node_known_run_s) AS node_known_run_s,
        max(max_gpu_count) AS max_gpu_count, bool_or(NOT has_all_attempts) AS some_missing,
        count(has_all_attempts) = count(*) AS all_stated
    FROM run_exposure_day
    GROUP BY ALL
),
ended AS (
    SELECT
        cluster, date_trunc('month', day_ts)::TIMESTAMP AS month_ts, size_bucket, population,
        sum(started_count) AS failure_count
    FROM outcome_day
    JOIN member USING (failure_domain)
    GROUP BY ALL
),
unclear AS (
    SELECT
        cluster, date_trunc('month', day_ts)::TIMESTAMP AS month_ts, size_bucket, sum(started_count) AS unknown_count
    FROM outcome_day
    WHERE failure_domain = 'unknown'
    GROUP BY ALL
),
placed AS (
    SELECT
        exposure.*, population,
        coalesce(failure_count, 0) AS failure_count,
        coalesce(unknown_count, 0) AS unknown_count
    FROM exposure
    CROSS JOIN (SELECT DISTINCT population FROM member)
    LEFT JOIN ended USING (cluster, month_ts, size_bucket, population)
    LEFT JOIN unclear USING (cluster, month_ts, size_bucket)
),
summed AS (
    SELECT * FROM placed
    UNION ALL BY NAME
    SELECT
        cluster, month_ts, 'any' AS size_bucket, population,
        sum(run_s) AS run_s, sum(gpu_s) AS gpu_s, sum(node_s) AS node_s, sum(node_known_run_s) AS node_known_run_s,
        max(max_gpu_count) AS max_gpu_count, bool_or(some_missing) AS some_missing, bool_and(all_stated) AS all_stated,
        sum(failure_count) AS failure_count, sum(unknown_count) AS unknown_count
    FROM placed
    WHERE size_bucket NOT IN ('0', 'unknown')
    GROUP BY ALL
)
SELECT
    cluster,
    month_ts,
    size_bucket,
    population,
    failure_count::BIGINT AS failure_count,
    unknown_count::BIGINT AS unknown_count,
    1 - unknown_count / nullif(max(failure_count) OVER (PARTITION BY cluster, month_ts, size_bucket), 0)::DOUBLE AS known_ratio,
    run_s / 3600 AS run_h,
    gpu_s / 3600 AS gpu_h,
    node_s / 86400 AS node_days,
    max_gpu_count,
    CASE WHEN run_s > 0 THEN node_known_run_s / run_s END AS coverage_ratio,
    CASE WHEN some_missing THEN false WHEN all_stated THEN true END AS has_all_attempts
FROM summed
