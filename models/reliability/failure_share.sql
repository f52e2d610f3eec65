/*
doc = """
Shares of states and failure domains among the attempts that ended in a month: of attempts and of GPU time,
which differ greatly (Acme's Seren: failed are 42.9 % of GPU jobs and 12.4 % of their GPU time).

Population: all attempts that ended in the month, those that never started included. The gpu_ figures leave
out attempts without GPUs or with unknown GPUs. GPU time is the whole of an attempt's, in the month of its
end. An attempt is a job only where nothing was requeued: count jobs with `job`.
"""
grain = ["cluster", "month_ts", "state", "failure_domain"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts", "state"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the jobs" }
month_ts = { type = "TIMESTAMP", doc = "start of the month, UTC" }
state = { type = "VARCHAR", doc = "state they ended in" }
failure_domain = { type = "VARCHAR", doc = "none, user, timelimit, cancelled, preemption, infrastructure, hardware or unknown" }
attempt_count = { type = "BIGINT", doc = "attempts", unit = "count" }
attempt_ratio = { type = "DOUBLE", doc = "share of all attempts that ended; NULL if earlier attempts of jobs are stated to be missing", unit = "ratio" }
gpu_attempt_count = { type = "BIGINT", doc = "attempts known to have GPUs", unit = "count" }
gpu_attempt_ratio = { type = "DOUBLE", doc = "share of the attempts known to have GPUs; NULL as attempt_ratio", unit = "ratio" }
gpu_h = { type = "DOUBLE", doc = "their GPU-hours; NULL if none is known", unit = "h" }
gpu_h_ratio = { type = "DOUBLE", doc = "share of all known GPU-hours; NULL as attempt_ratio", unit = "ratio" }
low_confidence_count = { type = "BIGINT", doc = "attempts whose domain rests on a sign of low confidence", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "share of the month's attempts whose GPUs are known; the same in all rows of a month", unit = "ratio" }
has_all_attempts = { type = "BOOLEAN", doc = "false if some records were collected without earlier attempts, NULL if nobody said" }
*/
WITH sums AS (
    SELECT
        cluster,
        date_trunc('month', day_ts)::TIMESTAMP AS month_ts,
        state,
        failure_domain,
        sum(attempt_count)::BIGINT AS attempt_count,
        coalesce(sum(attempt_count) FILTER (size_bucket NOT IN ('0', 'unknown')), 0)::BIGINT AS gpu_attempt_count,
        sum(gpu_known_count)::BIGINT AS gpu_known_count,
        sum(gpu_s) AS gpu_s,
        sum(low_confidence_count)::BIGINT AS low_confidence_count,
        bool_or(NOT has_all_attempts) AS some_missing,
        count(has_all_attempts) = count(*) AS all_stated
    FROM outcome_day
    GROUP BY ALL
),
whole AS (
    SELECT
        *,
        sum(attempt_count) OVER month AS month_attempt_count,
        sum(gpu_attempt_count) OVER month AS month_gpu_attempt_count,
        sum(gpu_known_count) OVER month AS month_known_count,
        sum(gpu_s) OVER month AS month_gpu_s,
        coalesce(bool_or(some_missing) OVER month, false) AS month_missing,
        bool_and(all_stated) OVER month AS month_stated
    FROM sums
    WINDOW month AS (PARTITION BY cluster, month_ts)
)
SELECT
    cluster,
    month_ts,
    state,
    failure_domain,
    attempt_count,
    CASE WHEN NOT month_missing THEN attempt_count / month_attempt_count END::DOUBLE AS attempt_ratio,
    gpu_attempt_count,
    CASE WHEN NOT month_missing THEN gpu_attempt_count / nullif(month_gpu_attempt_count, 0) END::DOUBLE
        AS gpu_attempt_ratio,
    gpu_s / 3600 AS gpu_h,
    CASE WHEN NOT month_missing AND month_gpu_s > 0 THEN gpu_s / month_gpu_s END AS gpu_h_ratio,
    low_confidence_count,
    (month_known_count / month_attempt_count)::DOUBLE AS coverage_ratio,
    CASE WHEN month_missing THEN false WHEN month_stated THEN true END AS has_all_attempts
FROM whole
