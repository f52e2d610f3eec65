/*
doc = """
What the communication library itself printed about a transport that is worse than it could be, one row
per node of a job and fact. A slower transport is only a fall-back where others in the cluster have the
better one: a cluster without InfiniBand, or machines whose GPUs cannot reach each other, have lost
nothing.
"""
grain = ["cluster", "job_id", "attempt", "node", "fact", "device"]
sort = ["job_id", "node", "fact"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
job_id = { type = "VARCHAR", doc = "job; `unknown` where nobody stated it" }
attempt = { type = "BIGINT", doc = "attempt of the job as in job_attempt; 1 where nothing was stated" }
node = { type = "VARCHAR", doc = "host that printed it" }
fact = { type = "VARCHAR", doc = "socket_network (data between nodes over TCP), no_gpudirect (network without GPUDirect RDMA), no_peer_to_peer (GPUs of a node through host memory), fewer_channels (at most half of the usual), link_speed_drop, device_failed" }
device = { type = "VARCHAR", doc = "network device it is about; empty where none is named" }
is_fallback = { type = "BOOLEAN", doc = "others have better: true for link_speed_drop and device_failed by nature; NULL where too few others printed theirs" }
transport = { type = "VARCHAR", doc = "what this node uses, or the number of channels" }
usual = { type = "VARCHAR", doc = "what most others use" }
other_count = { type = "BIGINT", doc = "other nodes (for channels: other communicators of as many ranks) that printed theirs", unit = "count" }
better_count = { type = "BIGINT", doc = "of these, with the better one", unit = "count" }
from_bytes_per_s = { type = "DOUBLE", doc = "link_speed_drop: speed before the first drop", unit = "bytes/s" }
to_bytes_per_s = { type = "DOUBLE", doc = "lowest speed since", unit = "bytes/s" }
event_count = { type = "BIGINT", doc = "lines that say so", unit = "count" }
process_count = { type = "BIGINT", doc = "processes of the node that say so", unit = "count" }
ts = { type = "TIMESTAMP", doc = "first such line's time; NULL where the log has no clock" }
message = { type = "VARCHAR", doc = "one of the lines" }

[params.min_others]
default = 2
doc = "count; fewer others cannot say what is usual."
*/
WITH channel AS (
    SELECT
        *,
        split_part(transport, '/', 1) AS class,
        if(class = 'NET', split_part(transport, '/', 2), NULL) AS network,
        contains(transport, 'GDRDMA') AS has_gpudirect
    FROM nccl_log_event
    WHERE event = 'channel' AND transport IS NOT NULL AND node IS NOT NULL
),

-- What each node of a job uses; its worst, since one slow path holds up the collective.
used AS (
    SELECT
        cluster, job_id, attempt, node, 'socket_network' AS fact,
        bool_or(network = 'Socket') AS is_worse,
        arg_min(transport, (network <> 'Socket', transport)) AS transport,
        count(*) AS event_count,
        count(DISTINCT pid) AS process_count,
        min(ts) AS ts,
        arg_min(message, (network <> 'Socket', log_name, log_line, event_no)) AS message
    FROM channel
    WHERE network IS NOT NULL
    GROUP BY ALL
    UNION ALL
    SELECT
        cluster, job_id, attempt, node, 'no_gpudirect',
        NOT bool_and(has_gpudirect),
        arg_min(transport, (has_gpudirect, transport)),
        count(*), count(DISTINCT pid), min(ts),
        arg_min(message, (has_gpudirect, log_name, log_line, event_no))
    FROM channel
    WHERE network <> 'Socket'
    GROUP BY ALL
    UNION ALL
    SELECT
        cluster, job_id, attempt, node, 'no_peer_to_peer',
        NOT bool_or(class = 'P2P'),
        arg_min(transport, (class = 'P2P', transport)),
        count(*), count(DISTINCT pid), min(ts),
        arg_min(message, (class = 'P2P', log_name, log_line, event_no))
    FROM channel
    WHERE class IN ('P2P', 'SHM')
    GROUP BY ALL
    UNION ALL
    -- Without lines of channels the network that was opened counts, if the job has several nodes.
    SELECT
        cluster, job_id, attempt, node, 'socket_network',
        bool_or(transport = 'Socket') AND NOT bool_or(transport <> 'Socket'),
        min(transport), count(*), count(DISTINCT pid), min(ts),
        arg_min(message, (log_name, log_line, event_no))
    FROM nccl_log_event
    WHERE event = 'network' AND transport IS NOT NULL AND node IS NOT NULL
        AND (cluster, job_id, attempt) NOT IN (
            SELECT (cluster, job_id, attempt) FROM channel WHERE network IS NOT NULL
        )
        AND (cluster, job_id, attempt) IN (
            SELECT (cluster, job_id, attempt)
            FROM nccl_log_event
            GROUP BY cluster, job_id, attempt
            HAVING count(DISTINCT node) > 1
        )
    GROUP BY ALL
),

node_usual AS (
    SELECT
        cluster, node, fact, bool_and(is_worse) AS is_worse, min(transport) AS transport
    FROM used
    GROUP BY ALL
),

compared AS (
    SELECT
        u.cluster, u.job_id, u.attempt, u.node, u.fact,
        count(o.node) AS other_count,
        count(o.node) FILTER (NOT o.is_worse) AS better_count,
        min(o.transport) FILTER (NOT o.is_worse) AS usual
    FROM used AS u
    LEFT JOIN node_usual AS o
        ON u.cluster = o.cluster AND u.fact = o.fact AND u.node <> o.node
    WHERE u.is_worse
    GROUP BY ALL
),

worse AS (
    SELECT *, NULL::DOUBLE AS from_bytes_per_s, NULL::DOUBLE AS to_bytes_per_s, '' AS device
    FROM used
    JOIN compared USING (cluster, job_id, attempt, node, fact)
    WHERE is_worse
),

comm_channel AS (
    SELECT
        cluster, job_id, attempt, comm_id, n_ranks,
        min(channel_count) AS channels,
        min(node) AS node,
        count(*) AS event_count,
        count(DISTINCT (node, pid)) AS process_count,
        min(ts) AS ts,
        min(message) AS message
    FROM nccl_log_event
    WHERE event = 'channel_count' AND channel_count > 0 AND node IS NOT NULL
    GROUP BY ALL
),

fewer AS (
    SELECT
        *,
        count(*) OVER alike - 1 AS other_count,
        median(channels) OVER alike AS usual_channels
    FROM comm_channel
    WHERE n_ranks IS NOT NULL
    WINDOW alike AS (PARTITION BY cluster, n_ranks)
),

device_fact AS (
    SELECT
        cluster, job_id, attempt, node, coalesce(device, '') AS device,
        if(event = 'device_failed', event, 'link_speed_drop') AS fact,
        max(from_bytes_per_s) AS from_bytes_per_s,
        min(to_bytes_per_s) AS to_bytes_per_s,
        count(*) AS event_count,
        count(DISTINCT pid) AS process_count,
        min(ts) AS ts,
        min(message) AS message
    FROM nccl_log_event
    WHERE node IS NOT NULL
        AND (event = 'device_failed'
            OR (event = 'link_speed_change' AND to_bytes_per_s < from_bytes_per_s))
    GROUP BY ALL
)

SELECT
    cluster, job_id, attempt, node, fact, device,
    CASE
        WHEN better_count >= getvariable('min_others') AND 2 * better_count > other_count THEN true
        WHEN other_count >= getvariable('min_others') THEN false
    END AS is_fallback,
    transport, usual, other_count, better_count, from_bytes_per_s, to_bytes_per_s, event_count,
    process_count, ts, message
FROM worse
UNION ALL
SELECT
    cluster, job_id, attempt, node, 'fewer_channels', '',
    if(max(other_count) >= getvariable('min_others'), true, NULL),
    min(channels)::VARCHAR, max(usual_channels)::INTEGER::VARCHAR, max(other_count),
    max(other_count), NULL, NULL, sum(event_count)::BIGINT, sum(process_count)::BIGINT, min(ts),
    min(message)
FROM fewer
WHERE 2 * channels <= usual_channels
GROUP BY cluster, job_id, attempt, node
UNION ALL
SELECT
    cluster, job_id, attempt, node, fact, device, true, NULL, NULL, 0, 0, from_bytes_per_s,
    to_bytes_per_s, event_count, process_count, ts, message
FROM device_fact
