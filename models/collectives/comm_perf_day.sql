/*
doc = """
How fast each communicator, and each pair that sends and receives, moved one size per day, and how that
compares with others of the same shape: exactly the same function, size, ranks, nodes, algorithm,
protocol and timing source in the same cluster and day. A row per size of which enough operations were
recorded.

Of a collective the fastest rank counts: it arrived last and waited for nobody. Of sends and receives
the 90th percentile counts, since waiting for the other end is part of most of them.
"""
grain = ["cluster", "day_ts", "job_id", "comm_id", "function", "sender_comm_rank", "receiver_comm_rank", "size_bytes", "timing_source", "algorithm", "protocol"]
time = "day_ts"
sort = ["job_id", "comm_id", "function"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day of the dumps" }
job_id = { type = "VARCHAR", doc = "job; `unknown` where nobody stated it" }
comm_id = { type = "VARCHAR", doc = "communicator as collective_perf spells it" }
function = { type = "VARCHAR", doc = "collective_perf.function; send_recv for both ends of a pair" }
sender_comm_rank = { type = "INTEGER", doc = "send_recv: sending rank of the communicator; -1 for collectives" }
receiver_comm_rank = { type = "INTEGER", doc = "send_recv: receiving rank; -1 for collectives" }
size_bytes = { type = "BIGINT", doc = "message as recorded", unit = "bytes" }
timing_source = { type = "VARCHAR", doc = "collective_perf.timing_source" }
algorithm = { type = "VARCHAR", doc = "collective_perf.algorithm; `unknown` in older records" }
protocol = { type = "VARCHAR", doc = "collective_perf.protocol; `unknown` in older records" }
n_ranks = { type = "INTEGER", doc = "ranks that take part: those of the communicator, 2 of a pair", unit = "count" }
n_nodes = { type = "INTEGER", doc = "nodes they are on; NULL where a node of a pair left no record", unit = "count" }
nodes = { type = "VARCHAR[]", doc = "these nodes, as far as they left records that day" }
op_count = { type = "BIGINT", doc = "operations (of pairs: records) with a bus bandwidth", unit = "count" }
busbw_bytes_per_s = { type = "DOUBLE", doc = "median over operations of the fastest rank's busbw; of pairs the 90th percentile over records", unit = "bytes/s" }
exec_s = { type = "DOUBLE", doc = "the duration that belongs to it: median of the shortest; of pairs the 10th percentile", unit = "s" }
peer_count = { type = "BIGINT", doc = "other communicators or pairs of the same shape", unit = "count" }
peer_busbw_bytes_per_s = { type = "DOUBLE", doc = "median of busbw over all of that shape, this one included", unit = "bytes/s" }
ratio = { type = "DOUBLE", doc = "busbw over that median", unit = "ratio" }
lost_s = { type = "DOUBLE", doc = "what the recorded operations took beyond the peers' median; 0 if faster", unit = "s" }
seen_rank_ratio = { type = "DOUBLE", doc = "ranks with records of n_ranks: who left none cannot be named", unit = "ratio" }
first_ts = { type = "TIMESTAMP", doc = "first dump with these operations" }
last_ts = { type = "TIMESTAMP", doc = "last one" }
verdict = { type = "VARCHAR", doc = "slow (ratio below max_slow_ratio), normal (at least min_normal_ratio), unclear (between), not_evaluable (too few peers, or a message so small that latency rules)" }

[params.min_op_count]
default = 20
doc = "count; fewer operations of a size give no row. As for steps: at 20 the interval of the median is the 5th to 16th."
[params.min_size_bytes]
default = 1048576
doc = "bytes; below, latency rules and bandwidth says nothing of a link. On the public nccl-tests tables of 8 A100 busbw recomputes within 0.044 % from 1 MiB on."
[params.min_peers]
default = 3
doc = "count; with fewer peers nobody knows which one is off."
[params.max_slow_ratio]
default = 0.85
doc = "ratio; materiality first. A link at half speed, one of eight rails lost, or a fall-back to sockets costs more than 15 %; contention of a shared fabric commonly costs up to 10 %. Own choice."
[params.min_normal_ratio]
default = 0.93
doc = "ratio; as good as its peers. Between the two nothing is concluded."
*/
WITH record AS (
    SELECT
        *,
        date_trunc('day', dump_ts)::TIMESTAMP AS day_ts,
        if(is_p2p, 'send_recv', function) AS operation,
        CASE WHEN NOT is_p2p THEN -1 WHEN function = 'send' THEN comm_rank ELSE p2p_peer END
            AS sender,
        CASE WHEN NOT is_p2p THEN -1 WHEN function = 'send' THEN p2p_peer ELSE comm_rank END
            AS receiver,
        coalesce(timing_source, 'unknown') AS timed_by,
        coalesce(algorithm, 'unknown') AS known_algorithm,
        coalesce(protocol, 'unknown') AS known_protocol
    FROM collective_perf
    WHERE busbw_bytes_per_s > 0 AND size_bytes > 0 AND exec_s > 0
),

member AS (
    SELECT DISTINCT cluster, day_ts, job_id, comm_id, comm_rank, node
    FROM record
),

-- One value per collective (its fastest rank), one per record of a pair.
op AS (
    SELECT
        cluster, day_ts, job_id, comm_id, operation, sender, receiver, size_bytes, timed_by,
        known_algorithm, known_protocol, seq, if(is_p2p, comm_rank, -1) AS side,
        max(n_ranks) AS n_ranks,
        max(n_nodes) AS n_nodes,
        max(busbw_bytes_per_s) AS busbw,
        min(exec_s) AS exec_s,
        min(dump_ts) AS first_ts,
        max(dump_ts) AS last_ts
    FROM record
    WHERE sender IS NOT NULL AND receiver IS NOT NULL
    GROUP BY ALL
),

flow AS (
    SELECT
        cluster, day_ts, job_id, comm_id, operation, sender, receiver, size_bytes, timed_by,
        known_algorithm, known_protocol,
        max(n_ranks) AS comm_ranks,
        max(n_nodes) AS comm_nodes,
        count(*) AS op_count,
        if(sender < 0, quantile_cont(busbw, 0.5), quantile_cont(busbw, 0.9)) AS busbw,
        if(sender < 0, quantile_cont(exec_s, 0.5), quantile_cont(exec_s, 0.1)) AS exec_s,
        min(first_ts) AS first_ts,
        max(last_ts) AS last_ts
    FROM op
    GROUP BY cluster, day_ts, job_id, comm_id, operation, sender, receiver, size_bytes, timed_by,
        known_algorithm, known_protocol
    HAVING count(*) >= getvariable('min_op_count')
),

located AS (
    SELECT
        cluster, day_ts, job_id, comm_id, operation, sender, receiver,
        list_sort(list(DISTINCT node)) AS nodes,
        count(DISTINCT comm_rank) AS seen_ranks
    FROM (
        SELECT DISTINCT cluster, day_ts, job_id, comm_id, operation, sender, receiver
        FROM flow
    )
    JOIN member USING (cluster, day_ts, job_id, comm_id)
    WHERE sender < 0 OR comm_rank IN (sender, receiver)
    GROUP BY ALL
),

placed AS (
    SELECT
        *,
        if(sender < 0, comm_ranks, 2) AS n_ranks,
        if(sender < 0, comm_nodes, if(seen_ranks = 2, len(nodes), NULL))::INTEGER AS n_nodes
    FROM flow
    JOIN located USING (cluster, day_ts, job_id, comm_id, operation, sender, receiver)
),

compared AS (
    SELECT
        *,
        count(*) OVER same_shape - 1 AS peer_count,
        median(busbw) OVER same_shape AS peer_busbw,
        busbw / peer_busbw AS ratio
    FROM placed
    WINDOW same_shape AS (
        PARTITION BY cluster, day_ts, operation, size_bytes, timed_by, known_algorithm,
            known_protocol, n_ranks, n_nodes
    )
)

SELECT
    cluster, day_ts, job_id, comm_id, operation AS function, sender AS sender_comm_rank,
    receiver AS receiver_comm_rank, size_bytes, timed_by AS timing_source,
    known_algorithm AS algorithm, known_protocol AS protocol, n_ranks, n_nodes, nodes, op_count,
    busbw AS busbw_bytes_per_s, exec_s, peer_count, peer_busbw AS peer_busbw_bytes_per_s, ratio,
    greatest(exec_s * (1 - ratio), 0) * op_count AS lost_s,
    seen_ranks / n_ranks AS seen_rank_ratio,
    first_ts, last_ts,
    CASE
        WHEN peer_count < getvariable('min_peers') OR size_bytes < getvariable('min_size_bytes')
            OR n_nodes IS NULL THEN 'not_evaluable'
        WHEN ratio < getvariable('max_slow_ratio') THEN 'slow'
        WHEN ratio >= getvariable('min_normal_ratio') THEN 'normal'
        ELSE 'unclear'
    END AS verdict
FROM compared
