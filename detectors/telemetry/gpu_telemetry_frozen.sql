/*
title = "An exporter shows old values again and again"
domain = "performance"
kind = "telemetry_frozen"
severity = "medium"
reviewed = "2026-11-30"

flags = """
A node with GPUs of which no value has changed for 10 minutes, not even the energy or cycle counter, which
move on every GPU that has power. One finding per node and day, with the GPUs it is true of; `high` when it
is all GPUs that the node reports. `lower` and `upper` are the frozen samples of the worst GPU.
"""
why = """
A host engine that was restarted or is stalled by a sick GPU can leave an exporter that answers in good
health with the last values it had (NVIDIA/gpu-monitoring-tools issue 188, NVIDIA/NVSentinel issue 1748).
Every other rule then sees a perfect, unchanging GPU, and is silent.
"""
looks_like = """
Pages that were saved once and are served from a file or a cache. A test exporter with constant values.
Clocks, temperatures and shares of an idle GPU also stand still, but its energy counter does not.
"""
misses = """
GPUs without an energy or cycle counter in their telemetry: nothing proves that they are not just idle.
Freezes shorter than 10 minutes. Single fields that freeze while others move. Values that are invented but
move.
"""
todo = """
Compare with `nvidia-smi` on the node. Restart the host engine and the exporter; if it freezes again, look
for the GPU that stalls the driver (`gpu_event`, `dmesg`) and drain the node. Distrust what was concluded
from this node's telemetry since frozen_start.
"""

[params.frozen_sample_count]
default = 3
doc = "frozen samples from which it is a finding. Own choice: the 10 minutes have passed already; more than one, so that a repeated page is none."
*/
WITH gpu_hour AS (
    -- The signals of a GPU freeze together: the one with most samples speaks for them.
    SELECT
        cluster, node, gpu_uuid, hour_ts,
        max(stale_count) FILTER (stale_start_ts IS NOT NULL) AS frozen_count,
        max(expected_count) AS expected_count,
        min(stale_start_ts) AS start_ts,
        max(stale_end_ts) AS end_ts
    FROM gpu_signal_hour
    GROUP BY ALL
),
gpu_day AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', hour_ts)::TIMESTAMP AS day_ts,
        coalesce(sum(frozen_count), 0)::BIGINT AS frozen_count,
        sum(expected_count)::BIGINT AS expected_count,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts
    FROM gpu_hour
    GROUP BY ALL
),
node_day AS (
    SELECT
        cluster, node, day_ts,
        count(*) AS gpu_count,
        count(*) FILTER (is_frozen) AS frozen_gpu_count,
        list(gpu_uuid ORDER BY gpu_uuid) FILTER (is_frozen) AS gpus,
        max(frozen_count) AS most_count,
        max(frozen_count / expected_count) FILTER (is_frozen) AS frozen_ratio,
        min(start_ts) FILTER (is_frozen) AS start_ts,
        max(end_ts) FILTER (is_frozen) AS end_ts
    FROM (
        SELECT *, frozen_count >= getvariable('frozen_sample_count') AS is_frozen FROM gpu_day
    )
    GROUP BY ALL
)
SELECT
    concat_ws('/', cluster, node, day_ts::DATE) AS subject,
    least(1, frozen_ratio) AS score,
    if(frozen_gpu_count = gpu_count, 'high', 'medium') AS severity,
    start_ts,
    end_ts,
    start_ts AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    gpus AS gpu_uuid,
    most_count::DOUBLE AS lower,
    most_count::DOUBLE AS upper,
    json_object(
        'quantity', 'frozen samples',
        'frozen_gpu_count', frozen_gpu_count,
        'gpu_count', gpu_count,
        'frozen_count', most_count,
        'frozen_ratio', round(frozen_ratio, 4),
        'frozen_start', start_ts::VARCHAR
    )::VARCHAR AS evidence
FROM node_day
WHERE frozen_gpu_count > 0
