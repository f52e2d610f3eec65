/*
doc = """
Every node that any record names, since when and with how many GPUs: the denominator of availability and of failures
per node-day. A node counts as new only where its cluster was observed more than new_after_s before without it.
"""
grain = ["cluster", "node"]
sort = ["cluster", "node"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster of the node" }
node = { type = "VARCHAR", doc = "node name" }
first_ts = { type = "TIMESTAMP", doc = "installed from: the inventory's date, else the first record of a new node; NULL: before the records begin, as far as known" }
last_ts = { type = "TIMESTAMP", doc = "until: the inventory's date if it was withdrawn; NULL: it still counts" }
record_ts = { type = "TIMESTAMP", doc = "first record of it; NULL if only the inventory names it" }
seen_ts = { type = "TIMESTAMP", doc = "last record of it; NULL if only the inventory names it" }
outage_seen_ts = { type = "TIMESTAMP", doc = "until when node_event's records of it reach; NULL if it has none" }
gpu_count = { type = "BIGINT", doc = "GPUs: node_state's last count, else the inventory's; NULL if neither says", unit = "count" }
gpu_count_source = { type = "VARCHAR", doc = "node_state or inventory_gpu" }

[params.new_after_s]
default = 86400
doc = "s; nodes first seen this long after their cluster's first observation were added. A day: observations of one pull, and of nodes that were down at first, lie closer."
*/
WITH stated AS (
    SELECT
        cluster, node, min(ts) AS first_ts, max(ts) AS seen_ts,
        arg_max(gpu_count, ts) FILTER (gpu_count IS NOT NULL)::BIGINT AS gpu_count
    FROM node_state
    GROUP BY cluster, node
),
begun AS (
    SELECT cluster, min(first_ts) AS ts FROM stated GROUP BY cluster
),
told AS (
    SELECT cluster, node, min(start_ts) AS first_ts, max(coalesce(observed_ts, end_ts, start_ts)) AS seen_ts
    FROM node_event
    GROUP BY cluster, node
),
listed AS (
    SELECT
        cluster, node,
        min(start_ts) AS first_ts,
        CASE WHEN count(end_ts) = count(*) THEN max(end_ts) END AS last_ts,
        count(DISTINCT gpu_uuid) FILTER (end_ts IS NULL) AS gpu_count
    FROM inventory_gpu_span
    GROUP BY cluster, node
)
SELECT
    cluster,
    node,
    coalesce(
        listed.first_ts,
        CASE WHEN least(stated.first_ts, told.first_ts) > begun.ts + to_seconds(getvariable('new_after_s'))
            THEN least(stated.first_ts, told.first_ts) END
    ) AS first_ts,
    listed.last_ts,
    least(stated.first_ts, told.first_ts) AS record_ts,
    greatest(stated.seen_ts, told.seen_ts) AS seen_ts,
    told.seen_ts AS outage_seen_ts,
    coalesce(stated.gpu_count, listed.gpu_count) AS gpu_count,
    CASE WHEN stated.gpu_count IS NOT NULL THEN 'node_state' WHEN listed.gpu_count IS NOT NULL THEN 'inventory_gpu' END
        AS gpu_count_source
FROM stated
FULL JOIN told USING (cluster, node)
FULL JOIN listed USING (cluster, node)
LEFT JOIN begun USING (cluster)
