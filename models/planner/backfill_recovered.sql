/*
doc = """
GPU time of attempts that were started out of turn, per partition and day of start: what backfill recovered. Accounting
records do not say who started a job, so it is inferred: in the whole hour of the start an older job of higher priority waited in the same
partition. A lower bound: a job that waited for part of the hour only is not seen. NULL where priorities are not recorded.
"""
grain = ["cluster", "partition", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "partition"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
partition = { type = "VARCHAR", doc = "partition; '' where not recorded" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
started_count = { type = "BIGINT", doc = "attempts that started on the day", unit = "count" }
backfilled_count = { type = "BIGINT", doc = "of these out of turn, inferred", unit = "count" }
started_gpu_s = { type = "DOUBLE", doc = "GPU-seconds of the attempts that started, over their whole run as far as known", unit = "s" }
backfilled_gpu_s = { type = "DOUBLE", doc = "of those out of turn", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "attempts started with known priority, submit and GPUs, of all started", unit = "ratio" }
*/
WITH attempt AS (
    SELECT
        cluster,
        coalesce(partition, '') AS partition,
        priority,
        coalesce(eligible_ts, submit_ts) AS wait_ts,
        start_ts,
        coalesce(start_ts, end_ts, if(phase < 2, observed_ts, NULL)) AS wait_until_ts,
        coalesce(alloc_gpu_amount, alloc_gpus) * epoch(coalesce(end_ts, observed_ts) - start_ts) AS gpu_s
    FROM job_attempt
),
-- The foremost of those that waited through a whole hour; of equal priority the oldest.
foremost AS (
    SELECT cluster, partition, hour_ts, max({'priority': priority, 'age': -epoch(wait_ts)}) AS first_waiting
    FROM (
        SELECT *, unnest(generate_series(
            date_trunc('hour', wait_ts + INTERVAL '3599.999999' SECOND),
            date_trunc('hour', wait_until_ts) - INTERVAL 1 HOUR,
            INTERVAL 1 HOUR
        ))::TIMESTAMP AS hour_ts
        FROM attempt
        WHERE priority IS NOT NULL AND wait_until_ts >= wait_ts + INTERVAL 1 HOUR
    )
    GROUP BY ALL
),
started AS (
    SELECT
        a.*,
        CASE WHEN a.priority IS NOT NULL AND a.wait_ts IS NOT NULL THEN coalesce(
            f.first_waiting.priority > a.priority AND -f.first_waiting.age < epoch(a.wait_ts), false
        ) END AS is_backfilled
    FROM attempt AS a
    LEFT JOIN foremost AS f
        ON f.cluster = a.cluster AND f.partition = a.partition AND f.hour_ts = date_trunc('hour', a.start_ts)
    WHERE a.start_ts IS NOT NULL
)
SELECT
    cluster, partition,
    date_trunc('day', start_ts)::TIMESTAMP AS day_ts,
    count(*) AS started_count,
    CASE WHEN count(is_backfilled) > 0 THEN count(*) FILTER (is_backfilled) END AS backfilled_count,
    sum(gpu_s)::DOUBLE AS started_gpu_s,
    CASE WHEN count(is_backfilled) > 0 THEN coalesce(sum(gpu_s) FILTER (is_backfilled), 0) END::DOUBLE AS backfilled_gpu_s,
    count(is_backfilled) FILTER (gpu_s IS NOT NULL) / count(*)::DOUBLE AS coverage_ratio
FROM started
GROUP BY ALL
