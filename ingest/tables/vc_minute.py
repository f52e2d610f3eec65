"""Contract of `vc_minute`: GPUs and jobs of a virtual cluster, minute by minute."""

from fleetmark.table import Column, Table

COUNT_COLUMNS = {
    "total_gpu_count": "GPUs the virtual cluster owns",
    "running_gpu_count": "GPUs that jobs hold",
    "idle_gpu_count": "GPUs that no job holds",
    "pending_gpu_count": "GPUs that waiting jobs ask for",
    "running_gpu_8plus_count": "GPUs held by jobs of 8 or more GPUs",
    "running_gpu_under8_count": "GPUs held by jobs of less than 8 GPUs",
    "pending_gpu_8plus_count": "GPUs asked for by waiting jobs of 8 or more GPUs",
    "pending_gpu_under8_count": "GPUs asked for by waiting jobs of less than 8 GPUs",
    "running_job_count": "jobs running, with and without GPUs",
    "pending_job_count": "jobs waiting, with and without GPUs",
    "running_gpu_job_count": "jobs running on GPUs",
    "pending_gpu_job_count": "jobs waiting for GPUs",
}

VC_MINUTE = Table(
    name="vc_minute",
    doc="One row per virtual cluster and minute: GPUs it owns, holds and waits for, and its jobs.",
    grain=("cluster", "vc", "ts"),
    time="ts",
    sort=("cluster", "vc", "ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster the virtual cluster is part of"),
        Column("vc", "VARCHAR", "virtual cluster (a group's share of the cluster)"),
        Column("ts", "TIMESTAMP", "the minute, on the clock of the data set, which states no zone"),
        *(Column(name, "INTEGER", doc, unit="count") for name, doc in COUNT_COLUMNS.items()),
        Column(
            "gpu_utilization_ratio",
            "DOUBLE",
            "running over total GPUs as the data set gives it, to three digits",
            unit="ratio",
        ),
    ),
)
