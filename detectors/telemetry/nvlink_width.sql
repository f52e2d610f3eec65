/*
title = "A GPU has lost NVLinks"
domain = "performance"
kind = "nvlink_width"
severity = "high"
reviewed = "2026-11-30"

flags = """
A GPU with fewer NVLinks up than the inventory lists, or than most GPUs of its model in the cluster have, in
two readings of a day (in the only one, where there is one). Reported on the first day; again when more are
lost.
"""
why = """
Collectives inside the node run at the rate of the weakest GPU; each of an H100's 18 links carries a part of
its bandwidth, and some libraries fall back to PCIe altogether. Nothing else reports it once the kernel line
is gone.
"""
looks_like = """
PCIe cards without a bridge and links that are switched off by design: where most GPUs of the model have as
many, none is missing. A GPU under reset trains its links within seconds: one reading is not enough where
there are more. Links that sleep are up.
"""
misses = """
Links that are up and slow or full of errors: see the error counts in gpu_link_day. Links behind the GPU,
between switches. Fleets of fewer than four GPUs of a model without an inventory. dcgm-exporter's per-link
series of links that were down when it started: it never shows them; where link states come from it alone, the
count it began with may pass for whole.
"""
todo = """
`nvidia-smi nvlink -s` on the node, kernel lines with XID 74 or 144 to 150, fabric manager log. Reset the GPU
when idle; a link that stays down after a reset is hardware: board, baseboard or switch, whichever the other
end shares.
"""
lookback = "7d"
optional = ["gpu_sample", "inventory_gpu"]

[needs]
gpu_link_day = "nvlink_lost_reading_count IS NOT NULL"
*/
WITH compared AS (
    SELECT
        *,
        if(nvlink_lost_ts IS NULL, 0, nvlink_expected_count - nvlink_up_min_count) AS lost_count,
        lag(if(nvlink_lost_ts IS NULL, 0, nvlink_expected_count - nvlink_up_min_count)) OVER gpu AS last_lost_count
    FROM gpu_link_day
    WHERE nvlink_lost_reading_count IS NOT NULL
    WINDOW gpu AS (PARTITION BY cluster, node, gpu_uuid ORDER BY day_ts)
)
SELECT
    concat_ws('/', cluster, gpu_uuid, day_ts::DATE) AS subject,
    lost_count / nvlink_expected_count AS score,
    nvlink_lost_start_ts AS start_ts,
    nvlink_lost_end_ts AS end_ts,
    nvlink_lost_ts AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    [gpu_uuid] AS gpu_uuid,
    lost_count AS lower,
    lost_count AS upper,
    json_object(
        'quantity', 'NVLinks lost at the worst reading',
        'expected_count', nvlink_expected_count,
        'expected_source', nvlink_expected_source,
        'up_min_count', nvlink_up_min_count,
        'up_last_count', nvlink_up_last_count,
        'lost_reading_count', nvlink_lost_reading_count,
        'reading_count', nvlink_reading_count,
        'recovery_new_count', nvlink_recovery_new_count,
        'gpu_model', gpu_model
    )::VARCHAR AS evidence
FROM compared
WHERE nvlink_lost_ts IS NOT NULL AND lost_count > coalesce(last_lost_count, 0)
