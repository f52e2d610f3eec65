/*
title = "A GPU is slowed by the hardware power brake, or for no stated reason"
domain = "performance"
kind = "power_brake"
severity = "high"
reviewed = "2026-11-30"

flags = """
A GPU under the hardware power brake, or under hardware slowdown that neither heat nor brake explains, for 30
seconds or more of an hour, or in six of ten minutes. If half of a node's GPUs or more are braked that day it
is one finding of the node: a power supply or the feed, not GPUs.
"""
why = """
The brake is pulled from outside the GPU, by the board or the rack's power supply, and at least halves the
clocks. It announces a supply that fails or a rack that is loaded beyond its feed.
"""
looks_like = """
Power capping is not this: the software power cap has a reason of its own, is normal under load, and never
counts here. A facility that pulls the brake on purpose to shed load does the same to many racks at once.
"""
misses = """
Brakes of less than 30 seconds an hour. Where only the mask is sampled: a brake between two scrapes (at 30 s,
one of 2 s is seen once in fifteen times). GPUs whose exporter gives neither the reason counter nor the mask:
NVML's power violation time does not tell brake from cap and is not used.
"""
todo = """
Look at the node's power supplies and the rack's feed (BMC events, PDU load, power_domain_hour), and whether
other nodes of the rack are braked. Without any cause outside and on one GPU alone: reseat or replace its
power connection, then the board.
"""

[params.min_hour_s]
default = 30
doc = "s of an hour that suffice. DCGM's health check warns at any time above 0 within a minute and is known for false alarms (DCGM 242, 270, 285); 30 s is one scrape of a sampled mask."
[params.node_ratio]
default = 0.5
doc = "ratio of a node's GPUs, two at least, from which the node is the finding. As in thermal_throttle."

[needs]
gpu_throttle_hour = "cause IN ('hw_power_brake', 'hw_slowdown')"
*/
WITH braked_hour AS (
    SELECT
        *,
        CASE
            WHEN sustained_ts IS NOT NULL THEN sustained_ts
            WHEN throttled_s >= getvariable('min_hour_s') THEN hour_ts + INTERVAL 1 HOUR - INTERVAL 1 MICROSECOND
        END AS sufficient_ts
    FROM gpu_throttle_hour
    WHERE cause IN ('hw_power_brake', 'hw_slowdown')
),
gpu_day AS (
    SELECT
        cluster, node, gpu_uuid, date_trunc('day', hour_ts)::TIMESTAMP AS day_ts,
        min(gpu_model) AS gpu_model,
        max(throttled_ratio) AS most_ratio,
        coalesce(sum(throttled_s) FILTER (cause = 'hw_power_brake'), 0) AS brake_s,
        coalesce(sum(throttled_s) FILTER (cause = 'hw_slowdown'), 0) AS slowdown_s,
        max(known_s) AS known_s,
        if(count(DISTINCT source) = 1, min(source), 'mixed') AS source,
        min(coalesce(first_throttled_ts, hour_ts)) FILTER (sufficient_ts IS NOT NULL) AS start_ts,
        max(coalesce(last_throttled_ts, hour_ts + INTERVAL 1 HOUR)) FILTER (sufficient_ts IS NOT NULL) AS end_ts,
        min(sufficient_ts) AS sufficient_ts
    FROM braked_hour
    GROUP BY ALL
),
scoped AS (
    SELECT
        *,
        count(*) OVER on_node AS node_gpu_count,
        count(sufficient_ts) OVER on_node AS braked_gpu_count,
        count(sufficient_ts) OVER on_node >= greatest(2, count(*) OVER on_node * getvariable('node_ratio')) AS is_node
    FROM gpu_day
    WINDOW on_node AS (PARTITION BY cluster, node, day_ts)
)
SELECT
    concat_ws('/', cluster, node, if(is_node, 'all', gpu_uuid), day_ts::DATE) AS subject,
    coalesce(max(most_ratio), 1) AS score,
    min(start_ts) AS start_ts,
    max(end_ts) AS end_ts,
    least(
        if(
            is_node,
            list(sufficient_ts ORDER BY sufficient_ts)[greatest(2, ceil(node_gpu_count * getvariable('node_ratio')))::INTEGER],
            min(sufficient_ts)
        ),
        day_ts + INTERVAL 1 DAY - INTERVAL 1 MICROSECOND
    ) AS detected_at,
    [cluster] AS cluster,
    [node] AS node,
    list(gpu_uuid ORDER BY gpu_uuid) AS gpu_uuid,
    max(greatest(brake_s, slowdown_s)) AS lower,
    max(brake_s + slowdown_s) AS upper,
    json_object(
        'quantity', 'seconds under brake or unexplained hardware slowdown in the day, of the GPU with most',
        'hw_power_brake_s', round(max(brake_s), 1),
        'hw_slowdown_s', round(max(slowdown_s), 1),
        'most_ratio_of_an_hour', round(max(most_ratio), 4),
        'source', if(count(DISTINCT source) = 1, min(source), 'mixed'),
        'scope', if(is_node, 'node', 'gpu'),
        'braked_gpu_count', braked_gpu_count,
        'node_gpu_count', node_gpu_count,
        'gpu_model', min(gpu_model)
    )::VARCHAR AS evidence
FROM scoped
WHERE sufficient_ts IS NOT NULL
GROUP BY cluster, node, day_ts, is_node, braked_gpu_count, node_gpu_count, if(is_node, 'all', gpu_uuid)
