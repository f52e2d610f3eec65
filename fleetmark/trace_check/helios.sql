-- id, scope, metric, found. Definitions: published.toml. Clusters are spelled with a capital in count files, without in minute files.
WITH gpu_job AS (
    SELECT * FROM lake.job_attempt WHERE req_gpus > 0
),
quartile AS (
    SELECT vc, 100 * unnest([q1_ratio, median_ratio, q3_ratio]) AS found, unnest(['q1', 'median', 'q3']) AS metric
    FROM lake.vc_utilization_month
    WHERE lower(cluster) = 'earth' AND month_ts = TIMESTAMP '2020-05-01'
)
SELECT 'H1', vc, metric, found FROM quartile
UNION ALL SELECT 'H2', 'earth', 'balance_violations', sum(balance_violation_count)::DOUBLE FROM lake.vc_day WHERE lower(cluster) = 'earth'
UNION ALL SELECT 'H2', 'earth', 'count_mismatch_days', count(DISTINCT day_ts)::DOUBLE FROM lake.vc_day
    WHERE lower(cluster) = 'earth' AND is_count_mismatch HAVING (SELECT count(is_count_mismatch) FROM lake.vc_day) > 0
UNION ALL SELECT 'H2', 'earth', 'outage_days', count(DISTINCT day_ts) FILTER (is_outage)::DOUBLE FROM lake.vc_day
    WHERE lower(cluster) = 'earth' HAVING count(is_outage) > 0
UNION ALL SELECT 'I1', pool, 'idle_while_pending', sum(idle_while_pending_gpu_s) / 3600 FROM lake.idle_while_pending
    WHERE lower(cluster) = 'earth' AND date_trunc('month', day_ts) = TIMESTAMP '2020-05-01' GROUP BY pool
UNION ALL SELECT 'I1', pool, 'minutes_share', 100 * sum(idle_while_pending_minute_count) / (31 * 1440.0) FROM lake.idle_while_pending
    WHERE lower(cluster) = 'earth' AND date_trunc('month', day_ts) = TIMESTAMP '2020-05-01' GROUP BY pool
UNION ALL SELECT 'X2', 'all', 'jobs', count(*)::DOUBLE FROM lake.job_attempt HAVING count(*) > 0
UNION ALL SELECT 'X2', 'gpu_jobs', 'jobs', count(*)::DOUBLE FROM gpu_job HAVING count(*) > 0
UNION ALL SELECT 'X2', 'gpu_jobs', 'mean_wait', avg(epoch(start_ts - submit_ts)) FROM gpu_job
UNION ALL SELECT 'X2', 'gpu_jobs', 'mean_run', avg(elapsed_s) FROM gpu_job
UNION ALL SELECT 'X2', 'gpu_jobs', 'mean_gpus', avg(req_gpus) FROM gpu_job
