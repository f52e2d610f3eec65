-- id, scope, metric, found. Definitions: published.toml.
WITH pod AS (
    SELECT
        j.*,
        CASE
            WHEN req_gpu_amount = 0 THEN 'share_0'
            WHEN req_gpu_amount < 1 THEN 'share_part'
            WHEN req_gpu_amount IN (1, 2, 4, 8) THEN 'share_' || req_gpu_amount::INTEGER
        END AS request
    FROM lake.job_attempt AS j
)
SELECT 'O1', 'all', 'nodes', count(*)::DOUBLE FROM lake.node_state
UNION ALL SELECT 'O1', 'all', 'gpus', sum(gpu_count)::DOUBLE FROM lake.node_state
UNION ALL SELECT 'O1', 'all', 'pods', count(*)::DOUBLE FROM pod
UNION ALL SELECT 'O1', 'gpu_nodes', 'cpus', sum(cpu_count)::DOUBLE FROM lake.node_state WHERE gpu_count > 0
UNION ALL SELECT 'O1x', 'all', 'cpus', sum(cpu_count)::DOUBLE FROM lake.node_state
UNION ALL SELECT 'O2', 'pods', request, 100 * count(*) / any_value((SELECT count(*) FROM pod)) FROM pod WHERE request IS NOT NULL GROUP BY request
UNION ALL SELECT 'O2', 'gpus', request, 100 * sum(req_gpu_amount) / any_value((SELECT sum(req_gpu_amount) FROM pod))
    FROM pod WHERE request IS NOT NULL GROUP BY request
UNION ALL SELECT 'W1', 'phase', lower(native_state), 100 * count(*) / any_value((SELECT count(*) FROM pod)) FROM pod GROUP BY native_state
UNION ALL SELECT 'W1', 'scheduled', unnest(['p50', 'p90', 'p99']), unnest(quantile_cont(submit_wait_s, [0.5, 0.9, 0.99])) FROM lake.job_wait
UNION ALL SELECT 'W1', 'scheduled', 'max', max(submit_wait_s) FROM lake.job_wait
UNION ALL SELECT 'W1', 'scheduled', 'mean', avg(submit_wait_s) FROM lake.job_wait
UNION ALL SELECT 'W1', 'with_abandoned', unnest(['p90', 'p99']), unnest(quantile_cont(demand_wait_s, [0.9, 0.99])) FROM lake.job_wait
UNION ALL SELECT 'W1', 'with_abandoned', 'mean', avg(demand_wait_s) FROM lake.job_wait
UNION ALL SELECT 'W1', 'with_abandoned', 'abandoned', count(*)::DOUBLE FROM lake.job_wait WHERE outcome = 'abandoned'
