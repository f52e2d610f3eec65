"""`rank_map`: what one source says about where a rank of a communicator lives."""

from __future__ import annotations

from fleetmark.table import Column, Table

RANK_MAP = Table(
    name="rank_map",
    doc="Who a rank is, as each source states it: one row per process, communicator and source. "
    "Nothing is inferred here; the model rank_identity joins the statements and shows where they "
    "contradict each other.",
    grain=("cluster", "job_id", "attempt", "origin", "node", "pid", "comm_id", "comm_rank"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job; `unknown` where nobody stated it"),
        Column(
            "attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"
        ),
        Column("origin", "VARCHAR", "source that says so: nccl_ras, nccl_debug, kineto, ..."),
        Column("node", "VARCHAR", "host of the process; `unknown` where the source names none"),
        Column("pid", "BIGINT", "process on that host; -1 where the source names none"),
        Column("address", "VARCHAR", "an address of the host, by which other sources may name it"),
        Column(
            "comm_id",
            "VARCHAR",
            "communicator: 0x and 16 hexadecimal digits; `local:0x...` is a pointer that holds in "
            "this process only; empty where the statement is about the process alone",
        ),
        Column("comm_rank", "INTEGER", "rank inside the communicator; -1 without communicator"),
        Column("n_ranks", "INTEGER", "ranks of the communicator", "count"),
        Column("rank", "INTEGER", "global rank, where the source states it"),
        Column("world_size", "INTEGER", "ranks of the job, where the source states it", "count"),
        Column("parent_comm_id", "VARCHAR", "communicator it was split from"),
        Column("cuda_device", "INTEGER", "device as the process numbers it"),
        Column("nvml_device", "INTEGER", "device as the driver numbers it: gpu_sample.gpu_index"),
        Column("pci_bus_id", "VARCHAR", "0000:4c:00.0, lower case"),
        Column("gpu_uuid", "VARCHAR", "the GPU's UUID, with the prefix GPU-"),
        Column(
            "stated_ts", "TIMESTAMP", "when it was first stated; NULL where the log has no clock"
        ),
    ),
    sort=("job_id", "comm_id", "comm_rank"),
)
