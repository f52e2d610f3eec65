/*
doc = """
GPU telemetry per minute: means and extremes of readings, increases of counters. A row for each minute of
which something is known, per GPU and per MIG instance (mig_instance empty: the whole GPU).

coverage_ratio: a sample holds from its time until the next one, at most 1.5 times as long as it came after
the one before it (so the scrape interval is the observed one); the first sample after a gap of more than
max_gap_s holds for no time, because nothing is known of its interval. A minute that is only held from before
has sample_count 0 and no readings.

Increases are differences to the last known value, not more than max_gap_s older and over one missing value at
most, in the minute of the later one. NULL: no such pair of values; or the value is below the one before (a
driver reload, a GPU reset, a value misread: counter_reset_count), of which nothing is known; or the increase
is more than time allows. Time allows that much more time, and energy of 1.5 times the power limit, each over
the time between the two samples and max_lag_s, because a scrape may show what was collected earlier.

Seconds under a throttle bit (mask_..._s) rest on the sampled mask: each sample's bits hold as long as the
sample. Bits come together, so these overlap; mask_known_s is the time for which a mask is known. What lies
between two samples is not seen: where the counters beside it (..._s) are known, they are better.
Linear: 84,000 samples per CPU second over one million samples, 88,000 over ten million.
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
sm_clock_app_mhz = { type = "INTEGER", doc = "lowest application clock set", unit = "mhz" }
sm_clock_max_mhz = { type = "INTEGER", doc = "highest multiprocessor clock of the part: a constant, no reading", unit = "mhz" }
memory_clock_mhz = { type = "DOUBLE", doc = "mean memory clock", unit = "mhz" }
memory_clock_max_mhz = { type = "INTEGER", doc = "highest memory clock of the part: a constant", unit = "mhz" }
memory_clock_min_mhz = { type = "INTEGER", doc = "lowest memory clock", unit = "mhz" }
pstate_min = { type = "INTEGER", doc = "fastest performance state, 0 is fastest", unit = "level" }
power_w = { type = "DOUBLE", doc = "mean board power", unit = "w" }
power_max_w = { type = "DOUBLE", doc = "highest board power", unit = "w" }
power_limit_w = { type = "DOUBLE", doc = "lowest power limit in force", unit = "w" }
power_limit_set_w = { type = "DOUBLE", doc = "lowest power limit that somebody asked for", unit = "w" }
power_limit_default_w = { type = "DOUBLE", doc = "power limit of the part as delivered", unit = "w" }
gpu_temp_c = { type = "DOUBLE", doc = "mean core temperature", unit = "c" }
gpu_temp_max_c = { type = "INTEGER", doc = "highest core temperature", unit = "c" }
gpu_temp_margin_min_c = { type = "INTEGER", doc = "least distance to the slowdown temperature; below 0 is past it", unit = "c" }
gpu_temp_slowdown_c = { type = "INTEGER", doc = "temperature at which the part slows down: a constant", unit = "c" }
memory_temp_c = { type = "DOUBLE", doc = "mean memory temperature", unit = "c" }
memory_temp_max_c = { type = "INTEGER", doc = "highest memory temperature", unit = "c" }
fb_used_max_bytes = { type = "BIGINT", doc = "most framebuffer in use", unit = "bytes" }
pcie_tx_bytes_per_s = { type = "DOUBLE", doc = "mean PCIe rate out of the GPU", unit = "bytes/s" }
pcie_rx_bytes_per_s = { type = "DOUBLE", doc = "mean PCIe rate into the GPU", unit = "bytes/s" }
nvlink_tx_bytes_per_s = { type = "DOUBLE", doc = "mean NVLink rate out of the GPU", unit = "bytes/s" }
nvlink_rx_bytes_per_s = { type = "DOUBLE", doc = "mean NVLink rate into the GPU", unit = "bytes/s" }
nvlink_bandwidth_bytes_per_s = { type = "DOUBLE", doc = "mean NVLink rate, both directions", unit = "bytes/s" }
pcie_link_gen_min = { type = "INTEGER", doc = "lowest PCIe generation", unit = "generation" }
pcie_link_gen_best = { type = "INTEGER", doc = "highest PCIe generation seen: an idle link drops, a loaded one does not", unit = "generation" }
pcie_link_gen_max = { type = "INTEGER", doc = "highest PCIe generation that GPU and slot can do: a constant", unit = "generation" }
pcie_link_width_min = { type = "INTEGER", doc = "fewest PCIe lanes", unit = "lanes" }
pcie_link_width_max = { type = "INTEGER", doc = "most PCIe lanes that GPU and slot have: a constant", unit = "lanes" }
throttle_mask = { type = "BIGINT", doc = "all throttle bits seen, or-ed", unit = "bits" }
mask_known_s = { type = "DOUBLE", doc = "time for which a throttle mask is known", unit = "s" }
mask_idle_s = { type = "DOUBLE", doc = "of it with bit 0x1, idle", unit = "s" }
mask_app_clocks_s = { type = "DOUBLE", doc = "with bit 0x2, application clocks", unit = "s" }
mask_sw_power_cap_s = { type = "DOUBLE", doc = "with bit 0x4, software power cap", unit = "s" }
sync_boost_s = { type = "DOUBLE", doc = "time slowed by sync boost", unit = "s" }
mask_hw_slowdown_s = { type = "DOUBLE", doc = "with bit 0x8, hardware slowdown, and neither 0x40 nor 0x80, which say why", unit = "s" }
mask_sync_boost_s = { type = "DOUBLE", doc = "with bit 0x10, sync boost", unit = "s" }
mask_sw_thermal_s = { type = "DOUBLE", doc = "with bit 0x20, slowed by the driver for heat", unit = "s" }
mask_hw_thermal_s = { type = "DOUBLE", doc = "with bit 0x40, slowed by the hardware for heat", unit = "s" }
mask_thermal_s = { type = "DOUBLE", doc = "with bit 0x20 or 0x40", unit = "s" }
mask_hw_power_brake_s = { type = "DOUBLE", doc = "with bit 0x80, power brake", unit = "s" }
mask_display_s = { type = "DOUBLE", doc = "with bit 0x100, display clocks", unit = "s" }
xid_code = { type = "INTEGER", doc = "last XID in the minute, sticky: not an event", unit = "code" }
counter_reset_count = { type = "BIGINT", doc = "samples in which the counter of energy, PCIe retries, time for power or corrected ECC errors was below its last known value", unit = "count" }
energy_used_j = { type = "DOUBLE", doc = "energy used", unit = "j" }
power_violation_s = { type = "DOUBLE", doc = "time below requested clocks for power", unit = "s" }
thermal_violation_s = { type = "DOUBLE", doc = "time below requested clocks for heat", unit = "s" }
sync_boost_violation_s = { type = "DOUBLE", doc = "time below requested clocks for sync boost", unit = "s" }
board_limit_violation_s = { type = "DOUBLE", doc = "time below requested clocks for a board limit", unit = "s" }
low_util_violation_s = { type = "DOUBLE", doc = "time below requested clocks for low use; no fault", unit = "s" }
reliability_violation_s = { type = "DOUBLE", doc = "time below requested clocks for voltage reliability", unit = "s" }
app_clock_violation_s = { type = "DOUBLE", doc = "time below application clocks", unit = "s" }
base_clock_violation_s = { type = "DOUBLE", doc = "time below base clocks", unit = "s" }
sw_power_cap_s = { type = "DOUBLE", doc = "time under the software power cap", unit = "s" }
sw_thermal_slowdown_s = { type = "DOUBLE", doc = "time slowed by the driver for heat", unit = "s" }
hw_thermal_slowdown_s = { type = "DOUBLE", doc = "time slowed by the hardware for heat", unit = "s" }
hw_power_brake_s = { type = "DOUBLE", doc = "time slowed by the power brake", unit = "s" }
pcie_replay_new_count = { type = "BIGINT", doc = "PCIe retries", unit = "count" }
pcie_correctable_error_new_count = { type = "BIGINT", doc = "correctable PCIe errors", unit = "count" }
ecc_sbe_new_count = { type = "BIGINT", doc = "corrected ECC errors", unit = "count" }
ecc_dbe_new_count = { type = "BIGINT", doc = "uncorrected ECC errors", unit = "count" }
ecc_sbe_aggregate_new_count = { type = "BIGINT", doc = "corrected ECC errors by the lifetime counter", unit = "count" }
ecc_dbe_aggregate_new_count = { type = "BIGINT", doc = "uncorrected ECC errors by the lifetime counter", unit = "count" }
ecc_sram_sbe_new_count = { type = "BIGINT", doc = "corrected SRAM errors, by the volatile or lifetime counter, whichever grew more", unit = "count" }
ecc_sram_dbe_new_count = { type = "BIGINT", doc = "uncorrected SRAM errors, likewise", unit = "count" }
ecc_dram_sbe_new_count = { type = "BIGINT", doc = "corrected memory (DRAM) errors, likewise", unit = "count" }
ecc_dram_dbe_new_count = { type = "BIGINT", doc = "uncorrected memory (DRAM) errors, likewise", unit = "count" }
row_remap_new_count = { type = "BIGINT", doc = "rows remapped for uncorrectable errors", unit = "count" }
row_remap_correctable_new_count = { type = "BIGINT", doc = "rows remapped for correctable errors", unit = "count" }
retired_page_new_count = { type = "BIGINT", doc = "pages retired, for corrected and uncorrected errors; the parts that are known", unit = "count" }
nvlink_error_new_count = { type = "BIGINT", doc = "NVLink CRC, replay and recovery errors together; the parts that are known", unit = "count" }
nvlink_crc_new_count = { type = "BIGINT", doc = "NVLink CRC errors, flow control and data; the parts that are known (NVLink 4 and older)", unit = "count" }
nvlink_replay_new_count = { type = "BIGINT", doc = "NVLink retries (NVLink 4 and older)", unit = "count" }
nvlink_recovery_new_count = { type = "BIGINT", doc = "NVLink recoveries, of either generation", unit = "count" }
nvlink_recovery_failed_new_count = { type = "BIGINT", doc = "NVLink recoveries that failed (NVLink 5)", unit = "count" }
nvlink_effective_error_new_count = { type = "BIGINT", doc = "NVLink errors left after correction (NVLink 5)", unit = "count" }
nvlink_effective_ber_ratio = { type = "DOUBLE", doc = "highest NVLink bit error rate after correction (NVLink 5)", unit = "ratio" }
sm_elapsed_new_cycles = { type = "BIGINT", doc = "multiprocessor cycles that passed", unit = "cycles" }
tensor_active_new_cycles = { type = "BIGINT", doc = "cycles with a tensor pipe active; over sm_elapsed_new_cycles the exact share", unit = "cycles" }

[params.max_gap_s]
default = 90
most = 360
doc = "s; samples further apart do not hold on, and no increase is taken between them. Three times the 30 s at which dcgm-exporter collects."
[params.max_lag_s]
default = 60
doc = "s; a value on a page may be that much older than the scrape. Twice the 30 s at which dcgm-exporter collects."
[params.max_power_w]
default = 2100
doc = "w; no GPU draws more, where its limit is unknown. 1.5 times the 1400 W of a GB300."
*/
WITH counter AS (
    -- What counts up, under the names of the increases: t_ time, n_ counts, m_ counts that are put together.
    SELECT
        cluster, node, gpu_uuid, mig_instance, ts,
        coalesce(
            1.5 * coalesce(power_limit_w, power_limit_set_w, power_limit_default_w), getvariable('max_power_w')
        ) AS most_w,
        energy_j AS e_energy_used_j,
        COLUMNS('^(\w+_(violation|cap|boost|slowdown|brake)_s)$') AS 't_\1',
        COLUMNS('^pcie_(replay|correctable_error)_count$') AS 'n_pcie_\1_new_count',
        COLUMNS('^ecc_([sd]be)_volatile_count$') AS 'n_ecc_\1_new_count',
        COLUMNS('^ecc_([sd]be)_aggregate_count$') AS 'n_ecc_\1_aggregate_new_count',
        COLUMNS('^(ecc_[ds]ram_\w+_count)$') AS 'm_\1',
        row_remap_uncorrectable_count AS n_row_remap_new_count,
        row_remap_correctable_count AS n_row_remap_correctable_new_count,
        COLUMNS('^(retired_page_[sd]be_count)$') AS 'm_\1',
        COLUMNS('^(nvlink_(crc_flit|crc_data|rx)_error_count)$') AS 'm_\1',
        nvlink_replay_error_count AS n_nvlink_replay_new_count,
        COLUMNS('^(nvlink_recovery_(error|event)_count)$') AS 'm_\1',
        COLUMNS('^nvlink_(recovery_failed|effective_error)_count$') AS 'n_nvlink_\1_new_count',
        COLUMNS('^(sm_elapsed|tensor_active)_cycles$') AS 'n_\1_new_cycles'
    FROM gpu_sample
),
difference AS (
    -- To the last known value, across one sample without it; both no more than max_gap_s before.
    SELECT
        cluster, node, gpu_uuid, mig_instance, ts, most_w,
        epoch(ts - if(
            ts - lag(ts, 2) OVER gpu <= to_seconds(getvariable('max_gap_s')),
            lag(ts, 2) OVER gpu, lag(ts) OVER gpu
        )) + getvariable('max_lag_s') AS most_s,
        COLUMNS('^[etnm]_') - coalesce(
            if(ts - lag(ts) OVER gpu <= to_seconds(getvariable('max_gap_s')), lag(COLUMNS('^[etnm]_')) OVER gpu, NULL),
            if(
                ts - lag(ts, 2) OVER gpu <= to_seconds(getvariable('max_gap_s')),
                lag(COLUMNS('^[etnm]_'), 2) OVER gpu, NULL
            )
        )
    FROM counter
    WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid, mig_instance ORDER BY ts)
),
increase AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, ts,
        least(e_energy_used_j, t_power_violation_s, t_sw_power_cap_s, n_pcie_replay_new_count, n_ecc_sbe_new_count)
            < 0 AS fell,
        if(COLUMNS('^[nm]_') >= 0, COLUMNS('^[nm]_'), NULL),
        if(COLUMNS('^t_') BETWEEN 0 AND most_s, COLUMNS('^t_'), NULL),
        if(COLUMNS('^e_') BETWEEN 0 AND most_s * most_w, COLUMNS('^e_'), NULL)
    FROM difference
),
held AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, gpu_index, gpu_model, mig_profile, ts, throttle_mask,
        CASE
            WHEN ts - lag(ts) OVER gpu <= to_seconds(getvariable('max_gap_s'))
            THEN least(ts + (ts - lag(ts) OVER gpu) * 1.5, lead(ts) OVER gpu)
            ELSE ts
        END AS until_ts
    FROM gpu_sample
    WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid, mig_instance ORDER BY ts)
),
part AS (
    -- The seconds of each minute for which each sample holds.
    SELECT
        *,
        greatest(0, epoch(least(until_ts, minute_ts + INTERVAL 1 MINUTE) - greatest(ts, minute_ts))) AS held_s
    FROM (
        SELECT
            *,
            unnest(generate_series(
                date_trunc('minute', ts),
                greatest(date_trunc('minute', ts), until_ts - INTERVAL 1 MICROSECOND),
                INTERVAL 1 MINUTE
            )) AS minute_ts
        FROM held
    )
),
minute AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, minute_ts,
        arg_max(COLUMNS('^(gpu_index|gpu_model|mig_profile)$'), ts) AS '\1',
        round(sum(held_s) / 60, 6) AS coverage_ratio,
        round(sum(held_s) FILTER (throttle_mask IS NOT NULL), 6) AS mask_known_s,
        round(sum(held_s * sign(throttle_mask & 1)), 6) AS mask_idle_s,
        round(sum(held_s * sign(throttle_mask & 2)), 6) AS mask_app_clocks_s,
        round(sum(held_s * sign(throttle_mask & 4)), 6) AS mask_sw_power_cap_s,
        round(sum(held_s * ((throttle_mask & 200) = 8)::INTEGER), 6) AS mask_hw_slowdown_s,
        round(sum(held_s * sign(throttle_mask & 16)), 6) AS mask_sync_boost_s,
        round(sum(held_s * sign(throttle_mask & 32)), 6) AS mask_sw_thermal_s,
        round(sum(held_s * sign(throttle_mask & 64)), 6) AS mask_hw_thermal_s,
        round(sum(held_s * sign(throttle_mask & 96)), 6) AS mask_thermal_s,
        round(sum(held_s * sign(throttle_mask & 128)), 6) AS mask_hw_power_brake_s,
        round(sum(held_s * sign(throttle_mask & 256)), 6) AS mask_display_s
    FROM part
    GROUP BY ALL
),
reading AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, date_trunc('minute', ts) AS minute_ts,
        count(*) AS sample_count,
        count(tensor_active_ratio) AS profiled_sample_count,
        sum(len(quality))::BIGINT AS flaw_count,
        avg(COLUMNS('^((gpu_busy|memory_busy|sm_occupancy|(gr_engine|sm|tensor|dram|fp64|fp32|fp16)_active)_ratio)$'))
            AS '\1',
        avg(COLUMNS('^((sm|memory)_clock_mhz|power_w|(gpu|memory)_temp_c)$')) AS '\1',
        avg(COLUMNS('^((pcie|nvlink)_[tr]x_bytes_per_s|nvlink_bandwidth_bytes_per_s)$')) AS '\1',
        min(COLUMNS('^(sm_clock_app_mhz|power_limit_w|power_limit_set_w|gpu_temp_slowdown_c)$')) AS '\1',
        max(COLUMNS('^((sm|memory)_clock_max_mhz|power_limit_default_w|pcie_link_(gen|width)_max)$')) AS '\1',
        min(COLUMNS('^((sm|memory)_clock)_mhz$')) AS '\1_min_mhz',
        min(COLUMNS('^(pstate|pcie_link_gen|pcie_link_width)$')) AS '\1_min',
        min(gpu_temp_margin_c) AS gpu_temp_margin_min_c,
        max(COLUMNS('^(power|gpu_temp|memory_temp)_([wc])$')) AS '\1_max_\2',
        max(pcie_link_gen) AS pcie_link_gen_best,
        max(fb_used_bytes) AS fb_used_max_bytes,
        max(nvlink_effective_ber_ratio) AS nvlink_effective_ber_ratio,
        bit_or(throttle_mask) AS throttle_mask,
        arg_max(xid_code, ts) AS xid_code
    FROM gpu_sample
    GROUP BY ALL
),
summed AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, date_trunc('minute', ts) AS minute_ts,
        count(*) FILTER (fell) AS counter_reset_count,
        sum(COLUMNS('^[et]_(.*)$')) AS '\1',
        sum(COLUMNS('^n_(.*)$'))::BIGINT AS '\1',
        sum(COLUMNS('^(m_.*)$'))::BIGINT AS '\1'
    FROM increase
    GROUP BY ALL
),
counted AS (
    -- All but m_; of SRAM and DRAM whichever of the volatile and the lifetime counter grew more.
    SELECT
        COLUMNS('^([^m]|m[^_])'),
        greatest(m_ecc_sram_sbe_volatile_count, m_ecc_sram_sbe_aggregate_count) AS ecc_sram_sbe_new_count,
        greatest(m_ecc_sram_dbe_volatile_count, m_ecc_sram_dbe_aggregate_count) AS ecc_sram_dbe_new_count,
        greatest(m_ecc_dram_sbe_volatile_count, m_ecc_dram_sbe_aggregate_count) AS ecc_dram_sbe_new_count,
        greatest(m_ecc_dram_dbe_volatile_count, m_ecc_dram_dbe_aggregate_count) AS ecc_dram_dbe_new_count,
        list_sum([m_retired_page_sbe_count, m_retired_page_dbe_count])::BIGINT AS retired_page_new_count,
        list_sum([m_nvlink_crc_flit_error_count, m_nvlink_crc_data_error_count])::BIGINT AS nvlink_crc_new_count,
        list_sum([m_nvlink_recovery_error_count, m_nvlink_recovery_event_count])::BIGINT
            AS nvlink_recovery_new_count,
        list_sum([
            m_nvlink_crc_flit_error_count, m_nvlink_crc_data_error_count, nvlink_replay_new_count,
            m_nvlink_recovery_error_count, m_nvlink_rx_error_count
        ])::BIGINT AS nvlink_error_new_count
    FROM summed
)
SELECT * REPLACE (
    coalesce(sample_count, 0) AS sample_count,
    coalesce(profiled_sample_count, 0) AS profiled_sample_count,
    coalesce(flaw_count, 0) AS flaw_count,
    coalesce(counter_reset_count, 0) AS counter_reset_count
)
FROM minute
LEFT JOIN reading USING (cluster, node, gpu_uuid, mig_instance, minute_ts)
LEFT JOIN counted USING (cluster, node, gpu_uuid, mig_instance, minute_ts)
