/*
doc = """
Clock and power of each GPU while it works, per hour, against what it should reach and what holds it back.
Only busy minutes count: idle GPUs clock down. Whole GPUs only; under MIG activity is known per instance, so
such GPUs have no busy minutes and busy_minute_count is NULL.

The reference is the application clock where one is set below the part's highest clock, else the latter; where
the exporter gives neither (dcgm-exporter's default does not), the highest clock any GPU of the model in the
cluster had in that hour, of at least min_peers. A deficit is by design when the GPU stands at its power limit
(where the limit is unknown: under the software power cap), and explained when heat, power brake, hardware
slowdown or sync boost account for the minute. What is left is unexplained: the GPU is slow, draws little, and
no bit says why. A power cap that is reported while the board draws far less than its limit is such a case
too.
"""
grain = ["cluster", "node", "gpu_uuid", "hour_ts"]
time = "hour_ts"
sort = ["cluster", "node", "gpu_uuid", "hour_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name as the exporter gives it" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
gpu_index = { type = "INTEGER", doc = "the driver's index on that node" }
gpu_model = { type = "VARCHAR", doc = "model name as the driver gives it" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
coverage_ratio = { type = "DOUBLE", doc = "share of the hour for which a sample holds", unit = "ratio" }
busy_minute_count = { type = "BIGINT", doc = "minutes with activity of min_activity_ratio or more; NULL: activity unknown", unit = "count" }
sm_clock_mhz = { type = "DOUBLE", doc = "mean multiprocessor clock of busy minutes", unit = "mhz" }
sm_clock_reference_mhz = { type = "DOUBLE", doc = "clock it may reach", unit = "mhz" }
sm_clock_reference_source = { type = "VARCHAR", doc = "app_clock, part or peers" }
clock_deficit_ratio = { type = "DOUBLE", doc = "share of the reference that sm_clock_mhz lacks", unit = "ratio" }
app_clock_deficit_ratio = { type = "DOUBLE", doc = "share of the part's highest clock that an application clock takes away; 0 where none is set lower", unit = "ratio" }
power_w = { type = "DOUBLE", doc = "mean board power of busy minutes", unit = "w" }
power_limit_w = { type = "DOUBLE", doc = "lowest power limit in force", unit = "w" }
power_limit_default_w = { type = "DOUBLE", doc = "power limit of the part as delivered", unit = "w" }
power_ratio = { type = "DOUBLE", doc = "power_w of the limit", unit = "ratio" }
power_limit_ratio = { type = "DOUBLE", doc = "limit in force of the limit as delivered; below 1: a cap was set", unit = "ratio" }
capped_minute_count = { type = "BIGINT", doc = "busy minutes below the reference that the power limit explains", unit = "count" }
throttled_minute_count = { type = "BIGINT", doc = "busy minutes below the reference that heat, brake, slowdown or sync boost explain; NULL: no such cause is known or excluded", unit = "count" }
unexplained_minute_count = { type = "BIGINT", doc = "busy minutes below the reference that nothing explains; NULL: no busy minute, or clock, limit or power unknown", unit = "count" }
unexplained_start_ts = { type = "TIMESTAMP", doc = "start of the first such minute" }
unexplained_end_ts = { type = "TIMESTAMP", doc = "end of the last" }
cap_below_limit_minute_count = { type = "BIGINT", doc = "of them with a software power cap reported", unit = "count" }
slow_pstate_minute_count = { type = "BIGINT", doc = "busy minutes whose fastest performance state is slow_pstate or slower; NULL: unknown", unit = "count" }

[params.min_activity_ratio]
default = 0.5
doc = "ratio of engine activity (else SM activity, else utilisation) that makes a minute busy. Own choice: half of the minute at work leaves the mean clock near its working value."
[params.min_deficit_ratio]
default = 0.05
doc = "ratio below the reference from which a minute is below it. gcm's clock policy is critical at 75 MHz, 4 % of an H100's 1980 MHz."
[params.at_limit_ratio]
default = 0.9
doc = "ratio of the limit from which power is at the limit. The H100 sample draws 0.90 of it at its full clock; of Acme's production samples 12.6 % lie above it, so it is no hard ceiling."
[params.min_throttled_s]
default = 6
doc = "s of a minute under a cause that explain it. As in gpu_throttle_hour."
[params.min_peers]
default = 4
doc = "count of GPUs of the model from which their highest clock is a reference. As in gpu_link_day."
[params.slow_pstate]
default = 5
doc = "performance state that no working GPU is in: P0 and P2 are normal for compute, P8 under a job is a known silent fault (microsoft/pai 3387)."
*/
WITH minute AS (
    SELECT
        *,
        date_trunc('hour', minute_ts) AS hour_ts,
        coalesce(gr_engine_active_ratio, sm_active_ratio, gpu_busy_ratio) AS activity_ratio,
        coalesce(power_limit_w, power_limit_set_w) AS limit_w,
        coalesce(sw_power_cap_s, power_violation_s, mask_sw_power_cap_s) AS capped_s,
        greatest(
            coalesce(sw_thermal_slowdown_s, mask_sw_thermal_s), coalesce(hw_thermal_slowdown_s, mask_hw_thermal_s),
            thermal_violation_s, coalesce(hw_power_brake_s, mask_hw_power_brake_s), mask_hw_slowdown_s,
            coalesce(sync_boost_s, sync_boost_violation_s, mask_sync_boost_s)
        ) AS slowed_s
    FROM gpu_minute
    WHERE mig_instance = ''
),
peer AS (
    SELECT cluster, gpu_model, hour_ts, max(sm_clock_mhz) AS peer_mhz
    FROM minute
    WHERE gpu_model IS NOT NULL
    GROUP BY ALL
    HAVING count(DISTINCT gpu_uuid) >= getvariable('min_peers')
),
referred AS (
    SELECT
        *,
        coalesce(least(sm_clock_app_mhz, sm_clock_max_mhz)::DOUBLE, peer_mhz) AS reference_mhz,
        CASE
            WHEN sm_clock_app_mhz < sm_clock_max_mhz OR (sm_clock_max_mhz IS NULL AND sm_clock_app_mhz IS NOT NULL)
                THEN 'app_clock'
            WHEN sm_clock_max_mhz IS NOT NULL THEN 'part'
            WHEN peer_mhz IS NOT NULL THEN 'peers'
        END AS reference_source
    FROM minute
    LEFT JOIN peer USING (cluster, gpu_model, hour_ts)
),
judged AS (
    SELECT
        *,
        activity_ratio >= getvariable('min_activity_ratio') AS is_busy,
        sm_clock_mhz < reference_mhz * (1 - getvariable('min_deficit_ratio')) AS is_below,
        coalesce(power_w >= limit_w * getvariable('at_limit_ratio'), capped_s >= getvariable('min_throttled_s'))
            AS is_at_limit,
        slowed_s >= getvariable('min_throttled_s') AS is_slowed
    FROM referred
),
hour AS (
    SELECT
        cluster, node, gpu_uuid, hour_ts,
        arg_max(gpu_index, minute_ts) AS gpu_index,
        arg_max(gpu_model, minute_ts) AS gpu_model,
        round(sum(coverage_ratio) / 60, 6) AS coverage_ratio,
        sum(is_busy::INTEGER)::BIGINT AS busy_minute_count,
        avg(sm_clock_mhz) FILTER (is_busy) AS sm_clock_mhz,
        min(reference_mhz) AS sm_clock_reference_mhz,
        arg_min(reference_source, reference_mhz) AS sm_clock_reference_source,
        max(sm_clock_max_mhz)::DOUBLE AS clock_max_mhz,
        avg(power_w) FILTER (is_busy) AS power_w,
        min(limit_w) AS power_limit_w,
        max(power_limit_default_w) AS power_limit_default_w,
        sum((is_below AND is_at_limit)::INTEGER) FILTER (is_busy)::BIGINT AS capped_minute_count,
        sum((is_below AND is_slowed AND is_at_limit IS NOT TRUE)::INTEGER) FILTER (is_busy)::BIGINT
            AS throttled_minute_count,
        sum((is_below AND NOT is_at_limit AND is_slowed IS NOT TRUE)::INTEGER) FILTER (is_busy)::BIGINT
            AS unexplained_minute_count,
        min(minute_ts) FILTER (is_busy AND is_below AND NOT is_at_limit AND is_slowed IS NOT TRUE) AS unexplained_start_ts,
        max(minute_ts) FILTER (is_busy AND is_below AND NOT is_at_limit AND is_slowed IS NOT TRUE)
            + INTERVAL 1 MINUTE AS unexplained_end_ts,
        sum((
            is_below AND NOT is_at_limit AND is_slowed IS NOT TRUE AND capped_s >= getvariable('min_throttled_s')
        )::INTEGER) FILTER (is_busy)::BIGINT AS cap_below_limit_minute_count,
        sum((pstate_min >= getvariable('slow_pstate'))::INTEGER) FILTER (is_busy)::BIGINT AS slow_pstate_minute_count
    FROM judged
    GROUP BY ALL
)
SELECT
    cluster, node, gpu_uuid, gpu_index, gpu_model, hour_ts, coverage_ratio, busy_minute_count,
    sm_clock_mhz, sm_clock_reference_mhz, sm_clock_reference_source,
    1 - sm_clock_mhz / sm_clock_reference_mhz AS clock_deficit_ratio,
    1 - sm_clock_reference_mhz / clock_max_mhz AS app_clock_deficit_ratio,
    power_w, power_limit_w, power_limit_default_w,
    power_w / power_limit_w AS power_ratio,
    power_limit_w / power_limit_default_w AS power_limit_ratio,
    capped_minute_count, throttled_minute_count, unexplained_minute_count,
    unexplained_start_ts, unexplained_end_ts, cap_below_limit_minute_count, slow_pstate_minute_count
FROM hour
