/*
doc = "Bus bandwidth of timed collective and point-to-point operations per day, communicator shape, function and size, with the share of operations that the records hold. The day is that of the dump, which may follow the operation. Quartiles are linear between values (quantile_cont)."
grain = ["cluster", "day_ts", "n_ranks", "n_nodes", "nvlink_domain_count", "function", "size_bucket_bytes", "timing_source", "algorithm", "protocol"]
time = "day_ts"
sort = ["function", "n_ranks", "size_bucket_bytes"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day of the dumps" }
n_ranks = { type = "INTEGER", doc = "ranks of the communicator; -1 where the record does not say", unit = "count" }
n_nodes = { type = "INTEGER", doc = "nodes of the communicator; -1 where the record does not say", unit = "count" }
nvlink_domain_count = { type = "INTEGER", doc = "NVLink domains those nodes belong to: inventory_gpu_span.nvlink_domain, where that is unknown the node itself; -1 where not every node of the communicator left a record that day", unit = "count" }
function = { type = "VARCHAR", doc = "collective_perf.function" }
size_bucket_bytes = { type = "BIGINT", doc = "largest power of two that is not above collective_perf.size_bytes; 0 for empty messages, -1 where the size is unknown", unit = "bytes" }
timing_source = { type = "VARCHAR", doc = "collective_perf.timing_source; `unknown` where the record does not say. Compare kernel_gpu only with kernel_gpu" }
algorithm = { type = "VARCHAR", doc = "collective_perf.algorithm; `unknown` in older records" }
protocol = { type = "VARCHAR", doc = "collective_perf.protocol; `unknown` in older records" }
op_count = { type = "BIGINT", doc = "records, one per operation and rank", unit = "count" }
comm_count = { type = "BIGINT", doc = "communicators", unit = "count" }
timed_op_count = { type = "BIGINT", doc = "of op_count those with a bus bandwidth, which the quartiles rest on", unit = "count" }
busbw_p25_bytes_per_s = { type = "DOUBLE", doc = "lower quartile of busbw over records, waiting for other ranks included", unit = "bytes/s" }
busbw_p50_bytes_per_s = { type = "DOUBLE", doc = "median", unit = "bytes/s" }
busbw_p75_bytes_per_s = { type = "DOUBLE", doc = "upper quartile", unit = "bytes/s" }
exec_p50_s = { type = "DOUBLE", doc = "median duration", unit = "s" }
compared_op_count = { type = "BIGINT", doc = "collectives (not records) of which at least two ranks left a timed record, which the transfer figures rest on; 0 for sends and receives", unit = "count" }
transfer_busbw_p25_bytes_per_s = { type = "DOUBLE", doc = "lower quartile over these collectives of the busbw of their fastest rank: it arrived last and waited for nobody, so its duration is the transfer. An upper bound of the waiting-free bandwidth where that rank left no record", unit = "bytes/s" }
transfer_busbw_p50_bytes_per_s = { type = "DOUBLE", doc = "median", unit = "bytes/s" }
transfer_busbw_p75_bytes_per_s = { type = "DOUBLE", doc = "upper quartile", unit = "bytes/s" }
disagreeing_op_count = { type = "BIGINT", doc = "records whose stated busbw is more than max_disagreement_ratio off what size, duration and ranks give: algbw = bytes / duration, bytes times n_ranks for all_gather and reduce_scatter, busbw = algbw times 2(n-1)/n for all_reduce, (n-1)/n for those two, 1 for broadcast and reduce (nccl-tests doc/PERFORMANCE.md). They stay in the figures; another formula was at work", unit = "count" }
coverage_ratio = { type = "DOUBLE", doc = "mean over the row's (communicator, rank) of records / (largest - smallest seq + 1) in the day, all sizes of the function together since they share one count (sends and receives share one too); what was lost before the first and after the last record shows nowhere", unit = "ratio" }
full_ring_count = { type = "BIGINT", doc = "of the row's (communicator, rank) those of which some dump holds a multiple of ring_size records: since NCCL 2.30.3 the recorder overwrites the oldest of 1024 without a word, so that these lost records that no gap shows, and coverage_ratio is an upper bound", unit = "count" }

[params.max_disagreement_ratio]
default = 0.02
doc = "ratio; durations are whole microseconds, which hides up to 1 % of an operation of 50 us and less of longer ones."
[params.ring_size]
default = 1024
doc = "count; records that NCCL Inspector's ring holds (NVIDIA/nccl v2.30.3, plugins/profiler/inspector)."
*/
WITH domain AS (
    SELECT cluster, node, max(nvlink_domain) AS nvlink_domain
    FROM inventory_gpu_span
    GROUP BY ALL
),

record AS (
    SELECT
        p.* REPLACE (
            coalesce(n_ranks, -1) AS n_ranks,
            coalesce(n_nodes, -1) AS n_nodes,
            coalesce(timing_source, 'unknown') AS timing_source,
            coalesce(algorithm, 'unknown') AS algorithm,
            coalesce(protocol, 'unknown') AS protocol
        ),
        date_trunc('day', dump_ts)::TIMESTAMP AS day_ts,
        coalesce(nvlink_domain, node) AS nvlink_domain,
        CASE
            WHEN size_bytes IS NULL THEN -1
            WHEN size_bytes <= 0 THEN 0
            -- Bits, not log2: its rounding puts 2^n - 1 into the next bucket.
            ELSE 1::BIGINT << (length(bin(size_bytes)) - 1)::BIGINT
        END AS size_bucket_bytes,
        if(is_p2p, 'p2p', function) AS counted_as,
        CASE function
            WHEN 'all_reduce' THEN 2 * (p.n_ranks - 1) / p.n_ranks
            WHEN 'all_gather' THEN p.n_ranks - 1
            WHEN 'reduce_scatter' THEN p.n_ranks - 1
            WHEN 'broadcast' THEN 1
            WHEN 'reduce' THEN 1
        END * size_bytes / nullif(exec_s, 0) AS derived_busbw_bytes_per_s
    FROM collective_perf AS p
    LEFT JOIN domain USING (cluster, node)
),

shape AS (
    SELECT
        cluster, day_ts, comm_id, n_ranks, n_nodes,
        if(
            count(DISTINCT node) >= n_nodes AND n_nodes > 0, count(DISTINCT nvlink_domain), -1
        )::INTEGER AS nvlink_domain_count
    FROM record
    GROUP BY cluster, day_ts, comm_id, n_ranks, n_nodes
),

shaped AS (
    SELECT *
    FROM record
    JOIN shape USING (cluster, day_ts, comm_id, n_ranks, n_nodes)
),

covered AS (
    SELECT
        cluster, day_ts, node, pid, comm_id, comm_rank, counted_as,
        count(*) / (max(seq)::DOUBLE - min(seq) + 1) AS coverage_ratio
    FROM shaped
    GROUP BY ALL
),

-- One dump of a process writes a communicator's records together, whatever their function.
full_ring AS (
    SELECT cluster, day_ts, node, pid, comm_id, comm_rank, true AS is_full
    FROM (
        SELECT cluster, day_ts, node, pid, comm_id, comm_rank, dump_ts, count(*) AS records
        FROM shaped
        GROUP BY ALL
    )
    WHERE records % getvariable('ring_size') = 0
    GROUP BY ALL
),

member AS (
    SELECT DISTINCT
        cluster, day_ts, n_ranks, n_nodes, nvlink_domain_count, function, size_bucket_bytes,
        timing_source, algorithm, protocol, node, pid, comm_id, comm_rank, counted_as
    FROM shaped
),

coverage AS (
    SELECT
        cluster, day_ts, n_ranks, n_nodes, nvlink_domain_count, function, size_bucket_bytes,
        timing_source, algorithm, protocol, avg(coverage_ratio) AS coverage_ratio,
        count(DISTINCT (node, pid, comm_id, comm_rank)) FILTER (is_full) AS full_ring_count
    FROM member
    JOIN covered USING (cluster, day_ts, node, pid, comm_id, comm_rank, counted_as)
    LEFT JOIN full_ring USING (cluster, day_ts, node, pid, comm_id, comm_rank)
    GROUP BY ALL
),

transfer AS (
    SELECT
        cluster, day_ts, n_ranks, n_nodes, nvlink_domain_count, function, size_bucket_bytes,
        timing_source, algorithm, protocol, comm_id, seq,
        max(busbw_bytes_per_s) AS busbw_bytes_per_s
    FROM shaped
    WHERE NOT is_p2p AND busbw_bytes_per_s IS NOT NULL
    GROUP BY ALL
    HAVING count(DISTINCT comm_rank) > 1
),

transferred AS (
    SELECT
        cluster, day_ts, n_ranks, n_nodes, nvlink_domain_count, function, size_bucket_bytes,
        timing_source, algorithm, protocol,
        count(*) AS compared_op_count,
        quantile_cont(busbw_bytes_per_s, 0.25) AS transfer_busbw_p25_bytes_per_s,
        quantile_cont(busbw_bytes_per_s, 0.5) AS transfer_busbw_p50_bytes_per_s,
        quantile_cont(busbw_bytes_per_s, 0.75) AS transfer_busbw_p75_bytes_per_s
    FROM transfer
    GROUP BY ALL
),

measured AS (
    SELECT
        cluster, day_ts, n_ranks, n_nodes, nvlink_domain_count, function, size_bucket_bytes,
        timing_source, algorithm, protocol,
        count(*) AS op_count,
        count(DISTINCT comm_id) AS comm_count,
        count(busbw_bytes_per_s) AS timed_op_count,
        quantile_cont(busbw_bytes_per_s, 0.25) AS busbw_p25_bytes_per_s,
        quantile_cont(busbw_bytes_per_s, 0.5) AS busbw_p50_bytes_per_s,
        quantile_cont(busbw_bytes_per_s, 0.75) AS busbw_p75_bytes_per_s,
        quantile_cont(exec_s, 0.5) AS exec_p50_s,
        count(*) FILTER (
            abs(busbw_bytes_per_s / nullif(derived_busbw_bytes_per_s, 0) - 1)
                > getvariable('max_disagreement_ratio')
        ) AS disagreeing_op_count
    FROM shaped
    GROUP BY ALL
)

SELECT measured.*, coverage_ratio, full_ring_count,
    coalesce(compared_op_count, 0) AS compared_op_count,
    transfer_busbw_p25_bytes_per_s, transfer_busbw_p50_bytes_per_s, transfer_busbw_p75_bytes_per_s
FROM measured
JOIN coverage
    USING (
        cluster, day_ts, n_ranks, n_nodes, nvlink_domain_count, function, size_bucket_bytes,
        timing_source, algorithm, protocol
    )
LEFT JOIN transferred
    USING (
        cluster, day_ts, n_ranks, n_nodes, nvlink_domain_count, function, size_bucket_bytes,
        timing_source, algorithm, protocol
    )
