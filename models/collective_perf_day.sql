/*
doc = "Bus bandwidth of timed collective and point-to-point operations per day, communicator shape, function and size, with the share of operations that the records hold. The day is that of the dump, which may follow the operation."
grain = ["cluster", "day_ts", "n_ranks", "n_nodes", "function", "size_bucket_bytes", "timing_source", "algorithm", "protocol"]
time = "day_ts"
sort = ["function", "n_ranks", "size_bucket_bytes"]

[columns]
cluster = { type = "VARCHAR", doc = "cluster" }
day_ts = { type = "TIMESTAMP", doc = "start of the UTC day of the dumps" }
n_ranks = { type = "INTEGER", doc = "ranks of the communicator; -1 where the record does not say", unit = "count" }
n_nodes = { type = "INTEGER", doc = "nodes of the communicator; -1 where the record does not say", unit = "count" }
function = { type = "VARCHAR", doc = "collective_perf.function" }
size_bucket_bytes = { type = "BIGINT", doc = "largest power of two that is not above collective_perf.size_bytes; 0 for empty messages, -1 where the size is unknown", unit = "bytes" }
timing_source = { type = "VARCHAR", doc = "collective_perf.timing_source; `unknown` where the record does not say. Compare kernel_gpu only with kernel_gpu" }
algorithm = { type = "VARCHAR", doc = "collective_perf.algorithm; `unknown` in older records" }
protocol = { type = "VARCHAR", doc = "collective_perf.protocol; `unknown` in older records" }
op_count = { type = "BIGINT", doc = "records, one per operation and rank", unit = "count" }
comm_count = { type = "BIGINT", doc = "communicators", unit = "count" }
timed_op_count = { type = "BIGINT", doc = "of op_count those with a bus bandwidth, which the quartiles rest on", unit = "count" }
busbw_p25_bytes_per_s = { type = "DOUBLE", doc = "lower quartile of busbw over records, linear between values", unit = "bytes/s" }
busbw_p50_bytes_per_s = { type = "DOUBLE", doc = "median", unit = "bytes/s" }
busbw_p75_bytes_per_s = { type = "DOUBLE", doc = "upper quartile", unit = "bytes/s" }
exec_p50_s = { type = "DOUBLE", doc = "median duration", unit = "s" }
coverage_ratio = { type = "DOUBLE", doc = "mean over the row's (communicator, rank) of records / (largest - smallest seq + 1) in the day, all sizes of the function together since they share one count (sends and receives share one too); what was lost before the first and after the last record shows nowhere", unit = "ratio" }
*/
WITH record AS (
    SELECT
        * REPLACE (
            coalesce(n_ranks, -1) AS n_ranks,
            coalesce(n_nodes, -1) AS n_nodes,
            coalesce(timing_source, 'unknown') AS timing_source,
            coalesce(algorithm, 'unknown') AS algorithm,
            coalesce(protocol, 'unknown') AS protocol
        ),
        date_trunc('day', dump_ts)::TIMESTAMP AS day_ts,
        CASE
            WHEN size_bytes IS NULL THEN -1
            WHEN size_bytes <= 0 THEN 0
            -- Bits, not log2: its rounding puts 2^n - 1 into the next bucket.
            ELSE 1::BIGINT << (length(bin(size_bytes)) - 1)::BIGINT
        END AS size_bucket_bytes,
        if(is_p2p, 'p2p', function) AS counted_as
    FROM collective_perf
),

covered AS (
    SELECT
        cluster, day_ts, node, pid, comm_id, comm_rank, counted_as,
        count(*) / (max(seq)::DOUBLE - min(seq) + 1) AS coverage_ratio
    FROM record
    GROUP BY ALL
),

member AS (
    SELECT DISTINCT
        cluster, day_ts, n_ranks, n_nodes, function, size_bucket_bytes, timing_source, algorithm,
        protocol, node, pid, comm_id, comm_rank, counted_as
    FROM record
),

coverage AS (
    SELECT
        cluster, day_ts, n_ranks, n_nodes, function, size_bucket_bytes, timing_source, algorithm,
        protocol, avg(coverage_ratio) AS coverage_ratio
    FROM member
    JOIN covered USING (cluster, day_ts, node, pid, comm_id, comm_rank, counted_as)
    GROUP BY ALL
),

measured AS (
    SELECT
        cluster, day_ts, n_ranks, n_nodes, function, size_bucket_bytes, timing_source, algorithm,
        protocol,
        count(*) AS op_count,
        count(DISTINCT comm_id) AS comm_count,
        count(busbw_bytes_per_s) AS timed_op_count,
        quantile_cont(busbw_bytes_per_s, 0.25) AS busbw_p25_bytes_per_s,
        quantile_cont(busbw_bytes_per_s, 0.5) AS busbw_p50_bytes_per_s,
        quantile_cont(busbw_bytes_per_s, 0.75) AS busbw_p75_bytes_per_s,
        quantile_cont(exec_s, 0.5) AS exec_p50_s
    FROM record
    GROUP BY ALL
)

SELECT *
FROM measured
JOIN coverage
    USING (
        cluster, day_ts, n_ranks, n_nodes, function, size_bucket_bytes, timing_source, algorithm,
        protocol
    )
