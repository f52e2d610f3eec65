/*
doc = """
Trouble that many GPUs or nodes share at once, which is the power's, the cooling's or the network's and no
GPU's own. One row per place, cause and hour.

level chassis: at least min_gpus GPUs of a node, and min_gpu_ratio of those that report, were slowed for
heat or by the power brake, all at one moment. level rack and leaf_switch: at least min_nodes nodes there,
and min_node_ratio of those the inventory lists, had in the same hour a chassis row of that cause
(rack), or lost a link (leaf_switch), or had hardware errors (rack): health events that are roots and no
program's fault. Only the hour is compared, so what straddles its end in small parts is missed; places
without inventory have no rows.
"""
grain = ["cluster", "level", "place", "cause", "hour_ts"]
time = "hour_ts"
sort = ["cluster", "level", "place", "hour_ts"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
level = { type = "VARCHAR", doc = "chassis, rack or leaf_switch" }
place = { type = "VARCHAR", doc = "the node, rack or switch" }
cause = { type = "VARCHAR", doc = "power_brake, thermal, link_down or gpu_errors" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
start_ts = { type = "TIMESTAMP", doc = "first sign of it", null = false }
end_ts = { type = "TIMESTAMP", doc = "last sign of it", null = false }
shared_ts = { type = "TIMESTAMP", doc = "when enough GPUs or nodes shared it", null = false }
is_sustained = { type = "BOOLEAN", doc = "throttling that went on in most of ten minutes; false for events", null = false }
node_count = { type = "BIGINT", doc = "nodes that share it", unit = "count", null = false }
node_expected_count = { type = "BIGINT", doc = "nodes there by the inventory; 1 for a chassis", unit = "count", null = false }
gpu_count = { type = "BIGINT", doc = "GPUs that share it, as far as known", unit = "count", null = false }
gpu_expected_count = { type = "BIGINT", doc = "chassis: GPUs of the node that report; else NULL", unit = "count" }
nodes = { type = "VARCHAR[]", doc = "the nodes", null = false }

[params.min_gpus]
default = 4
doc = "count; fewer GPUs of a node at once may be chance. Half of the usual eight. Own choice."

[params.min_gpu_ratio]
default = 0.75
doc = "ratio of the node's reporting GPUs; a single sensor or GPU may fail to report. Own choice."

[params.min_nodes]
default = 3
doc = "count of nodes of a rack or switch. Own choice: two at once still happen to share a job."

[params.min_node_ratio]
default = 0.5
doc = "ratio of the place's nodes. Own choice."
*/
WITH site AS (
    SELECT cluster, gpu_uuid, node, rack, leaf_switch, start_ts, coalesce(end_ts, 'infinity'::TIMESTAMP) AS end_ts
    FROM inventory_gpu_span
),
slowed AS (
    SELECT
        gpu.cluster, coalesce(site.node, gpu.node) AS node, gpu.gpu_uuid, hour_ts,
        if(cause = 'thermal', 'thermal', 'power_brake') AS cause,
        throttled_minute_count > 0 AS is_slowed,
        first_throttled_ts, last_throttled_ts, sustained_ts
    FROM gpu_throttle_hour AS gpu
    LEFT JOIN site
        ON gpu.cluster = site.cluster AND gpu.gpu_uuid = site.gpu_uuid
        AND hour_ts >= site.start_ts AND hour_ts < site.end_ts
    WHERE cause IN ('thermal', 'hw_power_brake')
),
chassis AS (
    SELECT
        cluster, node, cause, hour_ts,
        min(first_throttled_ts) FILTER (is_slowed) AS start_ts,
        max(last_throttled_ts) FILTER (is_slowed) AS end_ts,
        max(first_throttled_ts) FILTER (is_slowed) AS shared_ts,
        count(sustained_ts) FILTER (is_slowed) >= getvariable('min_gpus') AS is_sustained,
        count(*) FILTER (is_slowed) AS gpu_count,
        count(*) AS gpu_expected_count
    FROM slowed
    GROUP BY ALL
    HAVING count(*) FILTER (is_slowed) >= getvariable('min_gpus')
        AND count(*) FILTER (is_slowed) >= getvariable('min_gpu_ratio') * count(*)
        -- All of them at one moment, not one after the other.
        AND max(first_throttled_ts) FILTER (is_slowed) < min(last_throttled_ts) FILTER (is_slowed)
),
-- What nodes had in an hour that may be a place's.
node_hour AS (
    SELECT cluster, node, 'rack' AS level, cause, hour_ts, start_ts, end_ts, shared_ts, is_sustained, gpu_count
    FROM chassis
    UNION ALL
    SELECT
        cluster, node,
        if(event = 'link_down', 'leaf_switch', 'rack') AS level,
        if(event = 'link_down', 'link_down', 'gpu_errors') AS cause,
        date_trunc('hour', start_ts)::TIMESTAMP AS hour_ts,
        min(start_ts) AS start_ts, max(end_ts) AS end_ts, min(start_ts) AS shared_ts, false AS is_sustained,
        count(DISTINCT unit) FILTER (event = 'xid') AS gpu_count
    FROM health_event
    WHERE is_root AND NOT is_continuation
        AND event IN ('xid', 'sxid', 'link_down') AND (fault IS NULL OR fault = 'hardware_suspected')
    GROUP BY ALL
),
place AS (
    SELECT DISTINCT
        cluster, node, start_ts, end_ts,
        unnest([{'level': 'rack', 'place': rack}, {'level': 'leaf_switch', 'place': leaf_switch}], recursive := true)
    FROM site
),
placed AS (
    -- A node once, though each of its GPUs is listed.
    SELECT DISTINCT node_hour.*, place.place
    FROM node_hour
    JOIN place
        ON node_hour.cluster = place.cluster AND node_hour.node = place.node AND node_hour.level = place.level
        AND hour_ts >= place.start_ts AND hour_ts < place.end_ts
    WHERE place.place IS NOT NULL
),
shared AS (
    SELECT
        cluster, level, place, cause, hour_ts,
        min(start_ts) AS start_ts,
        max(end_ts) AS end_ts,
        list_sort(list(shared_ts))[getvariable('min_nodes')::INTEGER] AS shared_ts,
        bool_and(is_sustained) AS is_sustained,
        count(DISTINCT node) AS node_count,
        sum(gpu_count)::BIGINT AS gpu_count,
        list_sort(list(DISTINCT node)) AS nodes
    FROM placed
    GROUP BY ALL
    HAVING count(DISTINCT node) >= getvariable('min_nodes')
),
sized AS (
    SELECT
        shared.*,
        (
            SELECT count(DISTINCT node)
            FROM place
            WHERE place.cluster = shared.cluster AND place.level = shared.level AND place.place = shared.place
                AND hour_ts >= place.start_ts AND hour_ts < place.end_ts
        ) AS node_expected_count
    FROM shared
)
SELECT
    cluster, 'chassis' AS level, node AS place, cause, hour_ts, start_ts, end_ts, shared_ts, is_sustained,
    1::BIGINT AS node_count, 1::BIGINT AS node_expected_count, gpu_count, gpu_expected_count, [node] AS nodes
FROM chassis
UNION ALL BY NAME
SELECT *, NULL::BIGINT AS gpu_expected_count
FROM sized
WHERE node_count >= getvariable('min_node_ratio') * node_expected_count
