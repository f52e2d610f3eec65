"""`collective_rate`: time and bandwidth of a function as a program sums it up."""

from __future__ import annotations

from fleetmark.table import Column, Table

COLLECTIVE_RATE = Table(
    name="collective_rate",
    doc="Times and bandwidths of collectives that a program reports without naming single "
    "operations: means of an interval or a run, single operations without sequence number, and "
    "counters of what a recorder saw and dropped.",
    grain=("cluster", "job_id", "attempt", "ts", "origin", "reporter", "function", "size_label", "report_no"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job; `unknown` where nobody stated it"),
        Column("attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"),
        Column("ts", "TIMESTAMP", "time of the report"),
        Column("origin", "VARCHAR", "nccl_inspector_prom or deepspeed_comms"),
        Column("reporter", "VARCHAR", "who reports: the GPU's UUID, or `rank N`"),
        Column("function", "VARCHAR", "all_reduce, all_gather, ..., or the program's own name in lower case"),
        Column("size_label", "VARCHAR", "message size as printed: 1MB, 4-5GB, 100.0 MB"),
        Column("report_no", "BIGINT", "line of the report: tells equal rows apart"),
        Column("statistic", "VARCHAR", "mean (of the operations of an interval or run), single (one operation) or total (counters)", null=False),
        Column("node", "VARCHAR", "host, where stated"),
        Column("gpu_uuid", "VARCHAR", "GPU, where stated"),
        Column("rank", "INTEGER", "global rank, where stated"),
        Column("comm_name", "VARCHAR", "what the framework calls the communicator"),
        Column("n_ranks", "INTEGER", "ranks of the communicator", "count"),
        Column("n_nodes", "INTEGER", "nodes they are on", "count"),
        Column("is_p2p", "BOOLEAN", "point-to-point rather than collective"),
        Column("size_bytes", "BIGINT", "message, or the bucket's lower bound; NULL if not readable", "bytes"),
        Column("algorithm", "VARCHAR", "RING, TREE, ..."),
        Column("protocol", "VARCHAR", "SIMPLE, LL, LL128"),
        Column("op_count", "BIGINT", "operations that the value rests on; NULL where not stated", "count"),
        Column("dropped_count", "BIGINT", "operations that the recorder overwrote before writing them down", "count"),
        Column("total_s", "DOUBLE", "time of all of them", "s"),
        Column("exec_s", "DOUBLE", "time of one, by statistic", "s"),
        Column("straggler_s", "DOUBLE", "mean wait for the last rank, where the program measured it", "s"),
        Column("algbw_bytes_per_s", "DOUBLE", "size of the operation / time as reported", "bytes/s"),
        Column("busbw_bytes_per_s", "DOUBLE", "bus bandwidth as reported", "bytes/s"),
    ),
    time="ts",
    sort=("job_id", "function", "ts"),
)  # fmt: skip
