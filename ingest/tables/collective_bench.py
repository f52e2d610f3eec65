"""`collective_bench`: one size of one benchmark run of a collective."""

from __future__ import annotations

from fleetmark.table import Column, Table

COLLECTIVE_BENCH = Table(
    name="collective_bench",
    doc="Results of collective benchmarks, one row per measured size and placement of the buffers. "
    "Benchmarks print no time of day, so the table has no time column and `ts` only what was "
    "stated.",
    grain=("cluster", "run_id", "function", "size_bytes", "row_no", "placement"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column(
            "run_id",
            "VARCHAR",
            "the run, by the digest of its own lines: a second copy of the same output adds "
            "nothing; one that was cut is another run",
        ),
        Column(
            "function",
            "VARCHAR",
            "all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter, "
            "all_to_all, all_to_all_v, send_recv or hypercube",
        ),
        Column("size_bytes", "BIGINT", "size of the buffer as the benchmark counts it", "bytes"),
        Column(
            "row_no",
            "INTEGER",
            "which result of the run, from 1: runs repeat sizes (0 bytes, several iterations)",
        ),
        Column(
            "placement", "VARCHAR", "out_of_place (send and receive buffers differ) or in_place"
        ),
        Column("job_id", "VARCHAR", "job; `unknown` where nobody stated it", null=False),
        Column("ts", "TIMESTAMP", "when the run took place, as stated; NULL where it was not"),
        Column("count", "BIGINT", "elements, as the benchmark counts them", "count"),
        Column("dtype", "VARCHAR", "element type as printed: float, half, bfloat16, ..."),
        Column("redop", "VARCHAR", "reduction: sum, prod, ...; NULL where there is none"),
        Column("root", "INTEGER", "root rank; NULL where there is none or every rank takes turns"),
        Column("time_s", "DOUBLE", "mean time of one operation", "s"),
        Column(
            "time_source", "VARCHAR", "elapsed, or cpu where the benchmark was told to report that"
        ),
        Column("algbw_bytes_per_s", "DOUBLE", "size / time as printed, 1 GB/s = 1e9", "bytes/s"),
        Column(
            "busbw_bytes_per_s",
            "DOUBLE",
            "algbw times the function's factor as printed, 1 GB/s = 1e9: 2(n-1)/n for all_reduce, "
            "(n-1)/n for all_gather, reduce_scatter, all_to_all, gather and scatter, 1 for others",
            "bytes/s",
        ),
        Column(
            "wrong_count", "BIGINT", "wrong elements; NULL where results were not checked", "count"
        ),
        Column(
            "max_error",
            "DOUBLE",
            "largest deviation, which layouts until 2022 print in place of wrong elements",
        ),
        Column("n_ranks", "INTEGER", "ranks of one group; NULL where not all are listed", "count"),
        Column("group_count", "INTEGER", "groups that ran side by side", "count"),
        Column("nodes", "VARCHAR[]", "hosts the ranks ran on, as listed; empty where none is"),
        Column("gpu_models", "VARCHAR[]", "distinct models of the GPUs; empty where none is named"),
    ),
    sort=("function", "run_id", "row_no"),
)
