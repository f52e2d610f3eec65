/*
doc = """
Objectives of teams and how fast their budget burns, per day. Bad are attempts that miss the objective, of those that can be judged; the budget is the share that
may (1 - target). Burn rate 1 spends it exactly in the time it is meant for; over 30 days it is the share of the month's budget that is spent. An alert on a fast and a
slow window together (1 day above 6, 7 days above 1) is the practice of the Google SRE workbook, chapter 5, at the grain of a day.

wait: an attempt that was given up or still waits beyond the limit is bad, one given up within it is not judged. completion: what ended by node failure, boot failure, preemption
or requeue is bad; what still runs is not judged. Attempts belong to the day of their submission.
"""
grain = ["cluster", "objective", "day_ts"]
time = "day_ts"
lookback = "30d"
sort = ["cluster", "day_ts", "objective"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
objective = { type = "VARCHAR", doc = "objective.objective" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
kind = { type = "VARCHAR", doc = "wait, slowdown or completion" }
target_ratio = { type = "DOUBLE", doc = "share that must meet it", unit = "ratio" }
judged_count = { type = "BIGINT", doc = "attempts of the day that can be judged", unit = "count" }
bad_count = { type = "BIGINT", doc = "of these that miss it", unit = "count" }
good_ratio = { type = "DOUBLE", doc = "share that meets it; NULL if none can be judged", unit = "ratio" }
burn_1d_ratio = { type = "DOUBLE", doc = "share of bad ones by the budget, on the day", unit = "ratio" }
burn_7d_ratio = { type = "DOUBLE", doc = "the same over 7 days", unit = "ratio" }
burn_30d_ratio = { type = "DOUBLE", doc = "the same over 30 days: the share of the budget that is spent", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "judged attempts of all that are meant, over 30 days", unit = "ratio" }
*/
WITH ended AS (
    SELECT
        cluster, coalesce(het_job_id, job_id) AS job_id, attempt,
        bool_or(state IN ('NODE_FAIL', 'BOOT_FAIL', 'PREEMPTED', 'REQUEUED')) AS is_spoilt,
        bool_and(phase = 2) AS is_over
    FROM job_attempt
    GROUP BY ALL
),
meant AS (
    SELECT
        o.cluster, o.objective, date_trunc('day', w.attempt_ts) AS day_ts,
        CASE o.kind
            WHEN 'wait' THEN CASE
                WHEN w.outcome = 'started' THEN w.submit_wait_s > o.limit_s
                WHEN w.demand_wait_s > o.limit_s THEN true
            END
            WHEN 'slowdown' THEN w.bounded_slowdown_ratio > o.limit_ratio
            WHEN 'completion' THEN if(w.outcome = 'started' AND e.is_over, e.is_spoilt, NULL)
        END AS is_bad
    FROM objective AS o
    JOIN job_wait AS w
        ON w.cluster = o.cluster
        AND (o.account IS NULL OR w.account = o.account)
        AND (o.partition IS NULL OR w.partition = o.partition)
        AND (o.principal IS NULL OR w.principal = o.principal)
        AND w.gpu_count > 0
        AND (o.min_gpus IS NULL OR w.gpu_count >= o.min_gpus)
        AND (o.max_gpus IS NULL OR w.gpu_count <= o.max_gpus)
    LEFT JOIN ended AS e ON e.cluster = w.cluster AND e.job_id = w.job_id AND e.attempt = w.attempt
),
day AS (
    SELECT
        cluster, objective, day_ts,
        count(*) AS meant, count(is_bad) AS judged, count(*) FILTER (is_bad) AS bad
    FROM meant
    GROUP BY ALL
),
upto AS (
    SELECT
        cluster, objective, day_ts + n * INTERVAL 1 DAY AS day_ts,
        coalesce(sum(judged) FILTER (n = 0), 0)::BIGINT AS judged_count,
        coalesce(sum(bad) FILTER (n = 0), 0)::BIGINT AS bad_count,
        sum(bad) FILTER (n = 0) / nullif(sum(judged) FILTER (n = 0), 0) AS bad_1d,
        sum(bad) FILTER (n < 7) / nullif(sum(judged) FILTER (n < 7), 0) AS bad_7d,
        sum(bad) / nullif(sum(judged), 0) AS bad_30d,
        sum(judged) / sum(meant) AS coverage_ratio
    FROM day, range(0, 30) AS ahead (n)
    GROUP BY cluster, objective, day_ts + n * INTERVAL 1 DAY
)
SELECT
    u.cluster, u.objective, u.day_ts, o.kind, o.target_ratio,
    u.judged_count, u.bad_count,
    1 - u.bad_1d AS good_ratio,
    u.bad_1d / (1 - o.target_ratio) AS burn_1d_ratio,
    u.bad_7d / (1 - o.target_ratio) AS burn_7d_ratio,
    u.bad_30d / (1 - o.target_ratio) AS burn_30d_ratio,
    u.coverage_ratio
FROM upto AS u
JOIN day AS d USING (cluster, objective, day_ts)
JOIN objective AS o USING (cluster, objective)
