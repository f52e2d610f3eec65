/*
title = "A GPU's memory repair has failed, waits for a reset, or runs out of spares"
domain = "performance"
kind = "memory_errors"
severity = "high"
reviewed = "2026-11-30"

flags = """
`critical`: a row that could not be remapped; before Ampere, 63 retired pages or more, DCGM's limit. `high`: a
memory bank without spare rows, 512 rows or more remapped for uncorrectable errors (DCGM warns), or 16 pages
or more retired for uncorrected errors. `medium`: a remap or a retired page that waits for a reset. One
finding per GPU, reported on the day a condition begins.
"""
why = """
Remapping repairs memory until the bank's spare rows are used up; after that the next uncorrectable error
stays. A pending remap is not yet a repair: the bad row is in use until the GPU is reset.
"""
looks_like = """
Rows that were remapped long ago: a lifetime count above 0 is normal and is not flagged. XID 63 (remap
recorded) is the repair at work. A pending remap disappears at the next reset, as it should.
"""
misses = """
Banks running low (gpu_memory_health_day.row_remap_bank_low_new_count): growth comes before failure, but no
published rate says when. Exporters without these fields: row_remap_pending and bank counts are not in
dcgm-exporter's default. What changed while nothing was recorded for more than seven days is reported as new.
"""
todo = """
Failed, or pages at the limit: replace the GPU. Pending: drain at the next idle moment and reset. No spares:
plan the replacement, keep long jobs off.
"""
lookback = "7d"

[params.max_remapped_rows]
default = 512
doc = "count of rows remapped for uncorrectable errors over the GPU's life; DCGM warns from there."
[params.max_retired_pages]
default = 63
doc = "count of retired pages; DCGM fails a GPU from there (gcm from 10)."
[params.max_retired_dbe_pages]
default = 16
doc = "count of pages retired for uncorrected errors: DCGM fails above 15 with more than one a week; the week is not asked here, so severity is lower."

[needs]
gpu_memory_health_day = "coalesce(row_remap_failed, row_remap_pending, row_remap_uncorrectable_count, retired_page_dbe_count, retired_page_sbe_count, retired_page_pending_count) IS NOT NULL"
*/
WITH state AS (
    SELECT
        *,
        -- 3 replace, 2 out of spares, 1 waits for a reset, 0 nothing; NULL: none of it is known.
        CASE
            WHEN row_remap_failed_ts IS NOT NULL
                OR coalesce(retired_page_sbe_count, 0) + coalesce(retired_page_dbe_count, 0)
                    >= getvariable('max_retired_pages') THEN 3
            WHEN row_remap_bank_none_ts IS NOT NULL
                OR row_remap_uncorrectable_count >= getvariable('max_remapped_rows')
                OR retired_page_dbe_count >= getvariable('max_retired_dbe_pages') THEN 2
            WHEN row_remap_pending_start_ts IS NOT NULL OR retired_page_pending_count > 0 THEN 1
            WHEN coalesce(
                row_remap_failed, row_remap_pending, row_remap_uncorrectable_count,
                retired_page_dbe_count, retired_page_sbe_count, retired_page_pending_count
            ) IS NOT NULL THEN 0
        END AS level
    FROM gpu_memory_health_day
),
compared AS (
    SELECT *, lag(level) OVER (PARTITION BY cluster, node, gpu_uuid ORDER BY day_ts) AS last_level
    FROM state
    WHERE level IS NOT NULL
)
SELECT
    concat_ws('/', cluster, gpu_uuid, day_ts::DATE) AS subject,
    level / 3 AS score,
    ['medium', 'high', 'critical'][level] AS severity,
    coalesce(
        CASE level
            WHEN 3 THEN row_remap_failed_ts
            WHEN 2 THEN row_remap_bank_none_ts
            ELSE row_remap_pending_start_ts
        END,
        day_ts
    ) AS start_ts,
    day_ts + INTERVAL 1 DAY AS end_ts,
    -- Levels are known by their last value of the day, flags by their first sample.
    coalesce(
        CASE level
            WHEN 3 THEN row_remap_failed_ts
            WHEN 2 THEN row_remap_bank_none_ts
            ELSE row_remap_pending_start_ts
        END,
        day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND
    ) AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    [gpu_uuid] AS gpu_uuid,
    row_remap_uncorrectable_count AS lower,
    row_remap_uncorrectable_count AS upper,
    json_object(
        'quantity', 'rows remapped for uncorrectable errors over the GPU''s life',
        'condition', ['waits for a reset', 'out of spares', 'replace'][level],
        'row_remap_failed', row_remap_failed,
        'row_remap_pending', row_remap_pending,
        'row_remap_uncorrectable_count', row_remap_uncorrectable_count,
        'row_remap_correctable_count', row_remap_correctable_count,
        'row_remap_bank_none_count', row_remap_bank_none_count,
        'row_remap_bank_low_count', row_remap_bank_low_count,
        'retired_page_dbe_count', retired_page_dbe_count,
        'retired_page_sbe_count', retired_page_sbe_count,
        'retired_page_pending_count', retired_page_pending_count,
        'gpu_model', gpu_model,
        'coverage_ratio', round(coverage_ratio, 4)
    )::VARCHAR AS evidence
FROM compared
WHERE level > coalesce(last_level, 0)
