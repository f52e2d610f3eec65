"""`trace_span`: a stretch of time on one rank's GPU, or one of its steps."""

from __future__ import annotations

from fleetmark.table import Column, Table

TRACE_SPAN = Table(
    name="trace_span",
    doc="Spans of profiler traces: steps, GPU kernels, collectives and copies, one row per span. "
    "Host operations are left out. Kernels of collectives include waiting for other ranks: their "
    "length is not a transfer time. Clocks are those of each host: never subtract times of two.",
    grain=("cluster", "job_id", "attempt", "rank", "ts", "span_no"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job; `unknown` where nobody stated it"),
        Column(
            "attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"
        ),
        Column("rank", "INTEGER", "global rank"),
        Column("ts", "TIMESTAMP", "start of the span by this host's clock; see time_basis"),
        Column("span_no", "BIGINT", "number of the event in its trace, from 1"),
        Column(
            "time_basis",
            "VARCHAR",
            "absolute: ts is a clock time; relative: only order and lengths hold; none: ts is when "
            "recording began, only the order of span_no holds",
            null=False,
        ),
        Column(
            "kind",
            "VARCHAR",
            "step, kernel (arithmetic on the GPU), collective (a communication kernel), "
            "communication_call (its issue by the host), copy, memset, annotation",
            null=False,
        ),
        Column("name", "VARCHAR", "name as recorded, at most 200 characters"),
        Column("step", "BIGINT", "step in whose span on the host it began; NULL outside of all"),
        Column("start_s", "DOUBLE", "start, seconds since the trace's first span; to 1 ns", "s"),
        Column("duration_s", "DOUBLE", "length", "s"),
        Column("node", "VARCHAR", "host of the process, where stated"),
        Column("pid", "BIGINT", "process on that host, where stated"),
        Column("cuda_device", "INTEGER", "device of a GPU span"),
        Column("stream", "BIGINT", "CUDA stream of a GPU span"),
        Column("correlation", "BIGINT", "ties a GPU span to its launch in the same trace"),
        Column("function", "VARCHAR", "all_reduce, all_gather, ... of a collective"),
        Column("algorithm", "VARCHAR", "RING, TREE, NVLS, ... where the kernel's name says"),
        Column("protocol", "VARCHAR", "SIMPLE, LL, LL128 where the kernel's name says"),
        Column("comm_id", "VARCHAR", "communicator, 0x and 16 hexadecimal digits, where stated"),
        Column("comm_rank", "INTEGER", "rank inside the communicator, where stated"),
        Column("pg_name", "VARCHAR", "process group"),
        Column("pg_desc", "VARCHAR", "what the framework calls the group"),
        Column("pg_size", "INTEGER", "ranks in the group", "count"),
        Column("seq", "BIGINT", "sequence number of the collective, where stated"),
        Column("dtype", "VARCHAR", "element type as recorded"),
        Column("input_element_count", "BIGINT", "elements in", "count"),
        Column("output_element_count", "BIGINT", "elements out", "count"),
        Column("size_bytes", "BIGINT", "size of the message, where stated in bytes", "bytes"),
    ),
    time="ts",
    sort=("job_id", "rank", "ts"),
)
