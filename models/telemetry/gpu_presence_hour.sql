/*
doc = """
Which GPUs of the inventory were seen, per hour, and how those that were not are to be read. Minutes
count in which the GPU was in service here (inventory_gpu_span) and any GPU of the cluster was seen; the
four counts add up to minute_expected_count.

missing: other GPUs of the node were seen, this one was not. starting: the same, within startup_grace_s
after the node came back, when drivers list GPUs one by one. silent: nothing of the node was seen,
while another node was: exporter, node or network. GPUs are matched by UUID; a node is alive when a GPU
is seen that the inventory places there, or an unlisted one under its name. Nodes with one GPU can be
silent but not missing one.
"""
grain = ["cluster", "node", "gpu_uuid", "hour_ts"]
time = "hour_ts"
lookback = "1h"
sort = ["cluster", "node", "gpu_uuid"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster the node belongs to" }
node = { type = "VARCHAR", doc = "host by the inventory" }
gpu_uuid = { type = "VARCHAR", doc = "the GPU's UUID" }
hour_ts = { type = "TIMESTAMP", doc = "start of the hour" }
gpu_index = { type = "INTEGER", doc = "the driver's index by the inventory" }
gpu_model = { type = "VARCHAR", doc = "model by the inventory" }
minute_expected_count = { type = "BIGINT", doc = "minutes in service in which the cluster was seen", unit = "count" }
minute_seen_count = { type = "BIGINT", doc = "minutes in which a sample of it holds", unit = "count" }
minute_missing_count = { type = "BIGINT", doc = "minutes missing from a node that was alive", unit = "count" }
minute_starting_count = { type = "BIGINT", doc = "minutes missing just after the node came back", unit = "count" }
minute_silent_count = { type = "BIGINT", doc = "minutes in which nothing of the node was seen", unit = "count" }
unlisted_count = { type = "BIGINT", doc = "GPUs seen under the node's name that the inventory does not list: a replacement, perhaps", unit = "count" }
missing_start_ts = { type = "TIMESTAMP", doc = "first missing minute" }
missing_end_ts = { type = "TIMESTAMP", doc = "end of the last missing minute" }
missing_evident_ts = { type = "TIMESTAMP", doc = "when missing_minute_count minutes of the hour had gone by missing; NULL: fewer are" }

[params.startup_grace_s]
default = 300
most = 1800
doc = "s after a node comes back in which a GPU may still be absent. HyperPod waits 120 s because NVML returned 0 GPUs at boot (aws/sagemaker-hyperpod-cli PR 425); the exporter's first collections come on top."

[params.node_gap_s]
default = 300
most = 1800
doc = "s without any GPU of the node after which it counts as come back. Own choice: ten times the 30 s at which dcgm-exporter collects."

[params.missing_minute_count]
default = 10
doc = "missing minutes in an hour that are evidence. Own choice: more than a driver reload or a GPU reset takes."
*/
WITH reported AS (
    SELECT DISTINCT cluster, node, gpu_uuid, minute_ts
    FROM gpu_minute
    WHERE coverage_ratio > 0 OR sample_count > 0
),
placed AS (
    SELECT
        reported.cluster, coalesce(listed.node, reported.node) AS node, reported.gpu_uuid, minute_ts,
        listed.node IS NULL AS is_unlisted
    FROM reported
    LEFT JOIN inventory_gpu_span AS listed
        ON reported.cluster = listed.cluster
        AND reported.gpu_uuid = listed.gpu_uuid
        AND minute_ts >= listed.start_ts
        AND minute_ts < coalesce(listed.end_ts, 'infinity'::TIMESTAMP)
),
alive AS (
    SELECT cluster, node, minute_ts
    FROM placed
    GROUP BY ALL
),
run AS (
    SELECT
        *,
        coalesce(
            minute_ts - lag(minute_ts) OVER node > to_seconds(getvariable('node_gap_s') + 60), true
        ) AS is_return
    FROM alive
    WINDOW node AS (PARTITION BY cluster, node ORDER BY minute_ts)
),
aged AS (
    SELECT
        cluster, node, minute_ts,
        minute_ts - max(if(is_return, minute_ts, NULL)) OVER (
            PARTITION BY cluster, node ORDER BY minute_ts
        ) < to_seconds(getvariable('startup_grace_s')) AS is_starting
    FROM run
),
unlisted AS (
    SELECT
        cluster, node, date_trunc('hour', minute_ts)::TIMESTAMP AS hour_ts,
        count(DISTINCT gpu_uuid) AS unlisted_count
    FROM placed
    WHERE is_unlisted
    GROUP BY ALL
),
expected AS (
    SELECT
        listed.cluster, listed.node, listed.gpu_uuid, gpu_index, gpu_model, minute_ts,
        date_trunc('hour', minute_ts)::TIMESTAMP AS hour_ts
    FROM (SELECT DISTINCT cluster, minute_ts FROM alive) AS seen
    JOIN inventory_gpu_span AS listed
        ON seen.cluster = listed.cluster
        AND minute_ts >= listed.start_ts
        AND minute_ts < coalesce(listed.end_ts, 'infinity'::TIMESTAMP)
),
judged AS (
    SELECT
        expected.*,
        CASE
            WHEN placed.gpu_uuid IS NOT NULL THEN 'seen'
            WHEN aged.node IS NULL THEN 'silent'
            WHEN aged.is_starting THEN 'starting'
            ELSE 'missing'
        END AS state
    FROM expected
    LEFT JOIN placed USING (cluster, node, gpu_uuid, minute_ts)
    LEFT JOIN aged USING (cluster, node, minute_ts)
)
SELECT
    cluster, node, gpu_uuid, hour_ts,
    any_value(gpu_index) AS gpu_index,
    any_value(gpu_model) AS gpu_model,
    count(*) AS minute_expected_count,
    count(*) FILTER (state = 'seen') AS minute_seen_count,
    count(*) FILTER (state = 'missing') AS minute_missing_count,
    count(*) FILTER (state = 'starting') AS minute_starting_count,
    count(*) FILTER (state = 'silent') AS minute_silent_count,
    coalesce(any_value(unlisted_count), 0) AS unlisted_count,
    min(minute_ts) FILTER (state = 'missing') AS missing_start_ts,
    max(minute_ts) FILTER (state = 'missing') + INTERVAL 1 MINUTE AS missing_end_ts,
    (list(minute_ts ORDER BY minute_ts) FILTER (state = 'missing'))[
        getvariable('missing_minute_count')::BIGINT
    ] + INTERVAL 1 MINUTE AS missing_evident_ts
FROM judged
LEFT JOIN unlisted USING (cluster, node, hour_ts)
GROUP BY cluster, node, gpu_uuid, hour_ts
