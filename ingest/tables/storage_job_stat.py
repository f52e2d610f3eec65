"""storage_job_stat: bytes and operations per job as a parallel file system's server counts them."""

from fleetmark.table import Column, Table

STORAGE_JOB_STAT = Table(
    name="storage_job_stat",
    doc="Counters of a file system server per job, since the entry was made or last cleared: "
    "differences between samples are what happened; a smaller value is a new start.",
    grain=("cluster", "target", "job_label", "ts"),
    time="ts",
    columns=(
        Column("cluster", "VARCHAR", "cluster the file system belongs to"),
        Column("target", "VARCHAR", "server target, e.g. lustrefs-OST0000"),
        Column("target_kind", "VARCHAR", "ost or mdt"),
        Column("job_label", "VARCHAR", "the server's job id as written; '' where it is empty"),
        Column("job_id", "VARCHAR", "scheduler job in it; NULL: not a job's number"),
        Column("command", "VARCHAR", "program in it, e.g. cp of cp.0; NULL: none"),
        Column("uid", "BIGINT", "user id in it, e.g. 1203 of rsync.1203; NULL: none"),
        Column("ts", "TIMESTAMP", "snapshot_time: when the entry last changed"),
        Column("start_ts", "TIMESTAMP", "start of the entry, where the server tells"),
        Column("read_bytes", "BIGINT", "bytes read", "bytes"),
        Column("write_bytes", "BIGINT", "bytes written", "bytes"),
        Column("read_count", "BIGINT", "read calls", "count"),
        Column("write_count", "BIGINT", "write calls", "count"),
        Column("open_count", "BIGINT", "opens (mdt)", "count"),
        Column("create_count", "BIGINT", "creates (mdt: mknod, ost: create)", "count"),
        Column("unlink_count", "BIGINT", "unlinks (mdt)", "count"),
        Column("getattr_count", "BIGINT", "attribute reads", "count"),
        Column("metadata_count", "BIGINT", "all metadata calls together", "count"),
    ),
)
