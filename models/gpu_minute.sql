/*
doc = """
GPU telemetry per minute: means and extremes of readings, increases of counters. A row for each
minute of which something is known, per GPU and per MIG instance (mig_instance empty: the whole GPU).

coverage_ratio: a sample holds from its time until the next one, at most 1.5 times as long as it came
after the one before it (so the scrape interval is the observed one); the first sample after a gap of
more than max_gap_s holds for no time, because nothing is known of its interval. A minute that is only
held from before has sample_count 0 and no readings.

Increases are differences to the last known value, not more than max_gap_s older and over one missing
value at most, in the minute of the later one. A value below the one before is a restart (driver
reload, GPU reset): the new value counts in full, which is the least that can have happened. NULL: no
such pair of values.
"""
grain = ["cluster", "node", "gpu_uuid", "mig_instance", "minute_ts"]
time = "minute_ts"
lookback = "15m"
sort = ["node", "gpu_index", "gpu_uuid", "mig_instance", "minute_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name as the exporter gives it" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
gpu_index = { type = "INTEGER", doc = "the driver's index on that node" }
mig_instance = { type = "VARCHAR", doc = "GPU instance id under MIG; empty for the whole GPU" }
minute_ts = { type = "TIMESTAMP", doc = "start of the minute" }
gpu_model = { type = "VARCHAR", doc = "model name as the driver gives it" }
mig_profile = { type = "VARCHAR", doc = "slice of a MIG instance" }
sample_count = { type = "BIGINT", doc = "samples in the minute", unit = "count" }
profiled_sample_count = { type = "BIGINT", doc = "samples that have tensor_active_ratio: what the activity means rest on", unit = "count" }
flaw_count = { type = "BIGINT", doc = "values printed that were no measurement (gpu_sample.quality)", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "share of the minute for which a sample holds", unit = "ratio" }
gpu_busy_ratio = { type = "DOUBLE", doc = "mean share of time with a kernel resident", unit = "ratio" }
memory_busy_ratio = { type = "DOUBLE", doc = "mean share of time memory was accessed", unit = "ratio" }
gr_engine_active_ratio = { type = "DOUBLE", doc = "mean share of time the engine was active", unit = "ratio" }
sm_active_ratio = { type = "DOUBLE", doc = "mean share of cycles with a warp resident", unit = "ratio" }
sm_occupancy_ratio = { type = "DOUBLE", doc = "mean share of resident warps", unit = "ratio" }
tensor_active_ratio = { type = "DOUBLE", doc = "mean share of cycles with a tensor pipe active", unit = "ratio" }
dram_active_ratio = { type = "DOUBLE", doc = "mean share of cycles the memory moved data", unit = "ratio" }
fp64_active_ratio = { type = "DOUBLE", doc = "mean share of cycles with the FP64 pipe active", unit = "ratio" }
fp32_active_ratio = { type = "DOUBLE", doc = "mean share of cycles with the FP32 pipe active", unit = "ratio" }
fp16_active_ratio = { type = "DOUBLE", doc = "mean share of cycles with the FP16 pipe active", unit = "ratio" }
sm_clock_mhz = { type = "DOUBLE", doc = "mean multiprocessor clock", unit = "mhz" }
sm_clock_min_mhz = { type = "INTEGER", doc = "lowest multiprocessor clock", unit = "mhz" }
memory_clock_mhz = { type = "DOUBLE", doc = "mean memory clock", unit = "mhz" }
power_w = { type = "DOUBLE", doc = "mean board power", unit = "w" }
power_max_w = { type = "DOUBLE", doc = "highest board power", unit = "w" }
power_limit_w = { type = "DOUBLE", doc = "lowest power limit in force", unit = "w" }
gpu_temp_max_c = { type = "INTEGER", doc = "highest core temperature", unit = "c" }
memory_temp_max_c = { type = "INTEGER", doc = "highest memory temperature", unit = "c" }
fb_used_max_bytes = { type = "BIGINT", doc = "most framebuffer in use", unit = "bytes" }
pcie_tx_bytes_per_s = { type = "DOUBLE", doc = "mean PCIe rate out of the GPU", unit = "bytes/s" }
pcie_rx_bytes_per_s = { type = "DOUBLE", doc = "mean PCIe rate into the GPU", unit = "bytes/s" }
nvlink_tx_bytes_per_s = { type = "DOUBLE", doc = "mean NVLink rate out of the GPU", unit = "bytes/s" }
nvlink_rx_bytes_per_s = { type = "DOUBLE", doc = "mean NVLink rate into the GPU", unit = "bytes/s" }
pcie_link_gen_min = { type = "INTEGER", doc = "lowest PCIe generation", unit = "generation" }
pcie_link_width_min = { type = "INTEGER", doc = "fewest PCIe lanes", unit = "lanes" }
throttle_mask = { type = "BIGINT", doc = "all throttle bits seen, or-ed", unit = "bits" }
xid_code = { type = "INTEGER", doc = "last XID in the minute, sticky: not an event", unit = "code" }
energy_used_j = { type = "DOUBLE", doc = "energy used", unit = "j" }
power_violation_s = { type = "DOUBLE", doc = "time below requested clocks for power", unit = "s" }
thermal_violation_s = { type = "DOUBLE", doc = "time below requested clocks for heat", unit = "s" }
sw_power_cap_s = { type = "DOUBLE", doc = "time under the software power cap", unit = "s" }
sw_thermal_slowdown_s = { type = "DOUBLE", doc = "time slowed by the driver for heat", unit = "s" }
hw_thermal_slowdown_s = { type = "DOUBLE", doc = "time slowed by the hardware for heat", unit = "s" }
hw_power_brake_s = { type = "DOUBLE", doc = "time slowed by the power brake", unit = "s" }
pcie_replay_new_count = { type = "BIGINT", doc = "PCIe retries", unit = "count" }
ecc_sbe_new_count = { type = "BIGINT", doc = "corrected ECC errors", unit = "count" }
ecc_dbe_new_count = { type = "BIGINT", doc = "uncorrected ECC errors", unit = "count" }
row_remap_new_count = { type = "BIGINT", doc = "rows remapped for uncorrectable errors", unit = "count" }
nvlink_error_new_count = { type = "BIGINT", doc = "NVLink CRC, replay and recovery errors together; the parts that are known", unit = "count" }
sm_elapsed_new_cycles = { type = "BIGINT", doc = "multiprocessor cycles that passed", unit = "cycles" }
tensor_active_new_cycles = { type = "BIGINT", doc = "cycles with a tensor pipe active; over sm_elapsed_new_cycles the exact share", unit = "cycles" }

[params.max_gap_s]
default = 90
most = 360
doc = "s; samples further apart do not hold on, and no increase is taken between them. Three times the 30 s at which dcgm-exporter collects."
*/
WITH counter AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, ts,
        energy_j AS n_energy, power_violation_s AS n_power, thermal_violation_s AS n_thermal,
        sw_power_cap_s AS n_cap, sw_thermal_slowdown_s AS n_sw_thermal,
        hw_thermal_slowdown_s AS n_hw_thermal, hw_power_brake_s AS n_brake,
        pcie_replay_count AS n_replay, ecc_sbe_volatile_count AS n_sbe,
        ecc_dbe_volatile_count AS n_dbe, row_remap_uncorrectable_count AS n_remap,
        nvlink_crc_flit_error_count AS n_flit, nvlink_crc_data_error_count AS n_data,
        nvlink_replay_error_count AS n_link_replay, nvlink_recovery_error_count AS n_recovery,
        nvlink_rx_error_count AS n_link_rx,
        sm_elapsed_cycles AS n_elapsed, tensor_active_cycles AS n_tensor
    FROM gpu_sample
),
timed AS (
    -- Whether the last sample, and the one before it, are near enough to compare with.
    SELECT
        *,
        ts - lag(ts) OVER gpu <= to_seconds(getvariable('max_gap_s')) AS is_near,
        ts - lag(ts, 2) OVER gpu <= to_seconds(getvariable('max_gap_s')) AS is_second_near
    FROM counter
    WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid, mig_instance ORDER BY ts)
),
increase AS (
    -- Each n_ becomes its increase over the last known value, across one sample without it; below
    -- that it has begun anew at 0.
    SELECT
        cluster, node, gpu_uuid, mig_instance, ts,
        COLUMNS('^n_') - if(
            coalesce(
                if(is_near, lag(COLUMNS('^n_')) OVER gpu, NULL),
                if(is_second_near, lag(COLUMNS('^n_'), 2) OVER gpu, NULL)
            ) > COLUMNS('^n_'),
            0,
            coalesce(
                if(is_near, lag(COLUMNS('^n_')) OVER gpu, NULL),
                if(is_second_near, lag(COLUMNS('^n_'), 2) OVER gpu, NULL)
            )
        )
    FROM timed
    WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid, mig_instance ORDER BY ts)
),
held AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, gpu_index, gpu_model, mig_profile, ts,
        date_trunc('minute', ts) AS own_minute_ts,
        CASE
            WHEN ts - lag(ts) OVER gpu <= to_seconds(getvariable('max_gap_s'))
            THEN least(ts + (ts - lag(ts) OVER gpu) * 1.5, lead(ts) OVER gpu)
            ELSE ts
        END AS until_ts
    FROM gpu_sample
    WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid, mig_instance ORDER BY ts)
),
minute AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, minute_ts,
        arg_max(gpu_index, ts) AS gpu_index,
        arg_max(gpu_model, ts) AS gpu_model,
        arg_max(mig_profile, ts) AS mig_profile,
        round(sum(greatest(0, epoch(
            least(until_ts, minute_ts + INTERVAL 1 MINUTE) - greatest(ts, minute_ts)
        ))) / 60, 6) AS coverage_ratio
    FROM (
        SELECT
            *,
            unnest(generate_series(
                own_minute_ts,
                greatest(own_minute_ts, until_ts - INTERVAL 1 MICROSECOND),
                INTERVAL 1 MINUTE
            )) AS minute_ts
        FROM held
    )
    GROUP BY ALL
),
reading AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, date_trunc('minute', ts) AS minute_ts,
        count(*) AS sample_count,
        count(tensor_active_ratio) AS profiled_sample_count,
        sum(len(quality))::BIGINT AS flaw_count,
        avg(gpu_busy_ratio) AS gpu_busy_ratio,
        avg(memory_busy_ratio) AS memory_busy_ratio,
        avg(gr_engine_active_ratio) AS gr_engine_active_ratio,
        avg(sm_active_ratio) AS sm_active_ratio,
        avg(sm_occupancy_ratio) AS sm_occupancy_ratio,
        avg(tensor_active_ratio) AS tensor_active_ratio,
        avg(dram_active_ratio) AS dram_active_ratio,
        avg(fp64_active_ratio) AS fp64_active_ratio,
        avg(fp32_active_ratio) AS fp32_active_ratio,
        avg(fp16_active_ratio) AS fp16_active_ratio,
        avg(sm_clock_mhz) AS sm_clock_mhz,
        min(sm_clock_mhz) AS sm_clock_min_mhz,
        avg(memory_clock_mhz) AS memory_clock_mhz,
        avg(power_w) AS power_w,
        max(power_w) AS power_max_w,
        min(power_limit_w) AS power_limit_w,
        max(gpu_temp_c) AS gpu_temp_max_c,
        max(memory_temp_c) AS memory_temp_max_c,
        max(fb_used_bytes) AS fb_used_max_bytes,
        avg(pcie_tx_bytes_per_s) AS pcie_tx_bytes_per_s,
        avg(pcie_rx_bytes_per_s) AS pcie_rx_bytes_per_s,
        avg(nvlink_tx_bytes_per_s) AS nvlink_tx_bytes_per_s,
        avg(nvlink_rx_bytes_per_s) AS nvlink_rx_bytes_per_s,
        min(pcie_link_gen) AS pcie_link_gen_min,
        min(pcie_link_width) AS pcie_link_width_min,
        bit_or(throttle_mask) AS throttle_mask,
        arg_max(xid_code, ts) AS xid_code
    FROM gpu_sample
    GROUP BY ALL
),
counted AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, date_trunc('minute', ts) AS minute_ts,
        sum(n_energy) AS energy_used_j,
        sum(n_power) AS power_violation_s,
        sum(n_thermal) AS thermal_violation_s,
        sum(n_cap) AS sw_power_cap_s,
        sum(n_sw_thermal) AS sw_thermal_slowdown_s,
        sum(n_hw_thermal) AS hw_thermal_slowdown_s,
        sum(n_brake) AS hw_power_brake_s,
        sum(n_replay)::BIGINT AS pcie_replay_new_count,
        sum(n_sbe)::BIGINT AS ecc_sbe_new_count,
        sum(n_dbe)::BIGINT AS ecc_dbe_new_count,
        sum(n_remap)::BIGINT AS row_remap_new_count,
        list_sum([
            sum(n_flit), sum(n_data), sum(n_link_replay), sum(n_recovery), sum(n_link_rx)
        ])::BIGINT AS nvlink_error_new_count,
        sum(n_elapsed)::BIGINT AS sm_elapsed_new_cycles,
        sum(n_tensor)::BIGINT AS tensor_active_new_cycles
    FROM increase
    GROUP BY ALL
)
SELECT
    cluster, node, gpu_uuid, gpu_index, mig_instance, minute_ts, gpu_model, mig_profile,
    coalesce(sample_count, 0) AS sample_count,
    coalesce(profiled_sample_count, 0) AS profiled_sample_count,
    coalesce(flaw_count, 0) AS flaw_count,
    coverage_ratio,
    reading.* EXCLUDE (
        cluster, node, gpu_uuid, mig_instance, minute_ts,
        sample_count, profiled_sample_count, flaw_count
    ),
    counted.* EXCLUDE (cluster, node, gpu_uuid, mig_instance, minute_ts)
FROM minute
LEFT JOIN reading USING (cluster, node, gpu_uuid, mig_instance, minute_ts)
LEFT JOIN counted USING (cluster, node, gpu_uuid, mig_instance, minute_ts)
