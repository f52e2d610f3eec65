/*
doc = """
How long attempts ran, by UTC day and size: the denominators of failure rates. Running attempts count up to
observed_ts, suspended time does not count (over several days in proportion); parts of a heterogeneous job
run as one.
"""
grain = ["cluster", "day_ts", "size_bucket"]
time = "day_ts"
# Few rows a day: a year is read from twelve files, not from 365.
period = "month"
sort = ["cluster", "day_ts", "size_bucket"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the jobs" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
size_bucket = { type = "VARCHAR", doc = "GPUs held: 0, <1, 1, 2-7, 8, 9-64, 65-512, 513-2048, >2048; unknown where the record does not say" }
attempt_count = { type = "BIGINT", doc = "attempts that ran on the day", unit = "count" }
run_s = { type = "DOUBLE", doc = "seconds they ran", unit = "s" }
gpu_s = { type = "DOUBLE", doc = "the same times GPUs held; NULL where those are unknown", unit = "s" }
node_s = { type = "DOUBLE", doc = "the same times nodes held, over attempts whose nodes are known; NULL where no record says", unit = "s" }
node_known_run_s = { type = "DOUBLE", doc = "run_s of attempts whose nodes are known", unit = "s" }
max_gpu_count = { type = "DOUBLE", doc = "most GPUs that one of them held", unit = "count" }
has_all_attempts = { type = "BOOLEAN", doc = "false if some records were collected without earlier attempts, NULL if nobody said" }
*/
WITH part AS (
    SELECT
        cluster, coalesce(het_job_id, job_id) AS job_id, attempt, het_job_id, start_ts,
        greatest(start_ts, coalesce(end_ts, observed_ts, start_ts)) AS until_ts,
        coalesce(suspended_s, 0) AS suspended_s, coalesce(alloc_gpus, alloc_gpu_amount)::DOUBLE AS gpu_count,
        coalesce(alloc_nodes, len(node_list))::BIGINT AS node_count, has_all_attempts
    FROM job_attempt
    WHERE start_ts IS NOT NULL
),
whole AS (
    SELECT * FROM part WHERE het_job_id IS NULL
    UNION ALL BY NAME
    SELECT
        cluster, job_id, attempt, min(start_ts) AS start_ts, max(until_ts) AS until_ts,
        max(suspended_s) AS suspended_s,
        CASE WHEN count(gpu_count) = count(*) THEN sum(gpu_count) END AS gpu_count,
        CASE WHEN count(node_count) = count(*) THEN sum(node_count) END::BIGINT AS node_count,
        bool_and(has_all_attempts) AS has_all_attempts
    FROM part
    WHERE het_job_id IS NOT NULL
    GROUP BY cluster, job_id, attempt
),
day AS (
    SELECT
        *,
        epoch(until_ts - start_ts) AS whole_s,
        unnest(generate_series(
            date_trunc('day', start_ts),
            greatest(date_trunc('day', start_ts), until_ts - INTERVAL 1 MICROSECOND),
            INTERVAL 1 DAY
        )) AS day_ts
    FROM whole
),
held AS (
    SELECT
        *,
        epoch(least(until_ts, day_ts + INTERVAL 1 DAY) - greatest(start_ts, day_ts))
            * CASE WHEN whole_s > 0 THEN 1 - least(suspended_s, whole_s) / whole_s ELSE 0 END AS run_s,
        CASE
            WHEN gpu_count = 0 THEN '0'
            WHEN gpu_count < 1 THEN '<1'
            WHEN gpu_count < 2 THEN '1'
            WHEN gpu_count < 8 THEN '2-7'
            WHEN gpu_count = 8 THEN '8'
            WHEN gpu_count <= 64 THEN '9-64'
            WHEN gpu_count <= 512 THEN '65-512'
            WHEN gpu_count <= 2048 THEN '513-2048'
            WHEN gpu_count > 2048 THEN '>2048'
            ELSE 'unknown'
        END AS size_bucket
    FROM day
)
SELECT
    cluster,
    day_ts,
    size_bucket,
    count(*) AS attempt_count,
    sum(run_s)::DOUBLE AS run_s,
    sum(run_s * gpu_count)::DOUBLE AS gpu_s,
    sum(run_s * node_count)::DOUBLE AS node_s,
    coalesce(sum(run_s) FILTER (node_count IS NOT NULL), 0)::DOUBLE AS node_known_run_s,
    max(gpu_count) AS max_gpu_count,
    CASE WHEN bool_or(NOT has_all_attempts) THEN false
        WHEN count(has_all_attempts) = count(*) THEN true END AS has_all_attempts
FROM held
GROUP BY cluster, day_ts, size_bucket
