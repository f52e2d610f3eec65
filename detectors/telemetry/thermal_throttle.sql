/*
title = "A GPU is slowed by heat"
domain = "performance"
kind = "thermal_throttle"
severity = "medium"
reviewed = "2026-11-30"

flags = """
A GPU that is slowed for heat in at least six of ten minutes, six seconds or more in each
(gpu_throttle_hour.sustained_ts): gpud's rate of 0.6 hardware slowdown events a minute over ten minutes, on
time instead of events. Time comes from the driver's nanosecond counters where they are exported, else from
the sampled mask. `high` when the hardware itself slowed the clocks (at least halved) for ten minutes or more
of the day. If half of a node's GPUs or more are slowed that day it is one finding of the node: cooling, not
GPUs.
"""
why = """
Clocks fall while utilisation stays at 100 %; in synchronous training one hot GPU slows all. Heat also ages
parts.
"""
looks_like = """
A room or rack that is warm as a whole, after a cooling event or behind a blocked filter: several nodes of a
rack at once. A GPU whose slot gets the warm air of its neighbours runs hotter and may still be within its
limits: it is not flagged until it is slowed.
"""
misses = """
Slowing of less than six minutes in ten, or of less than six seconds a minute. GPUs whose exporter gives
neither reason counters, nor the thermal violation time, nor the mask. Where only a mask is sampled, slowing
between two scrapes. Heat that lowers boost clocks without a reason bit: compare with peers. The interval in
which a counter first appears: DCGM 4.5.3 leaves out counters that are 0.
"""
todo = """
Compare with its neighbours in node and rack. One GPU: thermal paste, cold plate, fan, airflow of that slot.
All: inlet temperature, fans, coolant flow. Move the job, then inspect; the driver's slowdown temperature is
in gpu_minute.
"""

[params.node_ratio]
default = 0.5
doc = "ratio of a node's GPUs, two at least, from which the node is the finding. Own choice: GPUs fail one by one, cooling fails for all."
[params.high_hw_thermal_s]
default = 600
doc = "s of hardware thermal slowdown on a GPU and day from which severity is high. Own choice: ten minutes, the span of the rule."

[needs]
gpu_throttle_hour = "cause = 'thermal'"
*/
WITH gpu_day AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', hour_ts)::TIMESTAMP AS day_ts,
        min(gpu_model) AS gpu_model,
        coalesce(sum(throttled_s) FILTER (cause = 'thermal'), 0) AS throttled_s,
        sum(known_s) FILTER (cause = 'thermal') AS known_s,
        sum(throttled_s) FILTER (cause = 'hw_thermal') AS hw_thermal_s,
        if(count(DISTINCT source) FILTER (cause = 'thermal') = 1, min(source) FILTER (cause = 'thermal'), 'mixed')
            AS source,
        min(first_throttled_ts) FILTER (cause = 'thermal') AS start_ts,
        max(last_throttled_ts) FILTER (cause = 'thermal') AS end_ts,
        min(sustained_ts) FILTER (cause = 'thermal') AS sustained_ts
    FROM gpu_throttle_hour
    WHERE cause IN ('thermal', 'hw_thermal')
    GROUP BY ALL
),
scoped AS (
    SELECT
        *,
        count(*) OVER on_node AS node_gpu_count,
        count(sustained_ts) OVER on_node AS slowed_gpu_count,
        count(sustained_ts) OVER on_node >= greatest(2, count(*) OVER on_node * getvariable('node_ratio')) AS is_node
    FROM gpu_day
    WINDOW on_node AS (PARTITION BY cluster, node, day_ts)
)
SELECT
    concat_ws('/', cluster, node, if(is_node, 'all', gpu_uuid), day_ts::DATE) AS subject,
    max(if(known_s > 0, least(1, throttled_s / known_s), 1)) AS score,
    if(coalesce(max(hw_thermal_s), 0) >= getvariable('high_hw_thermal_s'), 'high', 'medium') AS severity,
    min(start_ts) AS start_ts,
    max(end_ts) AS end_ts,
    least(
        if(
            is_node,
            list(sustained_ts ORDER BY sustained_ts)[greatest(2, ceil(node_gpu_count * getvariable('node_ratio')))::INTEGER],
            min(sustained_ts)
        ),
        day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND
    ) AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    list(gpu_uuid ORDER BY gpu_uuid) AS gpu_uuid,
    max(throttled_s) AS lower,
    max(throttled_s) AS upper,
    json_object(
        'quantity', 'seconds slowed for heat, of the GPU with most',
        'throttled_s', round(max(throttled_s), 1),
        'known_s', round(max(known_s), 1),
        'hw_thermal_s', round(max(hw_thermal_s), 1),
        'source', if(count(DISTINCT source) = 1, min(source), 'mixed'),
        'scope', if(is_node, 'node', 'gpu'),
        'slowed_gpu_count', slowed_gpu_count,
        'node_gpu_count', node_gpu_count,
        'gpu_model', min(gpu_model)
    )::VARCHAR AS evidence
FROM scoped
WHERE sustained_ts IS NOT NULL
GROUP BY cluster, node, day_ts, is_node, slowed_gpu_count, node_gpu_count, if(is_node, 'all', gpu_uuid)
