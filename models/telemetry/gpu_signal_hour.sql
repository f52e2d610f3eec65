/*
doc = """
Quality of telemetry: per GPU (or MIG instance), signal and hour, what became of each sample that was
to be expected. The counts from ok_count to absent_count add up to expected_count.

A signal is expected as often as the GPU of the node that reported it most often did (as a value or a
flaw), so a GPU that vanishes from the pages of a node has absent samples. A signal that only other
nodes' GPUs of the same model report is expected at each of the GPU's own scrapes. Codes that stay
(xid_code, nvlink_error_code, recovery_action) are expected where they are reported: exporters leave
them out while there is none. GPUs that report nothing in the hour have no rows: gpu_presence_hour.

Stale: nothing of the GPU, not even its energy or cycle counter, has changed for frozen_s; or
Prometheus marks the end of the series there. A 0 in each sample of an hour in which the GPU was busy
counts as unsupported, for signals of which that is impossible (DCGM prints 0 for a sensor or a
profiling field that it cannot read).
"""
grain = ["cluster", "node", "gpu_uuid", "mig_instance", "signal", "hour_ts"]
time = "hour_ts"
lookback = "1h"
sort = ["signal", "node", "gpu_uuid", "mig_instance", "hour_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name as the exporter gives it" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
mig_instance = { type = "VARCHAR", doc = "GPU instance id under MIG; empty for the whole GPU" }
signal = { type = "VARCHAR", doc = "column of gpu_sample" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
gpu_model = { type = "VARCHAR", doc = "model name as the driver gives it" }
quality = { type = "VARCHAR", doc = "what most of the expected samples are: ok, blank, unsupported, not_permitted, stale, out_of_range or absent; among equals the worse, in that order" }
expected_count = { type = "BIGINT", doc = "samples to be expected", unit = "count" }
ok_count = { type = "BIGINT", doc = "values", unit = "count" }
blank_count = { type = "BIGINT", doc = "no value given: blank, not_found, sentinel, not_a_number", unit = "count" }
unsupported_count = { type = "BIGINT", doc = "the part does not have it: not_supported, or always 0 on a busy GPU", unit = "count" }
not_permitted_count = { type = "BIGINT", doc = "the exporter may not read it", unit = "count" }
stale_count = { type = "BIGINT", doc = "old values shown again, or the end of the series", unit = "count" }
out_of_range_count = { type = "BIGINT", doc = "physically impossible or infinite", unit = "count" }
absent_count = { type = "BIGINT", doc = "expected and not there", unit = "count" }
reset_count = { type = "BIGINT", doc = "values of a counter below the one before: driver reload, GPU reset. They are ok", unit = "count" }
duplicate_count = { type = "BIGINT", doc = "cells given two values in one scrape, of which the first stays. They are ok", unit = "count" }
stale_start_ts = { type = "TIMESTAMP", doc = "first sample that is known to be frozen" }
stale_end_ts = { type = "TIMESTAMP", doc = "last sample that is known to be frozen" }

[params.frozen_s]
default = 600
most = 3000
doc = "s; a GPU of which nothing changes for so long is frozen. Own choice: 20 times the 30 s at which dcgm-exporter collects; an idle GPU's energy counter (mJ) moves in each of them."

[params.busy_ratio]
default = 0.5
doc = "gpu_busy_ratio from which a GPU counts as busy. Own choice."

[params.busy_sample_count]
default = 10
doc = "busy samples in the hour from which a constant 0 counts as unsupported. Own choice."
*/
WITH compared AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, ts,
        -- Only a counter that must move proves that the GPU was not just idle.
        energy_j IS NOT NULL OR sm_elapsed_cycles IS NOT NULL AS has_clockwork,
        reading IS DISTINCT FROM lag(reading) OVER gpu AS is_change
    FROM (
        SELECT
            cluster, node, gpu_uuid, mig_instance, ts, energy_j, sm_elapsed_cycles,
            hash(*COLUMNS(* EXCLUDE (
                cluster, node, gpu_uuid, gpu_index, mig_instance, ts, gpu_model, mig_profile,
                quality, file_id, line_no
            ))) AS reading
        FROM gpu_sample
    )
    WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid, mig_instance ORDER BY ts)
),
frozen AS (
    SELECT cluster, node, gpu_uuid, mig_instance, ts
    FROM compared
    QUALIFY has_clockwork AND ts - max(if(is_change, ts, NULL)) OVER (
        PARTITION BY cluster, node, gpu_uuid, mig_instance ORDER BY ts
    ) >= to_seconds(getvariable('frozen_s'))
),
counted AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, date_trunc('hour', ts)::TIMESTAMP AS hour_ts,
        arg_max(gpu_model, ts) AS gpu_model,
        count(*) AS sample_count,
        count(*) FILTER (gpu_busy_ratio >= getvariable('busy_ratio')) AS busy_count,
        {
            'value_count': count(COLUMNS(* EXCLUDE (
                cluster, node, gpu_uuid, gpu_index, mig_instance, ts, gpu_model, mig_profile,
                quality, file_id, line_no
            ))),
            'is_zero': max(abs(COLUMNS(* EXCLUDE (
                cluster, node, gpu_uuid, gpu_index, mig_instance, ts, gpu_model, mig_profile,
                quality, file_id, line_no
            )))) = 0
        }
    FROM gpu_sample
    GROUP BY ALL
),
held AS (
    -- Values in frozen samples: few, so only these are looked at a second time.
    SELECT
        cluster, node, gpu_uuid, mig_instance, date_trunc('hour', ts)::TIMESTAMP AS hour_ts,
        min(ts) AS stale_start_ts,
        max(ts) AS stale_end_ts,
        count(COLUMNS(* EXCLUDE (
            cluster, node, gpu_uuid, gpu_index, mig_instance, ts, gpu_model, mig_profile, quality,
            file_id, line_no
        )))
    FROM gpu_sample
    SEMI JOIN frozen USING (cluster, node, gpu_uuid, mig_instance, ts)
    GROUP BY ALL
),
held_signal AS (
    SELECT * FROM (
        UNPIVOT held ON COLUMNS(* EXCLUDE (
            cluster, node, gpu_uuid, mig_instance, hour_ts, stale_start_ts, stale_end_ts
        )) INTO NAME signal VALUE frozen_count
    )
    WHERE frozen_count > 0
),
gpu_hour AS (
    SELECT
        * EXCLUDE (signal, value),
        signal,
        value.value_count AS value_count,
        coalesce(value.is_zero, false)
        AND busy_count >= getvariable('busy_sample_count')
        AND signal IN (
            'sm_active_ratio', 'sm_occupancy_ratio', 'gr_engine_active_ratio', 'power_w',
            'power_instant_w', 'gpu_temp_c', 'sm_clock_mhz', 'memory_clock_mhz', 'fb_used_bytes'
        ) AS is_impossible,
        bool_or(mig_instance <> '') OVER (PARTITION BY cluster, node, gpu_uuid, hour_ts) AS is_split
    FROM (
        UNPIVOT counted ON COLUMNS(* EXCLUDE (
            cluster, node, gpu_uuid, mig_instance, hour_ts, gpu_model, sample_count, busy_count
        )) INTO NAME signal VALUE value
    )
),
note AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, hour_ts, signal,
        count_if(reason = 'not_supported') AS unsupported_count,
        count_if(reason = 'not_permitted') AS not_permitted_count,
        count_if(reason = 'stale') AS ended_count,
        count_if(reason IN ('out_of_range', 'infinite')) AS out_of_range_count,
        count_if(reason = 'conflict') AS duplicate_count,
        count_if(reason NOT IN (
            'not_supported', 'not_permitted', 'stale', 'out_of_range', 'infinite', 'conflict'
        )) AS blank_count
    FROM (
        SELECT
            * EXCLUDE (mark), split_part(mark, ':', 1) AS signal, split_part(mark, ':', 2) AS reason
        FROM (
            SELECT
                cluster, node, gpu_uuid, mig_instance,
                date_trunc('hour', ts)::TIMESTAMP AS hour_ts,
                unnest(quality) AS mark
            FROM gpu_sample
        )
    )
    GROUP BY ALL
),
fall AS (
    SELECT
        cluster, node, gpu_uuid, mig_instance, hour_ts,
        count_if(COLUMNS(* EXCLUDE (cluster, node, gpu_uuid, mig_instance, hour_ts)))
    FROM (
        SELECT
            cluster, node, gpu_uuid, mig_instance, date_trunc('hour', ts)::TIMESTAMP AS hour_ts,
            COLUMNS('^(energy_j|pcie_replay_count|pcie_correctable_error_count|pcie_tx_bytes|pcie_rx_bytes|sm_elapsed_cycles|sm_active_cycles|tensor_active_cycles|tensor_dmma_active_cycles|tensor_hmma_active_cycles|tensor_imma_active_cycles|tensor_dfma_active_cycles|int_active_cycles|fp64_active_cycles|fp32_active_cycles|fp16_active_cycles|power_violation_s|thermal_violation_s|sync_boost_violation_s|board_limit_violation_s|low_util_violation_s|reliability_violation_s|app_clock_violation_s|base_clock_violation_s|sw_power_cap_s|sync_boost_s|sw_thermal_slowdown_s|hw_thermal_slowdown_s|hw_power_brake_s|ecc_sbe_volatile_count|ecc_dbe_volatile_count|ecc_sbe_aggregate_count|ecc_dbe_aggregate_count|retired_page_sbe_count|retired_page_dbe_count|row_remap_uncorrectable_count|row_remap_correctable_count|ecc_sram_sbe_volatile_count|ecc_sram_dbe_volatile_count|ecc_sram_sbe_aggregate_count|ecc_sram_dbe_aggregate_count|ecc_dram_sbe_volatile_count|ecc_dram_dbe_volatile_count|ecc_dram_sbe_aggregate_count|ecc_dram_dbe_aggregate_count|nvlink_crc_flit_error_count|nvlink_crc_data_error_count|nvlink_replay_error_count|nvlink_recovery_error_count|nvlink_rx_error_count|nvlink_recovery_failed_count|nvlink_recovery_event_count|nvlink_tx_bytes|nvlink_rx_bytes|nvlink_rx_malformed_count|nvlink_rx_dropped_count|nvlink_rx_remote_error_count|nvlink_rx_general_error_count|nvlink_integrity_error_count|nvlink_tx_discard_count|nvlink_recovery_successful_count|nvlink_symbol_error_count|nvlink_effective_error_count|c2c_link_error_count|c2c_link_replay_count)$')
            < lag(COLUMNS('^(energy_j|pcie_replay_count|pcie_correctable_error_count|pcie_tx_bytes|pcie_rx_bytes|sm_elapsed_cycles|sm_active_cycles|tensor_active_cycles|tensor_dmma_active_cycles|tensor_hmma_active_cycles|tensor_imma_active_cycles|tensor_dfma_active_cycles|int_active_cycles|fp64_active_cycles|fp32_active_cycles|fp16_active_cycles|power_violation_s|thermal_violation_s|sync_boost_violation_s|board_limit_violation_s|low_util_violation_s|reliability_violation_s|app_clock_violation_s|base_clock_violation_s|sw_power_cap_s|sync_boost_s|sw_thermal_slowdown_s|hw_thermal_slowdown_s|hw_power_brake_s|ecc_sbe_volatile_count|ecc_dbe_volatile_count|ecc_sbe_aggregate_count|ecc_dbe_aggregate_count|retired_page_sbe_count|retired_page_dbe_count|row_remap_uncorrectable_count|row_remap_correctable_count|ecc_sram_sbe_volatile_count|ecc_sram_dbe_volatile_count|ecc_sram_sbe_aggregate_count|ecc_sram_dbe_aggregate_count|ecc_dram_sbe_volatile_count|ecc_dram_dbe_volatile_count|ecc_dram_sbe_aggregate_count|ecc_dram_dbe_aggregate_count|nvlink_crc_flit_error_count|nvlink_crc_data_error_count|nvlink_replay_error_count|nvlink_recovery_error_count|nvlink_rx_error_count|nvlink_recovery_failed_count|nvlink_recovery_event_count|nvlink_tx_bytes|nvlink_rx_bytes|nvlink_rx_malformed_count|nvlink_rx_dropped_count|nvlink_rx_remote_error_count|nvlink_rx_general_error_count|nvlink_integrity_error_count|nvlink_tx_discard_count|nvlink_recovery_successful_count|nvlink_symbol_error_count|nvlink_effective_error_count|c2c_link_error_count|c2c_link_replay_count)$'))
                OVER (PARTITION BY cluster, node, gpu_uuid, mig_instance ORDER BY ts)
        FROM gpu_sample
    )
    GROUP BY ALL
),
reset AS (
    SELECT * FROM (
        UNPIVOT fall ON COLUMNS(* EXCLUDE (cluster, node, gpu_uuid, mig_instance, hour_ts))
        INTO NAME signal VALUE reset_count
    )
),
judged AS (
    SELECT
        gpu_hour.*, stale_start_ts, stale_end_ts,
        if(is_impossible, 0, value_count - coalesce(frozen_count, 0)) AS ok_count,
        coalesce(blank_count, 0) AS blank_count,
        coalesce(unsupported_count, 0)
        + if(is_impossible, value_count - coalesce(frozen_count, 0), 0) AS unsupported_count,
        coalesce(not_permitted_count, 0) AS not_permitted_count,
        coalesce(frozen_count, 0) + coalesce(ended_count, 0) AS stale_count,
        coalesce(out_of_range_count, 0) AS out_of_range_count,
        coalesce(reset_count, 0) AS reset_count,
        coalesce(duplicate_count, 0) AS duplicate_count
    FROM gpu_hour
    LEFT JOIN held_signal USING (cluster, node, gpu_uuid, mig_instance, hour_ts, signal)
    LEFT JOIN note USING (cluster, node, gpu_uuid, mig_instance, hour_ts, signal)
    LEFT JOIN reset USING (cluster, node, gpu_uuid, mig_instance, hour_ts, signal)
),
reported AS (
    SELECT
        *,
        ok_count + blank_count + unsupported_count + not_permitted_count + stale_count
        + out_of_range_count AS reported_count
    FROM judged
),
expected AS (
    SELECT
        *,
        CASE
            WHEN signal IN ('xid_code', 'nvlink_error_code', 'recovery_action') THEN reported_count
            WHEN max(reported_count) OVER node > 0 THEN max(reported_count) OVER node
            WHEN max(reported_count) OVER sku > 0 THEN sample_count
            ELSE 0
        END AS expected_count
    FROM reported
    WHERE reported_count > 0 OR NOT is_split
    WINDOW
        node AS (PARTITION BY cluster, node, hour_ts, signal, mig_instance <> ''),
        sku AS (PARTITION BY cluster, gpu_model, hour_ts, signal, mig_instance <> '')
),
closed AS (
    SELECT *, expected_count - reported_count AS absent_count
    FROM expected
    WHERE expected_count > 0
)
SELECT
    cluster, node, gpu_uuid, mig_instance, signal, hour_ts, gpu_model,
    CASE greatest(
        ok_count, blank_count, unsupported_count, not_permitted_count, stale_count,
        out_of_range_count, absent_count
    )
        WHEN absent_count THEN 'absent'
        WHEN out_of_range_count THEN 'out_of_range'
        WHEN stale_count THEN 'stale'
        WHEN not_permitted_count THEN 'not_permitted'
        WHEN unsupported_count THEN 'unsupported'
        WHEN blank_count THEN 'blank'
        ELSE 'ok'
    END AS quality,
    expected_count::BIGINT AS expected_count,
    ok_count::BIGINT AS ok_count,
    blank_count::BIGINT AS blank_count,
    unsupported_count::BIGINT AS unsupported_count,
    not_permitted_count::BIGINT AS not_permitted_count,
    stale_count::BIGINT AS stale_count,
    out_of_range_count::BIGINT AS out_of_range_count,
    absent_count::BIGINT AS absent_count,
    reset_count::BIGINT AS reset_count,
    duplicate_count::BIGINT AS duplicate_count,
    stale_start_ts, stale_end_ts
FROM closed
