"""Contract of `assoc`: share and limits of an account, or of a user in it, at one moment."""

from fleetmark.table import Column, Table

ASSOC = Table(
    name="assoc",
    doc=(
        "One row per association (cluster, account, user, partition) and time of observation. "
        "`principal` is '' for the account itself, `partition` is '' for all partitions. A limit "
        "that is NULL is not set here; parents' limits apply as well."
    ),
    grain=("cluster", "account", "principal", "partition", "ts"),
    time="ts",
    sort=("cluster", "ts", "account", "principal"),
    columns=(
        Column("cluster", "VARCHAR", "cluster the association holds for"),
        Column("account", "VARCHAR", "account"),
        Column("principal", "VARCHAR", "user; '' for the account itself"),
        Column("partition", "VARCHAR", "partition; '' for all"),
        Column("ts", "TIMESTAMP", "when it was seen so"),
        Column("parent_account", "VARCHAR", "account above it, where listed"),
        Column("share", "BIGINT", "fair-share weight among its siblings; NULL for `parent`"),
        Column("is_share_of_parent", "BOOLEAN", "true when its share is the account's (`parent`)"),
        Column("priority", "BIGINT", "priority added"),
        Column("grp_gpus", "INTEGER", "GPUs all its jobs may hold; NULL: no limit", unit="count"),
        Column("max_gpus_per_job", "INTEGER", "GPUs a job may hold; NULL: no limit", unit="count"),
        Column("grp_tres", "VARCHAR", "limit on all its jobs together, as written"),
        Column("grp_tres_minutes", "VARCHAR", "limit on resource minutes used, as written"),
        Column("max_tres_per_job", "VARCHAR", "limit of a job, as written"),
        Column("grp_jobs", "BIGINT", "running jobs together", unit="count"),
        Column("grp_submit_jobs", "BIGINT", "jobs in the queue together", unit="count"),
        Column("max_jobs", "BIGINT", "running jobs", unit="count"),
        Column("max_submit_jobs", "BIGINT", "jobs in the queue", unit="count"),
        Column("max_wall_s", "BIGINT", "longest time limit", unit="s"),
        Column("qos", "VARCHAR[]", "qualities of service it may use"),
        Column("default_qos", "VARCHAR", "quality of service of jobs that name none"),
        Column("source", "VARCHAR", "slurm_sacctmgr"),
    ),
)
