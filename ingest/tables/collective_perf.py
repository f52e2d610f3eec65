"""`collective_perf`: how long one operation of a communicator took on one rank."""

from __future__ import annotations

from fleetmark.table import Column, Table

COLLECTIVE_PERF = Table(
    name="collective_perf",
    doc="Timed collective and point-to-point operations, one row per operation and rank that "
    "recorded it. Recorders sample: what is missing may have happened, and gaps in `seq` say how "
    "much (collective_perf_day). Ranks are those of the communicator, not global ones.",
    grain=("cluster", "node", "pid", "comm_id", "comm_rank", "function", "seq"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("node", "VARCHAR", "host of the process"),
        Column("pid", "BIGINT", "process on that host"),
        Column(
            "comm_id",
            "VARCHAR",
            "communicator as the record spells it; the recorder cuts the 16 hexadecimal digits of "
            "other sources to their first 14: join by prefix",
        ),
        Column("comm_rank", "INTEGER", "rank inside the communicator"),
        Column(
            "function",
            "VARCHAR",
            "all_reduce, all_gather, reduce_scatter, broadcast, reduce, all_to_all, send, recv, ...",
        ),
        Column(
            "seq",
            "BIGINT",
            "sequence number: per communicator and function; sends and receives share one per "
            "communicator",
        ),
        Column(
            "dump_ts",
            "TIMESTAMP",
            "when the recorder wrote the record down, not when the operation ran; that was "
            "earlier, by up to the dump interval or the length of the job",
        ),
        Column("job_id", "VARCHAR", "job; `unknown` where nobody stated it", null=False),
        Column("attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where not stated"),
        Column("comm_name", "VARCHAR", "what the framework calls the communicator"),
        Column("n_ranks", "INTEGER", "ranks of the communicator", "count"),
        Column("n_nodes", "INTEGER", "nodes they are on", "count"),
        Column("is_p2p", "BOOLEAN", "point-to-point rather than collective", null=False),
        Column("p2p_peer", "INTEGER", "rank inside the communicator at the other end"),
        Column(
            "size_bytes",
            "BIGINT",
            "message as recorded: of one rank for all_gather and reduce_scatter, whole for others",
            "bytes",
        ),
        Column("exec_s", "DOUBLE", "duration", "s"),
        Column(
            "timing_source",
            "VARCHAR",
            "kernel_gpu (a duration on the GPU), kernel_cpu or collective_cpu (as the CPU saw it, "
            "launch and polling included)",
        ),
        Column("algorithm", "VARCHAR", "RING, TREE, ...; recorded by newer versions only"),
        Column("protocol", "VARCHAR", "SIMPLE, LL, LL128; recorded by newer versions only"),
        Column(
            "algbw_bytes_per_s",
            "DOUBLE",
            "size of the whole operation / duration as recorded, 1 GB/s = 1e9; NULL where the "
            "recorder had no formula (it writes 0 or nan)",
            "bytes/s",
        ),
        Column(
            "busbw_bytes_per_s",
            "DOUBLE",
            "algbw times the function's factor as recorded, 1 GB/s = 1e9",
            "bytes/s",
        ),
        Column(
            "busbw_computed_bytes_per_s",
            "DOUBLE",
            "the same from size, duration and ranks: size x 2(n-1)/n for all_reduce, size x (n-1) for "
            "all_gather, reduce_scatter, all_to_all, gather and scatter (size is one rank's share), "
            "size for broadcast, reduce, send and recv, each / duration; NULL without duration",
            "bytes/s",
        ),
    ),
    time="dump_ts",
    sort=("comm_id", "function", "comm_rank", "seq"),
)
