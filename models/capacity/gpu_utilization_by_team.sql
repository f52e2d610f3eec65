/*
doc = "GPU time by account and user per day, and how active the GPUs were in it. Activity is known for GPUs whose node ran one job alone (gpu_job_5min); its mean is weighted by GPU-time, and activity_coverage_ratio says how much of the time it speaks for."
grain = ["cluster", "account", "principal", "day_ts"]
time = "day_ts"
sort = ["cluster", "day_ts", "account"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
account = { type = "VARCHAR", doc = "account charged, namespace on Kubernetes; '' where not recorded" }
principal = { type = "VARCHAR", doc = "user; '' where not recorded" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
attempt_count = { type = "BIGINT", doc = "attempts that held an allocation", unit = "count" }
allocated_gpu_s = { type = "DOUBLE", doc = "GPU-seconds held and not suspended; NULL if no attempt states its GPUs", unit = "s" }
activity_ratio = { type = "DOUBLE", doc = "mean activity of the GPUs held, where it was seen", unit = "ratio" }
active_gpu_s = { type = "DOUBLE", doc = "activity_ratio x allocated_gpu_s", unit = "s" }
activity_coverage_ratio = { type = "DOUBLE", doc = "GPU-seconds with known activity by allocated_gpu_s", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "share of the attempts' seconds for which the GPUs held are known", unit = "ratio" }
*/
WITH seen AS (
    SELECT
        cluster, job_id, attempt,
        date_trunc('day', window_ts)::TIMESTAMP AS day_ts,
        sum(activity_ratio * 300 * coverage_ratio) AS active_s,
        sum(300 * coverage_ratio) AS seen_s
    FROM gpu_job_5min
    WHERE job_id IS NOT NULL AND activity_ratio IS NOT NULL
    GROUP BY ALL
)
SELECT
    g.cluster,
    coalesce(g.account, '') AS account,
    coalesce(g.principal, '') AS principal,
    g.day_ts,
    count(*) AS attempt_count,
    sum(g.allocated_gpu_s)::DOUBLE AS allocated_gpu_s,
    sum(s.active_s) / nullif(sum(s.seen_s), 0) AS activity_ratio,
    sum(s.active_s) / nullif(sum(s.seen_s), 0) * sum(g.allocated_gpu_s) AS active_gpu_s,
    least(1, coalesce(sum(s.seen_s), 0) / nullif(sum(g.allocated_gpu_s), 0)) AS activity_coverage_ratio,
    coalesce(sum(g.allocated_s) FILTER (g.alloc_gpus IS NOT NULL OR g.gpu_count_source = 'no_gpu_entry'), 0)
        / nullif(sum(g.allocated_s), 0) AS coverage_ratio
FROM job_goodput AS g
LEFT JOIN seen AS s USING (cluster, job_id, attempt, day_ts)
GROUP BY ALL
