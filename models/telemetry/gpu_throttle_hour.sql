/*
doc = """
How long each GPU was slowed, by cause and hour. A row for each cause of which something is known; no row:
unknown, such as a single sample, which holds for no time. Whole GPUs only: throttling is a property of the
GPU, not of a MIG instance.

source says what throttled_s rests on, the best that a minute has: reason_counter, the driver's clock-event
counters in ns (DCGM 4.2 and later, nvidia-smi -q); violation_counter, NVML's violation times in ns
(dcgm-exporter's CSV called them us until the end of 2025; the number never was), which say "below requested
clocks for power" and "for heat" and no more; mask, the sampled reasons, each holding as long as its sample,
so that a brake between two scrapes is missed; mixed, more than one of them in the hour.

Causes overlap, so their times do not add up. thermal is heat of either kind: the larger of the two reason
counters (a lower bound of their union), or the violation time, or bits 0x20 and 0x40 together. hw_slowdown is
bit 0x8 without the bits that explain it. idle, app_clocks, sw_power_cap, sync_boost, low_util and display are
no faults.
"""
grain = ["cluster", "node", "gpu_uuid", "hour_ts", "cause"]
time = "hour_ts"
lookback = "10m"
sort = ["cause", "node", "gpu_uuid", "hour_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name as the exporter gives it" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
gpu_index = { type = "INTEGER", doc = "the driver's index on that node" }
gpu_model = { type = "VARCHAR", doc = "model name as the driver gives it" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
cause = { type = "VARCHAR", doc = "idle, app_clocks, sw_power_cap, sync_boost, low_util, display; sw_thermal, hw_thermal, thermal, hw_power_brake, hw_slowdown, board_limit, reliability" }
is_fault = { type = "BOOLEAN", doc = "true: heat, power brake or unexplained hardware slowdown" }
source = { type = "VARCHAR", doc = "reason_counter, violation_counter, mask or mixed" }
throttled_s = { type = "DOUBLE", doc = "time slowed for this cause", unit = "s" }
known_s = { type = "DOUBLE", doc = "time of the hour for which that is known", unit = "s" }
throttled_ratio = { type = "DOUBLE", doc = "throttled_s of known_s, at most 1: a counter's increase belongs to the later of two samples", unit = "ratio" }
coverage_ratio = { type = "DOUBLE", doc = "known_s of the hour", unit = "ratio" }
throttled_minute_count = { type = "BIGINT", doc = "minutes with min_minute_s of it or more", unit = "count" }
first_throttled_ts = { type = "TIMESTAMP", doc = "start of the first such minute" }
last_throttled_ts = { type = "TIMESTAMP", doc = "end of the last" }
sustained_ts = { type = "TIMESTAMP", doc = "faults only: end of the first minute at which min_minutes of the last ten were such; NULL: never" }

[params.min_minute_s]
default = 6
doc = "s; a minute with less is not counted as throttled. A tenth of it: below lies what one scrape of a mask at 5 s can show by chance. Own choice."
[params.min_minutes]
default = 6
doc = "count of the last ten minutes that makes it sustained: gpud's 0.6 hardware slowdown events per minute over ten minutes."
*/
WITH cause_minute AS (
    SELECT
        cluster, node, gpu_uuid, gpu_index, gpu_model, minute_ts, coverage_ratio * 60 AS covered_s, mask_known_s,
        unnest([
            {'cause': 'idle', 'reason_s': NULL, 'violation_s': NULL, 'mask_s': mask_idle_s},
            {'cause': 'app_clocks', 'reason_s': NULL, 'violation_s': NULL, 'mask_s': mask_app_clocks_s},
            {'cause': 'sw_power_cap', 'reason_s': sw_power_cap_s,
             'violation_s': power_violation_s, 'mask_s': mask_sw_power_cap_s},
            {'cause': 'sync_boost', 'reason_s': sync_boost_s,
             'violation_s': sync_boost_violation_s, 'mask_s': mask_sync_boost_s},
            {'cause': 'low_util', 'reason_s': NULL, 'violation_s': low_util_violation_s, 'mask_s': NULL},
            {'cause': 'display', 'reason_s': NULL, 'violation_s': NULL, 'mask_s': mask_display_s},
            {'cause': 'sw_thermal', 'reason_s': sw_thermal_slowdown_s, 'violation_s': NULL, 'mask_s': mask_sw_thermal_s},
            {'cause': 'hw_thermal', 'reason_s': hw_thermal_slowdown_s, 'violation_s': NULL, 'mask_s': mask_hw_thermal_s},
            {'cause': 'thermal', 'reason_s': greatest(sw_thermal_slowdown_s, hw_thermal_slowdown_s),
             'violation_s': thermal_violation_s, 'mask_s': mask_thermal_s},
            {'cause': 'hw_power_brake', 'reason_s': hw_power_brake_s, 'violation_s': NULL, 'mask_s': mask_hw_power_brake_s},
            {'cause': 'hw_slowdown', 'reason_s': NULL, 'violation_s': NULL, 'mask_s': mask_hw_slowdown_s},
            {'cause': 'board_limit', 'reason_s': NULL, 'violation_s': board_limit_violation_s, 'mask_s': NULL},
            {'cause': 'reliability', 'reason_s': NULL, 'violation_s': reliability_violation_s, 'mask_s': NULL}
        ], recursive := true)
    FROM gpu_minute
    WHERE mig_instance = ''
),
sourced AS (
    SELECT
        * EXCLUDE (reason_s, violation_s, mask_s, covered_s, mask_known_s),
        date_trunc('hour', minute_ts) AS hour_ts,
        cause IN ('sw_thermal', 'hw_thermal', 'thermal', 'hw_power_brake', 'hw_slowdown') AS is_fault,
        CASE
            WHEN reason_s IS NOT NULL THEN 'reason_counter'
            WHEN violation_s IS NOT NULL THEN 'violation_counter'
            ELSE 'mask'
        END AS source,
        coalesce(reason_s, violation_s, mask_s) AS throttled_s,
        if(coalesce(reason_s, violation_s) IS NULL, mask_known_s, covered_s) AS known_s,
        coalesce(reason_s, violation_s, mask_s) >= getvariable('min_minute_s') AS is_throttled
    FROM cause_minute
    WHERE coalesce(reason_s, violation_s, mask_s) IS NOT NULL
),
-- Few minutes are throttled for a fault, so this window is small.
sustained AS (
    SELECT
        cluster, node, gpu_uuid, cause, date_trunc('hour', minute_ts) AS hour_ts,
        min(minute_ts) + INTERVAL 1 MINUTE AS sustained_ts
    FROM (
        SELECT
            *,
            count(*) OVER (
                PARTITION BY cluster, node, gpu_uuid, cause ORDER BY minute_ts
                RANGE BETWEEN INTERVAL 9 MINUTE PRECEDING AND CURRENT ROW
            ) AS recent_count
        FROM sourced
        WHERE is_throttled AND is_fault
    )
    WHERE recent_count >= getvariable('min_minutes')
    GROUP BY ALL
),
hour AS (
    SELECT
        cluster, node, gpu_uuid, hour_ts, cause, is_fault,
        arg_max(gpu_index, minute_ts) AS gpu_index,
        arg_max(gpu_model, minute_ts) AS gpu_model,
        if(count(DISTINCT source) = 1, min(source), 'mixed') AS source,
        round(sum(throttled_s), 6) AS throttled_s,
        round(sum(known_s), 6) AS known_s,
        count(*) FILTER (is_throttled) AS throttled_minute_count,
        min(minute_ts) FILTER (is_throttled) AS first_throttled_ts,
        max(minute_ts) FILTER (is_throttled) + INTERVAL 1 MINUTE AS last_throttled_ts
    FROM sourced
    GROUP BY ALL
)
SELECT
    cluster, node, gpu_uuid, gpu_index, gpu_model, hour_ts, cause, is_fault, source, throttled_s, known_s,
    if(known_s > 0, least(1, throttled_s / known_s), NULL) AS throttled_ratio,
    least(1, known_s / 3600) AS coverage_ratio,
    throttled_minute_count, first_throttled_ts, last_throttled_ts, sustained_ts
FROM hour
LEFT JOIN sustained USING (cluster, node, gpu_uuid, hour_ts, cause)
WHERE known_s > 0 OR throttled_s > 0
