"""Contract of `reservation`: nodes set aside for a time."""

from fleetmark.table import Column, Table

RESERVATION = Table(
    name="reservation",
    doc="One row per reservation and time of observation.",
    grain=("cluster", "reservation", "ts"),
    time="ts",
    sort=("cluster", "ts", "reservation"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("reservation", "VARCHAR", "name"),
        Column("ts", "TIMESTAMP", "when it was seen so"),
        Column("start_ts", "TIMESTAMP", "start of the reserved time"),
        Column("end_ts", "TIMESTAMP", "end of the reserved time"),
        Column("state", "VARCHAR", "ACTIVE or INACTIVE, where shown"),
        Column("node_list", "VARCHAR[]", "nodes, expanded"),
        Column("node_count", "BIGINT", "nodes", unit="count"),
        Column("core_count", "BIGINT", "cores", unit="count"),
        Column("gpu_count", "INTEGER", "GPUs, where its resources list them", unit="count"),
        Column("partition", "VARCHAR", "partition"),
        Column("flags", "VARCHAR[]", "MAINT IGNORE_JOBS FLEX ..."),
        Column("principals", "VARCHAR[]", "users who may use it (a leading - excludes)"),
        Column("accounts", "VARCHAR[]", "accounts that may use it (a leading - excludes)"),
        Column("tres", "VARCHAR", "resources, as written"),
        Column("source", "VARCHAR", "slurm_scontrol slurm_json"),
    ),
)
