/*
doc = """
Jobs whose GPUs did nothing, per attempt and day: GPUs held for at least min_run_s of the day of which every reading was 0. A
verdict only where min_coverage_ratio of the GPU-time was seen; else is_zero is NULL, and the time is counted as not judged. An attempt idled
for its whole life if every one of its days says so. Activity is known only where a node ran one job alone.
"""
grain = ["cluster", "job_id", "attempt", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "job_id"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
principal = { type = "VARCHAR", doc = "user" }
account = { type = "VARCHAR", doc = "account" }
allocated_gpu_s = { type = "DOUBLE", doc = "GPU-seconds held", unit = "s" }
zero_gpu_count = { type = "BIGINT", doc = "GPUs of which every reading of the day was 0", unit = "count" }
zero_gpu_s = { type = "DOUBLE", doc = "GPU-seconds these were seen; NULL if too little was seen to judge", unit = "s" }
is_zero = { type = "BOOLEAN", doc = "all its GPUs were at 0 in every reading; NULL if too little was seen to judge" }
coverage_ratio = { type = "DOUBLE", doc = "GPU-seconds seen by allocated_gpu_s", unit = "ratio" }

[params.min_run_s]
default = 1800
doc = "s; shorter stays of a day are start-up and are left out (30 min, as idle-job rules of job_defense_shield use)"

[params.min_coverage_ratio]
default = 0.9
doc = "ratio; below it nothing is said: what was not seen may have been work"
*/
WITH gpu AS (
    SELECT
        cluster, job_id, attempt,
        date_trunc('day', window_ts)::TIMESTAMP AS day_ts,
        gpu_uuid,
        sum(300 * coverage_ratio) AS seen_s,
        max(activity_ratio) = 0 AND count(activity_ratio) = count(*) AS is_zero
    FROM gpu_job_5min
    WHERE job_id IS NOT NULL AND coverage_ratio > 0
    GROUP BY ALL
),
seen AS (
    SELECT
        cluster, job_id, attempt, day_ts,
        count(*) AS gpu_count,
        sum(seen_s) AS seen_s,
        count(*) FILTER (is_zero) AS zero_gpu_count,
        coalesce(sum(seen_s) FILTER (is_zero), 0) AS zero_gpu_s
    FROM gpu
    GROUP BY ALL
),
judged AS (
    SELECT
        g.cluster, g.job_id, g.attempt, g.day_ts, g.principal, g.account, g.allocated_gpu_s, s.zero_gpu_count, s.zero_gpu_s,
        s.gpu_count,
        least(1, coalesce(s.seen_s, 0) / g.allocated_gpu_s) AS coverage_ratio
    FROM job_goodput AS g
    LEFT JOIN seen AS s USING (cluster, job_id, attempt, day_ts)
    WHERE g.allocated_gpu_s > 0 AND g.allocated_s >= getvariable('min_run_s')
)
SELECT
    cluster, job_id, attempt, day_ts, principal, account, allocated_gpu_s,
    CASE WHEN coverage_ratio >= getvariable('min_coverage_ratio') THEN zero_gpu_count END AS zero_gpu_count,
    CASE WHEN coverage_ratio >= getvariable('min_coverage_ratio') THEN zero_gpu_s END::DOUBLE AS zero_gpu_s,
    CASE WHEN coverage_ratio >= getvariable('min_coverage_ratio') THEN zero_gpu_count = gpu_count END AS is_zero,
    coverage_ratio::DOUBLE AS coverage_ratio
FROM judged
