/*
doc = """
What telemetry says of a job in every five minutes: how many of its GPUs do nothing, and on which nodes GPUs are
throttled or run below what is usual for them. Of jobs that are alone on their nodes, as in gpu_job_5min; the
first and last minutes of an attempt, in which a window is not the job's as a whole, are left out.
"""
grain = ["cluster", "job_id", "attempt", "window_ts"]
time = "window_ts"
sort = ["job_id", "window_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job_attempt.job_id" }
attempt = { type = "BIGINT", doc = "job_attempt.attempt", unit = "s" }
window_ts = { type = "TIMESTAMP", doc = "start of the five minutes" }
gpu_count = { type = "BIGINT", doc = "its GPUs with samples", unit = "count" }
idle_gpu_count = { type = "BIGINT", doc = "of these, GPUs that did nothing: activity below max_idle_ratio", unit = "count" }
throttled_nodes = { type = "VARCHAR[]", doc = "nodes with a GPU that showed a throttle bit which less than half of the job's GPUs showed: what all show is how they usually run", null = false }
degraded_nodes = { type = "VARCHAR[]", doc = "nodes with a GPU that lastingly does less than is usual for it (gpu_deviation_5min), and without such a bit", null = false }
is_throttled = { type = "BOOLEAN", doc = "half of the job's GPUs or more showed a thermal, slowdown or power brake bit", null = false }

[params.max_idle_ratio]
default = 0.02
doc = "ratio of SM activity; a GPU of a job that trains, loads or evaluates shows more. Own choice: dcgm-exporter's idle GPUs print 0."
*/
WITH held AS (
    SELECT
        *,
        -- sw_power_cap 0x4, hw_slowdown 0x8, sw_thermal 0x20, hw_thermal 0x40, hw_power_brake 0x80
        throttle_mask & 4 > 0 AS is_capped,
        throttle_mask & 232 > 0 AS is_slowed
    FROM gpu_job_5min
    WHERE job_id IS NOT NULL AND minute_count > 0
),
-- What lasts is known when it has lasted; it holds from its first window of the day on.
lasting AS (
    SELECT DISTINCT
        cluster, node, gpu_uuid,
        unnest(generate_series(
            greatest(coalesce(lasting_since_ts, window_ts), date_trunc('day', window_ts)), window_ts,
            INTERVAL 5 MINUTE
        )) AS window_ts
    FROM gpu_deviation_5min
    WHERE is_lasting AND signal <> 'compute_s'
),
usual AS (
    SELECT
        cluster, job_id, attempt, window_ts,
        count(*) FILTER (is_capped) * 2 < count(*) AS is_rarely_capped,
        count(*) FILTER (is_slowed) * 2 >= count(*) AS is_throttled
    FROM held
    GROUP BY ALL
),
gpu AS (
    SELECT
        h.cluster, h.job_id, h.attempt, h.window_ts, h.node, activity_ratio, is_throttled,
        coalesce((is_slowed AND NOT is_throttled) OR (is_capped AND is_rarely_capped), false) AS throttles,
        l.gpu_uuid IS NOT NULL AS deviates
    FROM held h
    JOIN usual USING (cluster, job_id, attempt, window_ts)
    LEFT JOIN lasting l USING (cluster, node, gpu_uuid, window_ts)
)
SELECT
    cluster, job_id, attempt, window_ts,
    count(*) AS gpu_count,
    count(*) FILTER (activity_ratio < getvariable('max_idle_ratio')) AS idle_gpu_count,
    coalesce(list_sort(list(DISTINCT node) FILTER (throttles)), []) AS throttled_nodes,
    coalesce(list_sort(list(DISTINCT node) FILTER (deviates AND NOT throttles)), []) AS degraded_nodes,
    coalesce(bool_or(is_throttled), false) AS is_throttled
FROM gpu
GROUP BY ALL
