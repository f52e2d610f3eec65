/*
doc = """
Memory health of each GPU per day: ECC errors, remapped rows, spare rows, retired pages. Levels are the day's
last known value; increases count within the day from gpu_minute. NULL: the part or the exporter does not have
it, which is never a 0.

Volatile counters restart with the driver, lifetime ones (aggregate) do not; a day's errors are in both where
both are exported. ecc_..._new_count is the largest of the two and of what SRAM and DRAM give together, so a
restart of the one hides nothing that another saw.
"""
grain = ["cluster", "node", "gpu_uuid", "day_ts"]
time = "day_ts"
sort = ["cluster", "node", "gpu_uuid"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host name as the exporter gives it" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
gpu_index = { type = "INTEGER", doc = "the driver's index on that node" }
gpu_model = { type = "VARCHAR", doc = "model name as the driver gives it" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day" }
coverage_ratio = { type = "DOUBLE", doc = "share of the day for which a sample holds", unit = "ratio" }
counter_reset_count = { type = "BIGINT", doc = "times a counter was below its last value (driver reload, GPU reset)", unit = "count" }
ecc_sbe_new_count = { type = "BIGINT", doc = "corrected ECC errors", unit = "count" }
ecc_sbe_most_per_hour_count = { type = "BIGINT", doc = "most corrected errors in an hour", unit = "count" }
ecc_sbe_high_hour_count = { type = "BIGINT", doc = "hours with more than max_sbe_per_hour", unit = "count" }
ecc_sbe_high_start_ts = { type = "TIMESTAMP", doc = "start of the first such hour" }
ecc_sbe_high_end_ts = { type = "TIMESTAMP", doc = "end of the last" }
ecc_dbe_new_count = { type = "BIGINT", doc = "uncorrected ECC errors", unit = "count" }
ecc_sram_sbe_new_count = { type = "BIGINT", doc = "corrected SRAM errors", unit = "count" }
ecc_sram_dbe_new_count = { type = "BIGINT", doc = "uncorrected SRAM errors", unit = "count" }
ecc_dram_sbe_new_count = { type = "BIGINT", doc = "corrected memory (DRAM) errors", unit = "count" }
ecc_dram_dbe_new_count = { type = "BIGINT", doc = "uncorrected memory (DRAM) errors", unit = "count" }
ecc_dbe_first_ts = { type = "TIMESTAMP", doc = "end of the minute of the day's first uncorrected error" }
ecc_dbe_last_ts = { type = "TIMESTAMP", doc = "end of the minute of its last" }
ecc_sbe_volatile_count = { type = "BIGINT", doc = "corrected errors since the driver was loaded", unit = "count" }
ecc_dbe_volatile_count = { type = "BIGINT", doc = "uncorrected errors since the driver was loaded", unit = "count" }
ecc_sbe_aggregate_count = { type = "BIGINT", doc = "corrected errors over the GPU's life", unit = "count" }
ecc_dbe_aggregate_count = { type = "BIGINT", doc = "uncorrected errors over the GPU's life", unit = "count" }
sram_threshold_exceeded = { type = "INTEGER", doc = "1: uncorrected SRAM errors passed the replacement threshold", unit = "flag" }
sram_threshold_exceeded_ts = { type = "TIMESTAMP", doc = "first sample of the day that says so" }
memory_unrepairable = { type = "INTEGER", doc = "1: memory can no longer be repaired", unit = "flag" }
memory_unrepairable_ts = { type = "TIMESTAMP", doc = "first sample of the day that says so" }
row_remap_failed = { type = "INTEGER", doc = "1: a row could not be remapped", unit = "flag" }
row_remap_failed_ts = { type = "TIMESTAMP", doc = "first sample of the day that says so" }
row_remap_pending = { type = "INTEGER", doc = "1: a remap waits for a reset, at the day's last sample", unit = "flag" }
row_remap_pending_start_ts = { type = "TIMESTAMP", doc = "first sample of the day with a remap pending" }
row_remap_pending_end_ts = { type = "TIMESTAMP", doc = "last such sample" }
row_remap_uncorrectable_count = { type = "BIGINT", doc = "rows remapped for uncorrectable errors, over the GPU's life", unit = "count" }
row_remap_correctable_count = { type = "BIGINT", doc = "rows remapped for correctable errors, over the GPU's life", unit = "count" }
row_remap_new_count = { type = "BIGINT", doc = "rows remapped that day, of both kinds; the parts that are known", unit = "count" }
row_remap_bank_full_count = { type = "BIGINT", doc = "banks with all spare rows left", unit = "count" }
row_remap_bank_partial_count = { type = "BIGINT", doc = "banks with many or some spare rows left", unit = "count" }
row_remap_bank_low_count = { type = "BIGINT", doc = "banks with few spare rows left", unit = "count" }
row_remap_bank_none_count = { type = "BIGINT", doc = "banks without spare rows", unit = "count" }
row_remap_bank_low_new_count = { type = "BIGINT", doc = "by how much banks with few or no spare rows grew between the day's first and last sample", unit = "count" }
row_remap_bank_none_ts = { type = "TIMESTAMP", doc = "first sample of the day with a bank without spare rows" }
retired_page_sbe_count = { type = "BIGINT", doc = "pages retired for corrected errors, over the GPU's life (before Ampere)", unit = "count" }
retired_page_dbe_count = { type = "BIGINT", doc = "pages retired for uncorrected errors, over the GPU's life (before Ampere)", unit = "count" }
retired_page_pending_count = { type = "BIGINT", doc = "pages that wait for retirement", unit = "count" }
retired_page_new_count = { type = "BIGINT", doc = "pages retired that day", unit = "count" }

[params.max_sbe_per_hour]
default = 10
doc = "count; the rate limit of corrected errors in DCGM's health checks. Lifetime limits in use (5e7, 2e7, 1e4) differ by three orders of magnitude and say nothing of today."
*/
WITH hour AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('hour', minute_ts) AS hour_ts,
        arg_max(gpu_index, minute_ts) AS gpu_index,
        arg_max(gpu_model, minute_ts) AS gpu_model,
        sum(coverage_ratio) AS minutes,
        sum(counter_reset_count)::BIGINT AS counter_reset_count,
        greatest(
            sum(ecc_sbe_new_count), sum(ecc_sbe_aggregate_new_count),
            list_sum([sum(ecc_sram_sbe_new_count), sum(ecc_dram_sbe_new_count)])
        )::BIGINT AS ecc_sbe_new_count,
        greatest(
            sum(ecc_dbe_new_count), sum(ecc_dbe_aggregate_new_count),
            list_sum([sum(ecc_sram_dbe_new_count), sum(ecc_dram_dbe_new_count)])
        )::BIGINT AS ecc_dbe_new_count,
        sum(ecc_sram_sbe_new_count)::BIGINT AS ecc_sram_sbe_new_count,
        sum(ecc_sram_dbe_new_count)::BIGINT AS ecc_sram_dbe_new_count,
        sum(ecc_dram_sbe_new_count)::BIGINT AS ecc_dram_sbe_new_count,
        sum(ecc_dram_dbe_new_count)::BIGINT AS ecc_dram_dbe_new_count,
        min(minute_ts) FILTER (dbe_count > 0) + INTERVAL 1 MINUTE AS ecc_dbe_first_ts,
        max(minute_ts) FILTER (dbe_count > 0) + INTERVAL 1 MINUTE AS ecc_dbe_last_ts,
        list_sum([sum(row_remap_new_count), sum(row_remap_correctable_new_count)])::BIGINT AS row_remap_new_count,
        sum(retired_page_new_count)::BIGINT AS retired_page_new_count
    FROM (
        SELECT
            *,
            greatest(
                ecc_dbe_new_count, ecc_dbe_aggregate_new_count, ecc_sram_dbe_new_count, ecc_dram_dbe_new_count
            ) AS dbe_count
        FROM gpu_minute
        WHERE mig_instance = ''
    )
    GROUP BY ALL
),
increase AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', hour_ts)::TIMESTAMP AS day_ts,
        arg_max(gpu_index, hour_ts) AS gpu_index,
        arg_max(gpu_model, hour_ts) AS gpu_model,
        round(sum(minutes) / 1440, 6) AS coverage_ratio,
        sum(counter_reset_count)::BIGINT AS counter_reset_count,
        sum(ecc_sbe_new_count)::BIGINT AS ecc_sbe_new_count,
        max(ecc_sbe_new_count) AS ecc_sbe_most_per_hour_count,
        sum((ecc_sbe_new_count > getvariable('max_sbe_per_hour'))::INTEGER)::BIGINT AS ecc_sbe_high_hour_count,
        min(hour_ts) FILTER (ecc_sbe_new_count > getvariable('max_sbe_per_hour')) AS ecc_sbe_high_start_ts,
        max(hour_ts) FILTER (ecc_sbe_new_count > getvariable('max_sbe_per_hour'))
            + INTERVAL 1 HOUR AS ecc_sbe_high_end_ts,
        sum(ecc_dbe_new_count)::BIGINT AS ecc_dbe_new_count,
        sum(ecc_sram_sbe_new_count)::BIGINT AS ecc_sram_sbe_new_count,
        sum(ecc_sram_dbe_new_count)::BIGINT AS ecc_sram_dbe_new_count,
        sum(ecc_dram_sbe_new_count)::BIGINT AS ecc_dram_sbe_new_count,
        sum(ecc_dram_dbe_new_count)::BIGINT AS ecc_dram_dbe_new_count,
        min(ecc_dbe_first_ts) AS ecc_dbe_first_ts,
        max(ecc_dbe_last_ts) AS ecc_dbe_last_ts,
        sum(row_remap_new_count)::BIGINT AS row_remap_new_count,
        sum(retired_page_new_count)::BIGINT AS retired_page_new_count
    FROM hour
    GROUP BY ALL
),
level AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', ts)::TIMESTAMP AS day_ts,
        arg_max(ecc_sbe_volatile_count, ts) AS ecc_sbe_volatile_count,
        arg_max(ecc_dbe_volatile_count, ts) AS ecc_dbe_volatile_count,
        arg_max(ecc_sbe_aggregate_count, ts) AS ecc_sbe_aggregate_count,
        arg_max(ecc_dbe_aggregate_count, ts) AS ecc_dbe_aggregate_count,
        arg_max(sram_threshold_exceeded, ts) AS sram_threshold_exceeded,
        min(ts) FILTER (sram_threshold_exceeded = 1) AS sram_threshold_exceeded_ts,
        arg_max(memory_unrepairable, ts) AS memory_unrepairable,
        min(ts) FILTER (memory_unrepairable = 1) AS memory_unrepairable_ts,
        arg_max(row_remap_failed, ts) AS row_remap_failed,
        min(ts) FILTER (row_remap_failed = 1) AS row_remap_failed_ts,
        arg_max(row_remap_pending, ts) AS row_remap_pending,
        min(ts) FILTER (row_remap_pending = 1) AS row_remap_pending_start_ts,
        max(ts) FILTER (row_remap_pending = 1) AS row_remap_pending_end_ts,
        arg_max(row_remap_uncorrectable_count, ts) AS row_remap_uncorrectable_count,
        arg_max(row_remap_correctable_count, ts) AS row_remap_correctable_count,
        arg_max(row_remap_bank_max_count, ts) AS row_remap_bank_full_count,
        arg_max(row_remap_bank_high_count + row_remap_bank_partial_count, ts) AS row_remap_bank_partial_count,
        arg_max(row_remap_bank_low_count, ts) AS row_remap_bank_low_count,
        arg_max(row_remap_bank_none_count, ts) AS row_remap_bank_none_count,
        arg_max(row_remap_bank_low_count + row_remap_bank_none_count, ts)
            - arg_min(row_remap_bank_low_count + row_remap_bank_none_count, ts) AS row_remap_bank_low_new_count,
        min(ts) FILTER (row_remap_bank_none_count > 0) AS row_remap_bank_none_ts,
        arg_max(retired_page_sbe_count, ts) AS retired_page_sbe_count,
        arg_max(retired_page_dbe_count, ts) AS retired_page_dbe_count,
        arg_max(retired_page_pending_count, ts) AS retired_page_pending_count
    FROM gpu_sample
    WHERE mig_instance = ''
    GROUP BY ALL
)
SELECT
    cluster, node, gpu_uuid, gpu_index, gpu_model, day_ts, coverage_ratio,
    counter_reset_count,
    ecc_sbe_new_count, ecc_sbe_most_per_hour_count,
    ecc_sbe_high_hour_count, ecc_sbe_high_start_ts, ecc_sbe_high_end_ts,
    ecc_dbe_new_count,
    ecc_sram_sbe_new_count, ecc_sram_dbe_new_count, ecc_dram_sbe_new_count, ecc_dram_dbe_new_count,
    ecc_dbe_first_ts, ecc_dbe_last_ts,
    ecc_sbe_volatile_count, ecc_dbe_volatile_count, ecc_sbe_aggregate_count, ecc_dbe_aggregate_count,
    sram_threshold_exceeded, sram_threshold_exceeded_ts, memory_unrepairable, memory_unrepairable_ts,
    row_remap_failed, row_remap_failed_ts,
    row_remap_pending, row_remap_pending_start_ts, row_remap_pending_end_ts,
    row_remap_uncorrectable_count, row_remap_correctable_count, row_remap_new_count,
    row_remap_bank_full_count, row_remap_bank_partial_count,
    row_remap_bank_low_count, row_remap_bank_none_count, row_remap_bank_low_new_count, row_remap_bank_none_ts,
    retired_page_sbe_count, retired_page_dbe_count, retired_page_pending_count, retired_page_new_count
FROM increase
LEFT JOIN level USING (cluster, node, gpu_uuid, day_ts)
