/*
title = "A node's NVLink fabric is not ready or reports a fault"
domain = "performance"
kind = "fabric_down"
severity = "high"
reviewed = "2026-11-30"
optional = ["gpu_link_sample", "inventory_gpu"]

flags = """
GPUs whose fabric manager is not started, stuck in progress or failed, or whose fabric health mask names a
fault, in three samples over ten minutes or more. One finding per node, reported on the first day.
"""
why = """
Without the fabric the GPUs of an NVSwitch node cannot reach each other, or only over a slower path; jobs fail
at start or run at a fraction. A fabric manager that was down went unnoticed for 20 days on one public
tracker.
"""
looks_like = """
A node that boots: the fabric is in progress for a minute or two. GPUs without NVSwitch report 0, unsupported,
which is no fault; a healthy mask is not 0 but 2 in each of its fields.
"""
misses = """
Nodes whose exporter does not give the fields (they are not in dcgm-exporter's default), or that were read
fewer than three times a day. A fabric that is ready and slow. Faults shorter than ten minutes.
"""
todo = """
Fabric manager's log and service state on the node, SXid lines in the kernel log; its version must equal the
driver's. Restart it; if it fails again, drain the node.
"""
lookback = "7d"

[params.min_down_s]
default = 600
doc = "s between the first and the last such sample. Own choice: a boot is ready within a few minutes."
[params.min_samples]
default = 3
doc = "count of such samples of a GPU. Own choice: two may be a scrape and its repeat."

[needs]
gpu_link_day = "fabric_down_sample_count IS NOT NULL"
*/
WITH node_day AS (
    SELECT
        cluster, node, day_ts,
        list(gpu_uuid ORDER BY gpu_uuid) FILTER (is_down) AS gpus,
        count(*) AS gpu_count,
        min(fabric_down_start_ts) FILTER (is_down) AS start_ts,
        max(fabric_down_end_ts) FILTER (is_down) AS end_ts,
        max(fabric_down_sample_count) FILTER (is_down) AS sample_count,
        list(DISTINCT fabric_manager_status ORDER BY fabric_manager_status) FILTER (is_down) AS states,
        max(fabric_fault_sample_count) FILTER (is_down) AS fault_sample_count,
        max(fabric_health_mask) FILTER (is_down) AS health_mask
    FROM (
        SELECT
            *,
            fabric_down_sample_count >= getvariable('min_samples')
                AND fabric_down_end_ts - fabric_down_start_ts >= to_seconds(getvariable('min_down_s')) AS is_down
        FROM gpu_link_day
        WHERE fabric_down_sample_count IS NOT NULL
    )
    GROUP BY ALL
),
compared AS (
    SELECT *, lag(gpus) OVER (PARTITION BY cluster, node ORDER BY day_ts) AS last_gpus
    FROM node_day
)
SELECT
    concat_ws('/', cluster, node, day_ts::DATE) AS subject,
    len(gpus) / gpu_count AS score,
    start_ts,
    end_ts,
    start_ts + to_seconds(getvariable('min_down_s')) AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    gpus AS gpu_uuid,
    epoch(end_ts - start_ts) AS lower,
    epoch(end_ts - start_ts) AS upper,
    json_object(
        'quantity', 'seconds between the first and the last such sample',
        'fabric_manager_status', states,
        'fault_sample_count', fault_sample_count,
        'fabric_health_mask', health_mask,
        'sample_count', sample_count,
        'gpu_count', gpu_count
    )::VARCHAR AS evidence
FROM compared
WHERE gpus IS NOT NULL AND last_gpus IS NULL
