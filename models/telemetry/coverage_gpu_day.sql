/*
doc = """
How much of a day each GPU was seen, against what the inventory expects. A GPU that is in the
inventory and never reported is a row with coverage_ratio 0; a GPU that reports without being in the
inventory is a row whose minute_expected_count and coverage_ratio are NULL.

A minute is seen when gpu_minute has a row for it, of the GPU or of a MIG instance on it. A minute is
expected when it begins in the day and within the inventory's start_ts to end_ts. GPUs are matched by
UUID, so an exporter that reports its pod's name for the host does no harm: node is the inventory's,
reported_node the exporter's.

Only days on which any GPU of any cluster was seen have rows: a day without telemetry at all is not
computed. The last day counts as a whole day from its first sample on.
"""
grain = ["cluster", "node", "gpu_uuid", "day_ts"]
time = "day_ts"
sort = ["cluster", "node", "gpu_uuid"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host by the inventory; by the exporter where the inventory has no entry" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
day_ts = { type = "TIMESTAMP", doc = "start of the day, UTC" }
reported_node = { type = "VARCHAR", doc = "host by the exporter; NULL where the GPU was not seen" }
minute_expected_count = { type = "BIGINT", doc = "minutes of the day the GPU was in service here; NULL: not in the inventory", unit = "count" }
minute_seen_count = { type = "BIGINT", doc = "minutes in which it was seen", unit = "count" }
minute_covered_count = { type = "BIGINT", doc = "minutes in which it was both expected and seen", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "covered by expected minutes; NULL where none is expected", unit = "ratio" }
*/
WITH seen AS (
    SELECT cluster, gpu_uuid, minute_ts, min(node) AS reported_node
    FROM gpu_minute
    GROUP BY ALL
),
expected AS (
    SELECT
        cluster, node, gpu_uuid, day_ts,
        greatest(start_ts, day_ts) AS start_ts,
        least(coalesce(end_ts, 'infinity'::TIMESTAMP), day_ts + INTERVAL 1 DAY) AS end_ts
    FROM inventory_gpu_span
    JOIN (SELECT DISTINCT date_trunc('day', minute_ts)::TIMESTAMP AS day_ts FROM seen) AS day
        ON start_ts < day_ts + INTERVAL 1 DAY
        AND coalesce(end_ts, 'infinity'::TIMESTAMP) > day_ts
),
expected_day AS (
    -- Minutes that begin in [start_ts, end_ts).
    SELECT
        cluster, node, gpu_uuid, day_ts,
        sum(ceil(epoch(end_ts) / 60) - ceil(epoch(start_ts) / 60))::BIGINT
            AS minute_expected_count
    FROM expected
    GROUP BY ALL
),
seen_day AS (
    SELECT
        seen.cluster,
        coalesce(expected.node, reported_node) AS node,
        seen.gpu_uuid,
        date_trunc('day', minute_ts)::TIMESTAMP AS day_ts,
        max(reported_node) AS reported_node,
        count(*) AS minute_seen_count,
        count(expected.node) AS minute_covered_count
    FROM seen
    LEFT JOIN expected
        ON seen.cluster = expected.cluster
        AND seen.gpu_uuid = expected.gpu_uuid
        AND minute_ts >= start_ts
        AND minute_ts < end_ts
    GROUP BY ALL
)
SELECT
    cluster, node, gpu_uuid, day_ts,
    reported_node,
    minute_expected_count,
    coalesce(minute_seen_count, 0) AS minute_seen_count,
    coalesce(minute_covered_count, 0) AS minute_covered_count,
    coalesce(minute_covered_count, 0) / nullif(minute_expected_count, 0) AS coverage_ratio
FROM expected_day
FULL JOIN seen_day USING (cluster, node, gpu_uuid, day_ts)
