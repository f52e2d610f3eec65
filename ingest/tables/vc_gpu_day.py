"""Contract of `vc_gpu_day`: how many GPUs a virtual cluster owned on a day."""

from fleetmark.table import Column, Table

VC_GPU_DAY = Table(
    name="vc_gpu_day",
    doc="One row per virtual cluster and day: GPUs it owned, from the operator's count file.",
    grain=("cluster", "vc", "day_ts"),
    time="day_ts",
    sort=("cluster", "day_ts", "vc"),
    columns=(
        Column("cluster", "VARCHAR", "cluster the virtual cluster is part of"),
        Column("vc", "VARCHAR", "virtual cluster"),
        Column("day_ts", "TIMESTAMP", "start of the day, on the clock of the data set"),
        Column("gpu_count", "INTEGER", "GPUs the virtual cluster owned", unit="count"),
    ),
)
