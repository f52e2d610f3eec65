/*
title = "A GPU's PCIe link repeats packets more often than a sound link does"
domain = "performance"
kind = "pcie_errors"
severity = "low"
reviewed = "2026-11-30"
optional = ["gpu_link_sample", "inventory_gpu"]

flags = """
A GPU with more PCIe retries in three minutes of a day than DCGM's health check allows for the link's
generation and lanes (about 16 a minute on generation 4 with 16 lanes, 31 on generation 5). `medium` from ten
minutes on. One finding per GPU and day.
"""
why = """
A link that repeats packets loses bandwidth and often trains down to fewer lanes next (pcie_degraded).
"""
looks_like = """
Single retries: a healthy H100 capture has 9 over its life. A driver reload restarts the counter and is no
increase.
"""
misses = """
Correctable errors that the retry counter does not count (gpu_link_day.pcie_correctable_error_new_count).
Retries that come in less than three minutes. Scrapes more than two minutes apart: a minute then holds the
retries of several.
"""
todo = """
Reseat GPU and riser, check slot and cable (of external boxes), compare with the same slot of other nodes;
look at the AER lines in the kernel log.
"""

[params.medium_minutes]
default = 10
doc = "count of minutes above the limit from which severity is medium. Own choice."

[needs]
gpu_link_day = "pcie_replay_high_minute_count IS NOT NULL"
*/
SELECT
    concat_ws('/', cluster, gpu_uuid, day_ts::DATE) AS subject,
    1 - 1 / (1 + pcie_replay_high_minute_count) AS score,
    if(pcie_replay_high_minute_count >= getvariable('medium_minutes'), 'medium', 'low') AS severity,
    pcie_replay_high_start_ts AS start_ts,
    pcie_replay_high_end_ts AS end_ts,
    pcie_replay_high_ts - INTERVAL 1 MICROSECOND AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    [gpu_uuid] AS gpu_uuid,
    pcie_replay_most_per_min_count AS lower,
    pcie_replay_most_per_min_count AS upper,
    json_object(
        'quantity', 'retries in the worst minute',
        'high_minute_count', pcie_replay_high_minute_count,
        'replay_new_count', pcie_replay_new_count,
        'correctable_error_new_count', pcie_correctable_error_new_count,
        'lanes', pcie_width_lanes,
        'generation_busy', pcie_gen_busy,
        'gpu_model', gpu_model,
        'coverage_ratio', round(coverage_ratio, 4)
    )::VARCHAR AS evidence
FROM gpu_link_day
WHERE pcie_replay_high_ts IS NOT NULL
