-- id, scope, metric, found. Definitions: published.toml.
WITH example AS (
    SELECT
        start_ts, elapsed_s, alloc_gpus, submit_ts, end_ts,
        row_number() OVER (ORDER BY attempt) AS run,
        lag(end_ts) OVER (ORDER BY attempt) AS previous_end_ts
    FROM lake.job_attempt
    WHERE job_id = 'application_1506638472019_14199'
),
-- A trace of one printed record says nothing about the whole.
whole AS (
    SELECT cluster, job_id, arg_max(state, attempt) AS state, max(alloc_gpus) AS gpus
    FROM lake.job_attempt
    GROUP BY ALL
    HAVING (SELECT count(DISTINCT job_id) FROM lake.job_attempt) > 1
)
SELECT 'P0', 'example', 'first_wait', epoch(start_ts - submit_ts) FROM example WHERE run = 1
UNION ALL SELECT 'P0', 'example', 'gap', epoch(start_ts - previous_end_ts) FROM example WHERE run = 2
UNION ALL SELECT 'P0', 'example', 'run_' || run, elapsed_s::DOUBLE FROM example
UNION ALL SELECT 'P0', 'example', 'lost_by_last_attempt_only', sum(alloc_gpus * elapsed_s) FILTER (run = 1)::DOUBLE FROM example
UNION ALL SELECT 'P1', 'all', 'jobs', count(*)::DOUBLE FROM whole HAVING count(*) > 0
UNION ALL SELECT 'P2', 'with_gpus', lower(state), 100 * count(*) / sum(count(*)) OVER () FROM whole WHERE gpus > 0 GROUP BY state
