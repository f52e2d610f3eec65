/*
title = "Infrastructure has used up the month's failure budget"
domain = "performance"
kind = "failure_budget"
severity = "medium"
reviewed = "2026-11-30"
window = "all"
optional = ["node_event", "node_state", "inventory_gpu", "gpu_event", "kernel_log_day", "gpu_sample", "gpu_identity", "gpu_link_sample",
    "reason_rule", "xid_policy", "queue_event", "train_event", "train_step"]

flags = """
A month and job size in which more attempts ended for infrastructure or hardware than the target ETTR allows
(failure_budget), and so many that a fleet which just meets the target would show it in fewer than one month of
twenty. High from twice the budget. `lower` and `upper` are failures beyond the budget.
"""
why = """
Beyond the budget jobs of that size miss the efficiency that their plans rest on, however well they are
written: either failures are fixed, or checkpoints and restarts must cost less.
"""
looks_like = """
A maintenance that ended jobs instead of draining nodes, a week of burn-in of new nodes, one incident of a shared file
system that ended many jobs at once: many failures, one cause.
"""
misses = """
Failures that the records do not tell from the users' (domain unknown) count for nobody: failure_month.known_ratio
says how many. Sizes whose interval between checkpoints no log tells and the settings do not state have no budget.
Months in which earlier attempts are missing. Slow jobs that do not fail.
"""
todo = """
See node_failure_rate and node_availability for the reasons, and lemon_node for single nodes. If the rate will
stay, take the advice of checkpoint_interval_advice and shorten restarts (cold_start, time_to_recover).
"""

[params.max_tail_probability]
default = 0.05
doc = "ratio; chance of as many failures at the allowed rate below which the budget counts as burnt. One month of twenty by chance."

[params.high_ratio]
default = 2
doc = "ratio of the budget from which the finding is high. Own choice."
*/
WITH burnt AS (
    SELECT *
    FROM failure_budget
    WHERE failure_count > allowed_count AND tail_probability < getvariable('max_tail_probability')
),
-- The day on which the failures of the month exceeded what the month allows.
crossed AS (
    SELECT cluster, month_ts, size_bucket, min(day_ts) FILTER (so_far > allowed_count) AS day_ts, max(day_ts) AS last_day_ts
    FROM (
        SELECT
            burnt.cluster, month_ts, burnt.size_bucket, day_ts, allowed_count,
            sum(started_count) OVER (PARTITION BY burnt.cluster, month_ts, burnt.size_bucket ORDER BY day_ts RANGE UNBOUNDED PRECEDING) AS so_far
        FROM burnt
        JOIN outcome_day AS ended
            ON ended.cluster = burnt.cluster AND ended.size_bucket = burnt.size_bucket
            AND date_trunc('month', day_ts) = month_ts AND failure_domain IN ('infrastructure', 'hardware')
    )
    GROUP BY ALL
)
SELECT
    concat_ws('/', cluster, size_bucket, month_ts::DATE) AS subject,
    least(0.99, 1 - tail_probability) AS score,
    if(failure_count >= getvariable('high_ratio') * allowed_count, 'high', 'medium') AS severity,
    month_ts AS start_ts,
    coalesce(last_day_ts, month_ts) + INTERVAL 1 DAY AS end_ts,
    coalesce(day_ts, month_ts) + INTERVAL 1 DAY AS detected_at,
    [cluster] AS cluster,
    failure_count - allowed_count AS lower,
    failure_count - allowed_count AS upper,
    json_object(
        'quantity', 'failures beyond the budget of the month',
        'size', size_bucket,
        'failures', failure_count,
        'allowed', round(allowed_count, 3),
        'used_ratio', round(used_ratio, 3),
        'tail_probability', tail_probability,
        'target_ettr', target_ettr_ratio,
        'gpu_count', gpu_count,
        'node_days', round(node_days, 1),
        'interval_s', interval_s, 'interval_source', interval_source,
        'restart_s', restart_s, 'restart_source', restart_source,
        'save_s', save_s, 'save_source', save_source,
        'coverage_ratio', round(coverage_ratio, 4),
        'action', 'fix what fails, or save and restart faster'
    )::VARCHAR AS evidence
FROM burnt
LEFT JOIN crossed USING (cluster, month_ts, size_bucket)
