/*
doc = """
How long jobs take from admission to work, leg by leg, by month of the start and queue.

Legs: admitted_bound, bound_started, started_ready, started_step (to the first training step), image_pull (part of
bound_started, apart), total (admitted, or started where that is not known, to the first step, else pods
ready). A leg of a start counts if both its ends are known, and a negative one (whole seconds, two clocks) as 0.
"""
grain = ["cluster", "month_ts", "queue", "leg"]
time = "month_ts"
period = "month"
window = "month"
sort = ["cluster", "month_ts", "queue"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
month_ts = { type = "TIMESTAMP", doc = "start of the month, UTC" }
queue = { type = "VARCHAR", doc = "start_phase.queue; unknown where no record names one" }
leg = { type = "VARCHAR", doc = "admitted_bound, bound_started, started_ready, started_step, image_pull or total" }
start_count = { type = "BIGINT", doc = "starts that some record tells of", unit = "count" }
leg_count = { type = "BIGINT", doc = "of them those whose leg is known", unit = "count" }
mean_s = { type = "DOUBLE", doc = "mean length", unit = "s" }
p50_s = { type = "DOUBLE", doc = "median, linear interpolation", unit = "s" }
p90_s = { type = "DOUBLE", doc = "90th percentile", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "leg_count / start_count", unit = "ratio" }
*/
WITH leg AS (
    SELECT
        cluster, date_trunc('month', start_ts)::TIMESTAMP AS month_ts, coalesce(queue, 'unknown') AS queue,
        unnest([
            {'leg': 'admitted_bound', 'length_s': epoch(bound_ts - admitted_ts)},
            {'leg': 'bound_started', 'length_s': epoch(started_ts - bound_ts)},
            {'leg': 'started_ready', 'length_s': epoch(pods_ready_ts - started_ts)},
            {'leg': 'started_step', 'length_s': epoch(first_step_ts - started_ts)},
            {'leg': 'image_pull', 'length_s': image_pull_s},
            {'leg': 'total', 'length_s': epoch(coalesce(first_step_ts, pods_ready_ts) - coalesce(admitted_ts, started_ts))}
        ], recursive := true)
    FROM start_phase
)
SELECT
    cluster, month_ts, queue, leg,
    count(*) AS start_count,
    count(length_s) AS leg_count,
    avg(greatest(0, length_s)) FILTER (length_s IS NOT NULL) AS mean_s,
    quantile_cont(greatest(0, length_s), 0.5) FILTER (length_s IS NOT NULL) AS p50_s,
    quantile_cont(greatest(0, length_s), 0.9) FILTER (length_s IS NOT NULL) AS p90_s,
    (count(length_s) / count(*))::DOUBLE AS coverage_ratio
FROM leg
GROUP BY ALL
