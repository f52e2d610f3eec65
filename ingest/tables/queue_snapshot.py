"""Contract of `queue_snapshot`: a job in the scheduler's queue at one moment."""

from fleetmark.table import Column, Table

QUEUE_SNAPSHOT = Table(
    name="queue_snapshot",
    doc=(
        "One row per job and time of observation: waiting jobs with their reason, priority and "
        "expected start, and the running ones beside them. An array's waiting tasks that the "
        "scheduler shows as one record are one row with `task_count`."
    ),
    grain=("cluster", "job_id", "ts"),
    time="ts",
    sort=("cluster", "ts", "job_id"),
    latest=("field_count",),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the job"),
        Column("job_id", "VARCHAR", "as in job_attempt; waiting tasks of an array: 15_[3-9]"),
        Column("ts", "TIMESTAMP", "when it was so"),
        Column("attempt", "BIGINT", "as in job_attempt: submit time, epoch seconds", unit="s"),
        Column("raw_job_id", "VARCHAR", "as in job_attempt; NULL for several tasks in one row"),
        Column("task_count", "BIGINT", "jobs this row stands for; NULL if not known", unit="count"),
        Column(
            "task_count_is_truncated", "BOOLEAN", "true when the list of tasks was cut: at least"
        ),
        Column("state", "VARCHAR", "as in job_attempt"),
        Column("native_state", "VARCHAR", "state as the scheduler wrote it"),
        Column("state_flags", "VARCHAR[]", "flags beside the state"),
        Column("state_reason", "VARCHAR", "why it waits, as written; NULL for none"),
        Column("job_name", "VARCHAR", "name"),
        Column("principal", "VARCHAR", "user"),
        Column("account", "VARCHAR", "account charged"),
        Column("partition", "VARCHAR", "partition, or several"),
        Column("qos", "VARCHAR", "quality of service"),
        Column("reservation", "VARCHAR", "reservation asked for"),
        Column("dependency", "VARCHAR", "what it depends on, as written"),
        Column("priority", "DOUBLE", "priority as shown: a whole number, or a share of 1"),
        Column("submit_ts", "TIMESTAMP", "when it entered the queue"),
        Column("eligible_ts", "TIMESTAMP", "from when it could have started"),
        Column("start_ts", "TIMESTAMP", "when it started; NULL while it waits"),
        Column(
            "expected_start_ts", "TIMESTAMP", "when the scheduler expects a waiting job to start"
        ),
        Column("timelimit_s", "BIGINT", "time limit; NULL if none", unit="s"),
        Column("req_nodes", "INTEGER", "nodes, as asked for or held", unit="count"),
        Column("req_cpus", "BIGINT", "CPUs, as asked for or held", unit="count"),
        Column("req_gpus", "INTEGER", "GPUs asked for; NULL if not listed", unit="count"),
        Column("alloc_gpus", "INTEGER", "GPUs held; NULL while it waits", unit="count"),
        Column("gpu_count_source", "VARCHAR", "of alloc_gpus, else of req_gpus; see job_attempt"),
        Column("gpu_models", "VARCHAR[]", "models asked for or held, where typed"),
        Column("gpu_model_counts", "INTEGER[]", "GPUs of each of gpu_models", unit="count"),
        Column("node_list", "VARCHAR[]", "nodes it holds, expanded"),
        Column(
            "gres_detail",
            "VARCHAR[]",
            "what it holds on each node, as written: gpu:h100:8(IDX:0-7)",
        ),
        Column("restart_count", "INTEGER", "restarts before this run"),
        Column("field_count", "INTEGER", "how many of these columns the record filled"),
        Column(
            "source", "VARCHAR", "slurm_squeue slurm_scontrol slurm_json kueue k8s volcano yunikorn"
        ),
    ),
)
