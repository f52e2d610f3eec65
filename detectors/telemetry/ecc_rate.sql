/*
title = "A GPU's memory has errors: uncorrected ones, or corrected ones at an unusual rate"
domain = "performance"
kind = "memory_errors"
severity = "high"
reviewed = "2026-11-30"

flags = """
`high`: an uncorrected ECC error (every consumer of these counters fails a GPU for one), or the driver's flags
that SRAM errors passed the replacement threshold or that memory can no longer be repaired. `low`: more than
ten corrected errors in an hour, DCGM's rate limit, and more than ten times what the middle GPU of the same
model had in its worst hour; `medium` from three such hours a day.
"""
why = """
An uncorrected error kills the process that reads the cell, and with it the job. Corrected errors cost nothing
by themselves; a GPU that has far more of them than its peers is the one whose rows are remapped next.
"""
looks_like = """
A single corrected error now and then is normal, and lifetime counts are large on healthy GPUs: only increases
are judged. Solar weather and altitude raise all GPUs alike: the peers show it. A counter that restarts
(driver reload) is not an increase.
"""
misses = """
Errors between the last sample before a restart and the restart, unless the lifetime counter is exported.
Errors of a GPU that stops answering: see health events (XID 48, 63, 64, 94, 95). GPUs with ECC off or
exporters without ECC fields (dcgm-exporter's default leaves them out). With fewer than four GPUs of a model,
corrected errors are held against DCGM's limit alone.
"""
todo = """
Uncorrected: drain, reset (which remaps the row), run field diagnostics, and replace when it repeats or
remapping fails (row_remap). Corrected: watch rows remapped and spare rows in gpu_memory_health_day; replace
at the next opportunity if they shrink.
"""

[params.peer_factor]
default = 10
doc = "times the middle peer's worst hour. Own choice: limits in use differ by three orders of magnitude (5e7, 2e7, 1e4 over a life), so only the difference to peers is taken."
[params.min_peers]
default = 4
doc = "count of GPUs of the model with known errors from which peers are asked. As in gpu_link_day."
[params.medium_hours]
default = 3
doc = "count of hours above the rate from which severity is medium. Own choice."

[needs]
gpu_memory_health_day = "coalesce(ecc_sbe_new_count, ecc_dbe_new_count, sram_threshold_exceeded, memory_unrepairable) IS NOT NULL"
*/
WITH peer AS (
    SELECT cluster, gpu_model, day_ts, median(ecc_sbe_most_per_hour_count) AS peer_per_hour_count
    FROM gpu_memory_health_day
    WHERE ecc_sbe_most_per_hour_count IS NOT NULL
    GROUP BY ALL
    HAVING count(*) >= getvariable('min_peers')
),
judged AS (
    SELECT
        *,
        least(ecc_dbe_first_ts, sram_threshold_exceeded_ts, memory_unrepairable_ts) AS uncorrected_ts,
        if(
            ecc_sbe_most_per_hour_count > coalesce(peer_per_hour_count, 0) * getvariable('peer_factor'),
            ecc_sbe_high_start_ts, NULL
        ) AS corrected_start_ts
    FROM gpu_memory_health_day
    LEFT JOIN peer USING (cluster, gpu_model, day_ts)
),
verdict AS (
    SELECT
        *, 'uncorrected' AS what, 'high' AS severity, 1.0 AS score,
        uncorrected_ts AS start_ts,
        greatest(uncorrected_ts, ecc_dbe_last_ts) AS end_ts,
        uncorrected_ts AS sufficient_ts,
        coalesce(ecc_dbe_new_count, 0) AS measure
    FROM judged
    WHERE uncorrected_ts IS NOT NULL
    UNION ALL
    SELECT
        *, 'corrected', if(ecc_sbe_high_hour_count >= getvariable('medium_hours'), 'medium', 'low'),
        1 - 1 / ecc_sbe_most_per_hour_count,
        corrected_start_ts,
        ecc_sbe_high_end_ts,
        corrected_start_ts + INTERVAL 1 HOUR - INTERVAL 1 MICROSECOND,
        ecc_sbe_most_per_hour_count
    FROM judged
    WHERE corrected_start_ts IS NOT NULL
)
SELECT
    concat_ws('/', cluster, gpu_uuid, what, day_ts::DATE) AS subject,
    severity, score, start_ts, end_ts,
    least(sufficient_ts, day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND) AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    [gpu_uuid] AS gpu_uuid,
    measure AS lower,
    measure AS upper,
    json_object(
        'quantity', if(what = 'corrected', 'corrected errors in the worst hour', 'uncorrected errors in the day'),
        'ecc_dbe_new_count', ecc_dbe_new_count,
        'ecc_sram_dbe_new_count', ecc_sram_dbe_new_count,
        'ecc_dram_dbe_new_count', ecc_dram_dbe_new_count,
        'ecc_sbe_new_count', ecc_sbe_new_count,
        'ecc_sbe_most_per_hour_count', ecc_sbe_most_per_hour_count,
        'peer_per_hour_count', peer_per_hour_count,
        'high_hour_count', ecc_sbe_high_hour_count,
        'sram_threshold_exceeded', sram_threshold_exceeded,
        'memory_unrepairable', memory_unrepairable,
        'row_remap_new_count', row_remap_new_count,
        'gpu_model', gpu_model,
        'coverage_ratio', round(coverage_ratio, 4)
    )::VARCHAR AS evidence
FROM verdict
