"""`comm_state`, `comm_function_count`: one look at every rank of every communicator."""

from __future__ import annotations

from fleetmark.table import Column, Table

_WHO = (
    Column("cluster", "VARCHAR", "cluster"),
    Column("job_id", "VARCHAR", "job; `unknown` where nobody stated it"),
    Column("attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"),
    Column("ts", "TIMESTAMP", "time of the snapshot"),
    Column(
        "comm_id",
        "VARCHAR",
        "communicator: 0x and 16 hexadecimal digits; `group:N:M` (group, communicator) where the "
        "snapshot shows no hash, which holds within this snapshot only",
    ),
)

COMM_STATE = Table(
    name="comm_state",
    doc="Ranks of communicators as a snapshot of the library's monitor (RAS) shows them, one row "
    "per rank and snapshot. The text form names only ranks that differ from the others, so a rank "
    "without a row there was as the rest. Ranks are answered one after the other: counts differ "
    "by work in flight.",
    grain=("cluster", "job_id", "attempt", "ts", "comm_id", "comm_rank"),
    columns=(
        *_WHO,
        Column("comm_rank", "INTEGER", "rank inside the communicator; negative where the text form counts ranks without naming them"),
        Column("comm_secondary_id", "VARCHAR", "0x...:0x...: with comm_id tells communicators apart"),
        Column("rank_count", "INTEGER", "ranks this row stands for: 1, but more where the text form names none", "count"),
        Column("n_ranks", "INTEGER", "ranks of the communicator", "count"),
        Column("answered_rank_count", "INTEGER", "ranks that answered the snapshot", "count"),
        Column("missing_rank_count", "INTEGER", "ranks that did not", "count"),
        Column("node", "VARCHAR", "host of the rank"),
        Column("pid", "BIGINT", "process on that host"),
        Column("cuda_device", "INTEGER", "device as the process numbers it"),
        Column("nvml_device", "INTEGER", "device as the driver numbers it: gpu_sample.gpu_index"),
        Column("is_missing", "BOOLEAN", "the rank did not answer"),
        Column("is_unresponsive", "BOOLEAN", "its process does not answer the monitor"),
        Column("is_dead", "BOOLEAN", "its process is considered dead (60 s without an answer)"),
        Column("init_state", "VARCHAR", "running, init, finalize, abort, unknown, no_comm"),
        Column("native_init_state", "INTEGER", "ncclResult of the initialisation: 0 done, 7 busy"),
        Column("async_error", "INTEGER", "ncclResult of the communicator: 0 none, 7 in progress"),
        Column("error", "VARCHAR", "the rank's error in the text form's words"),
        Column("finalize_called", "BOOLEAN", "the program asked to finalize"),
        Column("destroy_called", "BOOLEAN", "the program asked to destroy"),
        Column("abort_called", "BOOLEAN", "the program asked to abort"),
        Column("findings", "VARCHAR[]", "ok, incomplete, error, mismatch, dead, timeout ...: what the text form says of the communicator"),
        Column("collect_s", "DOUBLE", "time the snapshot took", "s"),
        Column("timeout_count", "INTEGER", "processes that did not answer in time", "count"),
        Column("comm_lib_version", "VARCHAR", "version of the communication library"),
    ),
    time="ts",
    sort=("job_id", "comm_id", "comm_rank", "ts"),
)  # fmt: skip

COMM_FUNCTION_COUNT = Table(
    name="comm_function_count",
    doc="Collectives that each rank had started on each communicator at a snapshot, one row per "
    "function. A rank behind the others in two snapshots by the same count hangs; by differing "
    "counts it is merely sampled at another instant.",
    grain=("cluster", "job_id", "attempt", "ts", "comm_id", "comm_rank", "function"),
    columns=(
        *_WHO,
        Column(
            "comm_rank",
            "INTEGER",
            "rank inside the communicator; negative where the text form counts ranks without "
            "naming them",
        ),
        Column("rank_count", "INTEGER", "ranks this row stands for", "count"),
        Column(
            "function",
            "VARCHAR",
            "all_reduce, all_gather, reduce_scatter, broadcast, ...; `all` before NCCL 2.26, "
            "whose text form counts all functions together",
        ),
        Column("op_count", "BIGINT", "operations started since the communicator exists", "count"),
        Column("n_ranks", "INTEGER", "ranks of the communicator", "count"),
        Column("node", "VARCHAR", "host of the rank"),
        Column("pid", "BIGINT", "process on that host"),
        Column("nvml_device", "INTEGER", "device as the driver numbers it: gpu_sample.gpu_index"),
    ),
    time="ts",
    sort=("job_id", "comm_id", "function", "comm_rank", "ts"),
)
