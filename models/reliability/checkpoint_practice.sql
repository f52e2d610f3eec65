/*
doc = """
How jobs save checkpoints, by month: time between two and time that one takes, from the jobs' own logs
(train_event, clock times only). Only pairs inside an attempt of a job count. Time to save is known where a log
marks the start of saving too.
"""
grain = ["cluster", "month_ts"]
time = "month_ts"
period = "month"
window = "month"
# The event before the first one of a month.
lookback = "2d"
sort = ["cluster", "month_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
month_ts = { type = "TIMESTAMP", doc = "start of the month, UTC" }
job_count = { type = "BIGINT", doc = "jobs that logged a checkpoint", unit = "count" }
checkpoint_count = { type = "BIGINT", doc = "checkpoints logged", unit = "count" }
interval_p50_s = { type = "DOUBLE", doc = "median time from one to the next; each job's own median counts once, so that those that save often do not outvote the others", unit = "s" }
save_p50_s = { type = "DOUBLE", doc = "median time to save, of jobs' medians; NULL where no log tells", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "share of the jobs that log steps or events that log checkpoints", unit = "ratio" }
*/
WITH marked AS (
    SELECT
        cluster, job_id, attempt, ts, event,
        lag(ts) OVER (PARTITION BY cluster, job_id, attempt, event ORDER BY ts) AS before_ts,
        max(CASE WHEN event = 'checkpoint_save_start' THEN ts END)
            OVER (PARTITION BY cluster, job_id, attempt ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS begun_ts
    FROM train_event
    WHERE event IN ('checkpoint_saved', 'checkpoint_save_start')
),
saved AS (
    SELECT
        cluster, job_id, date_trunc('month', ts)::TIMESTAMP AS month_ts,
        epoch(ts - before_ts) AS interval_s,
        CASE WHEN begun_ts > coalesce(before_ts, '-infinity'::TIMESTAMP) THEN epoch(ts - begun_ts) END AS save_s
    FROM marked
    WHERE event = 'checkpoint_saved'
),
per_job AS (
    SELECT cluster, job_id, month_ts, count(*) AS checkpoint_count, median(interval_s) AS interval_s, median(save_s) AS save_s
    FROM saved
    GROUP BY ALL
),
logged AS (
    SELECT cluster, month_ts, count(DISTINCT job_id) AS job_count
    FROM (
        SELECT cluster, job_id, date_trunc('month', ts)::TIMESTAMP AS month_ts FROM train_event
        UNION ALL
        SELECT cluster, job_id, date_trunc('month', ts)::TIMESTAMP FROM train_step WHERE time_basis = 'absolute'
    )
    GROUP BY ALL
)
SELECT
    cluster,
    month_ts,
    count(*) AS job_count,
    sum(checkpoint_count)::BIGINT AS checkpoint_count,
    median(interval_s) AS interval_p50_s,
    median(save_s) AS save_p50_s,
    (count(*) / any_value(logged.job_count))::DOUBLE AS coverage_ratio
FROM per_job
JOIN logged USING (cluster, month_ts)
GROUP BY cluster, month_ts
