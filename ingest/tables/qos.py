"""Contract of `qos`: limits and priority of a quality of service at one moment."""

from fleetmark.table import Column, Table

_GPU_LIMITS = (
    ("grp_gpus", "GPUs all its jobs together may hold"),
    ("max_gpus_per_job", "GPUs a job may hold"),
    ("max_gpus_per_user", "GPUs a user's jobs may hold"),
    ("max_gpus_per_account", "GPUs an account's jobs may hold"),
    ("min_gpus", "GPUs a job must ask for"),
)

QOS = Table(
    name="qos",
    doc="One row per quality of service and time of observation. A limit that is NULL is not set.",
    grain=("cluster", "qos", "ts"),
    time="ts",
    sort=("cluster", "ts", "qos"),
    columns=(
        Column("cluster", "VARCHAR", "cluster (or accounting database) the output came from"),
        Column("qos", "VARCHAR", "name"),
        Column("ts", "TIMESTAMP", "when it was seen so"),
        Column("priority", "BIGINT", "priority"),
        Column("preempts", "VARCHAR[]", "qualities of service whose jobs it may preempt"),
        Column("preempt_mode", "VARCHAR", "what happens to its own jobs when preempted"),
        Column("grace_s", "BIGINT", "time between signal and preemption", unit="s"),
        Column("flags", "VARCHAR[]", "OverPartQOS DenyOnLimit NoDecay ..."),
        Column("usage_factor_ratio", "DOUBLE", "what its usage counts for", unit="ratio"),
        *(
            Column(name, "INTEGER", f"{doc}; NULL: no limit", unit="count")
            for name, doc in _GPU_LIMITS
        ),
        Column("grp_tres", "VARCHAR", "limit on all its jobs together, as written"),
        Column("grp_tres_minutes", "VARCHAR", "limit on resource minutes used, as written"),
        Column("max_tres_per_job", "VARCHAR", "limit of a job, as written"),
        Column("max_tres_per_user", "VARCHAR", "limit of a user, as written"),
        Column("max_tres_per_account", "VARCHAR", "limit of an account, as written"),
        Column("grp_jobs", "BIGINT", "running jobs together", unit="count"),
        Column("grp_submit_jobs", "BIGINT", "jobs in the queue together", unit="count"),
        Column("max_jobs_per_user", "BIGINT", "running jobs of a user", unit="count"),
        Column("max_submit_jobs_per_user", "BIGINT", "jobs of a user in the queue", unit="count"),
        Column("max_wall_s", "BIGINT", "longest time limit", unit="s"),
        Column("source", "VARCHAR", "slurm_sacctmgr"),
    ),
)
