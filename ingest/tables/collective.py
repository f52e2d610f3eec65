"""`collective`: one collective or point-to-point operation as one rank saw it."""

from __future__ import annotations

from fleetmark.table import Column, Table

_WHO = (
    Column("cluster", "VARCHAR", "cluster"),
    Column("job_id", "VARCHAR", "job; `unknown` where nobody stated it"),
    Column("attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"),
    Column("rank", "INTEGER", "global rank whose record this is"),
    Column("comm_rank", "INTEGER", "its rank inside the group"),
    Column("pg_name", "VARCHAR", "process group: its name, or the communicator's identity"),
    Column("pg_desc", "VARCHAR", "what the framework calls the group"),
    Column("pg_size", "INTEGER", "ranks in the group", "count"),
    Column("pg_id", "BIGINT", "number of the group inside this process; differs between ranks"),
)

_WHAT = (
    Column("record_id", "BIGINT", "number of the record in its recorder"),
    Column(
        "collective_seq_id",
        "BIGINT",
        "sequence number of the collective in its group; equal on all its ranks",
    ),
    Column("p2p_seq_id", "BIGINT", "sequence number among the group's point-to-point operations"),
    Column("op_id", "BIGINT", "sequence number among all operations of the group"),
    Column(
        "operation",
        "VARCHAR",
        "all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter, all_to_all, "
        "barrier, send, recv, or the record's own name in lower case",
    ),
    Column("backend", "VARCHAR", "library that carries it: nccl, gloo, ..."),
    Column("profiling_name", "VARCHAR", "the operation as the record spells it"),
    Column("is_p2p", "BOOLEAN", "point-to-point rather than collective"),
    Column("peer_rank", "INTEGER", "global rank at the other end of a send or recv"),
)

_WHEN = (
    Column("state", "VARCHAR", "scheduled, started or completed, as far as the recorder noticed"),
    Column("retired", "BOOLEAN", "the watchdog has stopped looking at it"),
    Column("ts", "TIMESTAMP", "when the CPU enqueued it"),
    Column("started_ts", "TIMESTAMP", "when the CPU noticed that it had started; late by nature"),
    Column("completed_ts", "TIMESTAMP", "when the CPU noticed that it had ended; late by nature"),
    Column("duration_s", "DOUBLE", "time on the GPU, waiting included; NULL without timing", "s"),
    Column("timeout_s", "DOUBLE", "after this the watchdog gives the job up", "s"),
)

_HOW_MUCH = (
    Column("input_sizes", "VARCHAR", "shapes of the inputs, JSON: [[4096, 1, 5120]]"),
    Column("output_sizes", "VARCHAR", "shapes of the outputs, JSON"),
    Column("input_dtypes", "VARCHAR[]", "element types of the inputs"),
    Column("output_dtypes", "VARCHAR[]", "element types of the outputs"),
    Column("input_bytes", "BIGINT", "this rank's inputs; NULL if a type is unknown", "bytes"),
    Column("output_bytes", "BIGINT", "this rank's outputs; NULL if a type is unknown", "bytes"),
)

_STATUS = (
    Column("last_enqueued_seq", "BIGINT", "newest collective of the group enqueued at the dump"),
    Column("last_started_seq", "BIGINT", "newest one started; NULL without timing"),
    Column("last_completed_seq", "BIGINT", "newest one completed"),
    Column("comm_lib_version", "VARCHAR", "version of the communication library"),
    Column("format_version", "VARCHAR", "version of the record's format"),
)

COLLECTIVE = Table(
    name="collective",
    doc="Collective and point-to-point operations, one row per operation and rank that recorded "
    "it. Recorders keep the newest operations only: what is missing may have happened.",
    grain=(
        "cluster", "job_id", "attempt", "rank", "pg_name", "operation", "record_id", "ts",
    ),
    columns=(*_WHO, *_WHAT, *_WHEN, *_HOW_MUCH, *_STATUS),
    time="ts",
    sort=("job_id", "rank", "ts"),
    latest=("last_completed_seq", "last_enqueued_seq", "completed_ts", "started_ts"),
)  # fmt: skip

COLLECTIVE_GROUP = Table(
    name="collective_group",
    doc="How far each rank got in each of its process groups when its state was dumped. A rank "
    "with no operation left in its recorder still has its rows here; a rank that left no dump "
    "has none, which is evidence too.",
    grain=("cluster", "job_id", "attempt", "rank", "pg_name"),
    columns=(
        *_WHO,
        Column("pg_ranks", "INTEGER[]", "global ranks of the group, in the order of comm_rank"),
        *_STATUS,
    ),
    sort=("job_id", "pg_name", "rank"),
    latest=("last_completed_seq", "last_enqueued_seq", "last_started_seq"),
)
