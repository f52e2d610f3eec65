"""`nccl_log_event`: facts that the communication library printed."""

from __future__ import annotations

from fleetmark.table import Column, Table

NCCL_LOG_EVENT = Table(
    name="nccl_log_event",
    doc="Facts from the text that NCCL, its monitor and PyTorch's watchdog print, one row per "
    "fact. Most lines carry no time: `ts` is NULL there, and order holds within one process only.",
    grain=("cluster", "job_id", "attempt", "log_name", "log_line", "event_no"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job; `unknown` where nobody stated it"),
        Column(
            "attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"
        ),
        Column("log_name", "VARCHAR", "name of the log file"),
        Column("log_line", "BIGINT", "line that says so, from 1"),
        Column("event_no", "INTEGER", "which of the line's facts, from 1: ranks tear lines apart"),
        Column("ts", "TIMESTAMP", "time of the line, UTC; NULL where it has none"),
        Column(
            "event",
            "VARCHAR",
            "version, bootstrap, network, network_missing, init_start, init_complete, "
            "destroy_complete, abort_complete (and their starts), init_timing, "
            "ring, channel, channel_count, operation, tuning, link_speed_change, device_failed, "
            "watchdog_timeout, watchdog_state, warning; from the monitor: peer_dead and others",
            null=False,
        ),
        Column("level", "VARCHAR", "INFO, WARN, TRACE, ...; NULL where the line has none"),
        Column("node", "VARCHAR", "host that printed it"),
        Column("pid", "BIGINT", "process on that host"),
        Column("tid", "BIGINT", "thread of the process"),
        Column("cuda_device", "INTEGER", "device as the process numbers it"),
        Column("nvml_device", "INTEGER", "device as the driver numbers it"),
        Column("pci_bus_id", "VARCHAR", "0000:4c:00.0, lower case"),
        Column("rank", "INTEGER", "global rank; stated by the watchdog only"),
        Column("comm_id", "VARCHAR", "communicator, as in rank_map"),
        Column("comm_rank", "INTEGER", "rank inside the communicator"),
        Column(
            "comm_pointer",
            "VARCHAR",
            "the communicator in this process: 0x...; others use the same, and it is used again "
            "after a destroy",
        ),
        Column("n_ranks", "INTEGER", "ranks of the communicator", "count"),
        Column("pg_name", "VARCHAR", "process group, as the watchdog numbers or names it"),
        Column("pg_desc", "VARCHAR", "what the framework calls the group"),
        Column("peer_comm_rank", "INTEGER", "rank at the other end of a channel"),
        Column("direction", "VARCHAR", "send or receive: this process's end of a network channel"),
        Column(
            "transport",
            "VARCHAR",
            "P2P/IPC, P2P/CUMEM, SHM, NET/IB/0/GDRDMA, ... of a channel; IB, Socket, AWS Libfabric "
            "... of a network",
        ),
        Column("device", "VARCHAR", "network devices and ports: mlx5_0:1/IB mlx5_1:1/IB"),
        Column("address", "VARCHAR", "address of this host, which the monitor names it by"),
        Column("channel", "INTEGER", "number of the channel"),
        Column("ring_ranks", "INTEGER[]", "communicator ranks in the order of a ring"),
        Column("channel_count", "INTEGER", "channels of collectives", "count"),
        Column("p2p_channel_count", "INTEGER", "channels of sends and receives", "count"),
        Column("function", "VARCHAR", "all_reduce, all_gather, reduce_scatter, ..."),
        Column("seq", "BIGINT", "opCount of an operation, SeqNum of a timed-out one"),
        Column("last_enqueued_seq", "BIGINT", "newest operation enqueued, as the watchdog says"),
        Column("last_completed_seq", "BIGINT", "newest operation completed, as the watchdog says"),
        Column("element_count", "BIGINT", "elements of one rank's buffer", "count"),
        Column("size_bytes", "BIGINT", "one rank's buffer; NULL if its type is unknown", "bytes"),
        Column("dtype", "VARCHAR", "float32, bfloat16, int64, ..."),
        Column("root", "INTEGER", "root of a rooted operation, as a communicator rank"),
        Column("algorithm", "VARCHAR", "RING, TREE, NVLS, ..."),
        Column("protocol", "VARCHAR", "SIMPLE, LL, LL128"),
        Column("from_bytes_per_s", "DOUBLE", "link speed before the change", "bytes/s"),
        Column("to_bytes_per_s", "DOUBLE", "link speed since", "bytes/s"),
        Column("duration_s", "DOUBLE", "initialisation, or how long an operation had run", "s"),
        Column("timeout_s", "DOUBLE", "limit after which the watchdog gave up", "s"),
        Column("comm_lib_version", "VARCHAR", "version of NCCL: 2.21.5+cuda12.4"),
        Column("message", "VARCHAR", "the fact as printed, at most 1024 characters"),
    ),
    sort=("job_id", "node", "pid", "log_line"),
)
