-- id, scope, metric, found. Definitions: published.toml.
WITH job AS (
    SELECT
        cluster, workload, req_gpus, native_state, elapsed_s, native_elapsed_s,
        CASE
            WHEN state = 'COMPLETED' THEN 'completed'
            WHEN state = 'CANCELLED' THEN 'cancelled'
            WHEN state IN ('FAILED', 'TIMEOUT', 'NODE_FAIL') THEN 'failed'
            ELSE lower(state)
        END AS ending,
        regexp_extract(lower(workload), '^(eval|sft|mllm|debug|pretrain|other)', 1) AS kind,
        req_gpus * native_elapsed_s::DOUBLE AS gpu_s
    FROM lake.job_attempt
),
gpu_job AS (
    SELECT * FROM job WHERE req_gpus > 0
),
total AS (
    SELECT cluster, count(*) AS jobs, sum(gpu_s) AS gpu_s FROM gpu_job GROUP BY cluster
)
SELECT 'A1', cluster, ending, 100 * count(*) / any_value(jobs) FROM gpu_job JOIN total USING (cluster) GROUP BY cluster, ending
UNION ALL SELECT 'A2', cluster, ending, 100 * sum(j.gpu_s) / any_value(t.gpu_s) FROM gpu_job AS j JOIN total AS t USING (cluster) GROUP BY cluster, ending
UNION ALL SELECT 'A3_jobs', cluster, kind, 100 * count(*) / any_value(jobs) FROM gpu_job JOIN total USING (cluster) GROUP BY cluster, kind
UNION ALL SELECT 'A3_time', cluster, kind, 100 * sum(j.gpu_s) / any_value(t.gpu_s) FROM gpu_job AS j JOIN total AS t USING (cluster) GROUP BY cluster, kind
UNION ALL SELECT 'A6', cluster, 'jobs', count(*)::DOUBLE FROM job GROUP BY cluster
UNION ALL SELECT 'A6', cluster, 'gpu_jobs', count(*)::DOUBLE FROM gpu_job GROUP BY cluster
UNION ALL SELECT 'A7', cluster, 'gpu_h_by_duration', sum(gpu_s) / 3600 FROM gpu_job GROUP BY cluster
UNION ALL SELECT 'A8', cluster, 'failed_only_gpu_h', coalesce(sum(gpu_s) FILTER (native_state = 'FAILED'), 0) / 3600 FROM gpu_job GROUP BY cluster
UNION ALL SELECT 'A8', cluster, 'failed_all_gpu_h', coalesce(sum(gpu_s) FILTER (ending = 'failed'), 0) / 3600 FROM gpu_job GROUP BY cluster
