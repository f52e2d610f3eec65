/*
doc = """
How each GPU's readings differ from those of its peers (gpu_job_5min) in the same five minutes, one row per signal.
peer_value is the median of the others, itself left out. What happens to all of them alike (a fleet-wide cap, a slow
job, a pause, warmer air) cancels; what a GPU has always had against its peers does not, and is taken off by
gpu_usual_hour. Signals that a GPU or its peers lack have no row.
"""
grain = ["cluster", "node", "gpu_uuid", "signal", "window_ts"]
time = "window_ts"
sort = ["signal", "node", "gpu_uuid", "window_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
signal = { type = "VARCHAR", doc = "column of gpu_job_5min" }
window_ts = { type = "TIMESTAMP", doc = "start of the five minutes" }
job_id = { type = "VARCHAR", doc = "job" }
attempt = { type = "BIGINT", doc = "attempt of it", unit = "s" }
peer_basis = { type = "VARCHAR", doc = "stage or job" }
peer_count = { type = "BIGINT", doc = "peers that have the signal", unit = "count" }
value = { type = "DOUBLE", doc = "the GPU's reading, in the signal's unit" }
peer_value = { type = "DOUBLE", doc = "median of the peers' readings" }
residual = { type = "DOUBLE", doc = "value / peer_value - 1; for gpu_temp_c the difference in degrees" }
peer_spread = { type = "DOUBLE", doc = "how far the peers lie apart, as a residual: interquartile range of the group over 1.349, which is the standard deviation of a normal distribution; of four it is the whole range, an outlier included" }

[params.min_peers]
default = 3
doc = "count; fewer peers with the signal give no row. As in gpu_job_5min."
*/
WITH reading AS (
    SELECT
        cluster, node, gpu_uuid, window_ts, job_id, attempt, peer_basis, gpu_model,
        if(peer_basis = 'stage', pp_stage, -1) AS peer_stage,
        signal, value
    FROM (
        UNPIVOT (SELECT * EXCLUDE (throttle_mask, minute_count, peer_count) FROM gpu_job_5min WHERE obstacle IS NULL)
        ON sm_clock_mhz, memory_clock_mhz, tensor_active_ratio, tensor_rate_mhz, dram_active_ratio,
            dram_per_tensor_s, power_w, gpu_temp_c, compute_s
        INTO NAME signal VALUE value
    )
),
-- A GPU whose stage is too small is compared with the whole job, so the stages' GPUs count there too.
peers AS (
    SELECT
        cluster, job_id, attempt, gpu_model, peer_stage, signal, window_ts,
        list(value ORDER BY value) AS sorted, count(*) AS n
    FROM (
        FROM reading
        UNION ALL
        SELECT r.* REPLACE (-1 AS peer_stage)
        FROM reading r
        SEMI JOIN (SELECT DISTINCT cluster, job_id, attempt, window_ts FROM reading WHERE peer_stage = -1) s
            USING (cluster, job_id, attempt, window_ts)
        WHERE peer_stage <> -1
    )
    GROUP BY ALL
),
compared AS (
    SELECT
        r.*, n,
        -- The median of the others is one of the three values around the middle, or between two of them.
        CASE
            WHEN n % 2 = 0 THEN sorted[n // 2 + if(value > sorted[n // 2], 0, 1)]
            ELSE (
                sorted[n // 2 + if(value > sorted[n // 2], 0, 1)]
                + sorted[n // 2 + if(value > sorted[n // 2 + 1], 1, 2)]
            ) / 2
        END AS peer_value,
        (sorted[n + 1 - (n + 3) // 4] - sorted[(n + 3) // 4]) / 1.349 AS spread
    FROM reading r
    JOIN peers p USING (cluster, job_id, attempt, gpu_model, peer_stage, signal, window_ts)
    WHERE n > getvariable('min_peers')
)
SELECT
    cluster, node, gpu_uuid, signal, window_ts, job_id, attempt, peer_basis, n - 1 AS peer_count, value, peer_value,
    if(signal = 'gpu_temp_c', value - peer_value, value / peer_value - 1) AS residual,
    if(signal = 'gpu_temp_c', spread, spread / peer_value) AS peer_spread
FROM compared
WHERE signal = 'gpu_temp_c' OR peer_value > 0
