"""Contract of `partition_state`: a partition's limits and size at one moment."""

from fleetmark.table import Column, Table

PARTITION_STATE = Table(
    name="partition_state",
    doc="One row per partition and time of observation.",
    grain=("cluster", "partition", "ts"),
    time="ts",
    sort=("cluster", "ts", "partition"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("partition", "VARCHAR", "name"),
        Column("ts", "TIMESTAMP", "when it was seen so"),
        Column("state", "VARCHAR", "UP DOWN DRAIN INACTIVE"),
        Column("node_list", "VARCHAR[]", "nodes, expanded"),
        Column("node_count", "BIGINT", "nodes", unit="count"),
        Column("cpu_count", "BIGINT", "CPUs", unit="count"),
        Column("gpu_count", "INTEGER", "GPUs; NULL if its resources list none", unit="count"),
        Column("gpu_models", "VARCHAR[]", "models of the GPUs, where typed"),
        Column("gpu_model_counts", "INTEGER[]", "GPUs of each of gpu_models", unit="count"),
        Column("max_time_s", "BIGINT", "longest time limit; NULL if none", unit="s"),
        Column("default_time_s", "BIGINT", "time limit of jobs that ask for none", unit="s"),
        Column("max_nodes", "BIGINT", "most nodes of a job; NULL if no limit", unit="count"),
        Column("priority_tier", "BIGINT", "jobs of a higher tier go first, and may preempt"),
        Column("priority_factor", "BIGINT", "weight in a job's priority"),
        Column("preempt_mode", "VARCHAR", "what happens to its jobs when preempted"),
        Column("grace_s", "BIGINT", "time between signal and preemption", unit="s"),
        Column("qos", "VARCHAR", "quality of service that limits the partition"),
        Column("is_default", "BOOLEAN", "takes jobs that name no partition"),
        Column("source", "VARCHAR", "slurm_scontrol slurm_json"),
    ),
)
