"""Contract of `quota`: what a queue may use of a resource, and what it uses, at one moment."""

from fleetmark.table import Column, Table

QUOTA = Table(
    name="quota",
    doc=(
        "One row per queue, flavor, resource and time of observation. GPUs and pods in counts, cpu in "
        "cores, memory and storage in bytes. A limit that is NULL is not set: no limit, or not shown."
    ),
    grain=("cluster", "queue_kind", "queue", "flavor", "resource", "observed_ts"),
    time="observed_ts",
    sort=("cluster", "observed_ts", "queue"),
    latest=("field_count",),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the queue"),
        Column(
            "queue_kind",
            "VARCHAR",
            "cluster_queue, local_queue, cohort (Kueue), resource_quota (a namespace), volcano, "
            "yunikorn, kai. Sum over one kind only: they count the same resources",
        ),
        Column("queue", "VARCHAR", "name; NAMESPACE/NAME of local queues and resource quotas"),
        Column("flavor", "VARCHAR", "resource flavor; '' where there are none"),
        Column("resource", "VARCHAR", "resource as Kubernetes names it: nvidia.com/gpu, cpu, memory"),
        Column(
            "observed_ts",
            "TIMESTAMP",
            "when it was so: the stated time of collection, else the latest time in the file",
        ),
        Column("cohort", "VARCHAR", "queues that lend to each other; of a queue in a tree its parent"),
        Column("cluster_queue", "VARCHAR", "of a local queue: the queue that holds its quota"),
        Column("is_gpu", "BOOLEAN", "true for whole GPUs and MIG instances, each counted as one"),
        Column("gpu_model", "VARCHAR", "model of the flavor's GPUs, where its labels name it"),
        Column("nominal", "DOUBLE", "own quota (guaranteed share; deserved in Volcano)"),
        Column("borrowing_limit", "DOUBLE", "most it may take from its cohort; NULL: no limit set"),
        Column("lending_limit", "DOUBLE", "most it lends to its cohort; NULL: all"),
        Column("max_limit", "DOUBLE", "most it may use in all (capability, max); NULL: none set"),
        Column("fair_weight", "DOUBLE", "weight in fair sharing", unit="ratio"),
        Column("weighted_share", "DOUBLE", "share in use over its weight, as the scheduler computed it"),
        Column("used", "DOUBLE", "used by admitted jobs; NULL if not shown"),
        Column("reserved", "DOUBLE", "reserved by jobs with quota, admitted or not"),
        Column("borrowed", "DOUBLE", "part of `used` that is beyond the own quota"),
        Column("pending_count", "BIGINT", "jobs waiting in the queue", unit="count"),
        Column("running_count", "BIGINT", "jobs admitted", unit="count"),
        Column("state", "VARCHAR", "active or stopped, with the scheduler's reason"),
        Column("priority", "BIGINT", "priority of the queue, where it has one"),
        Column("field_count", "INTEGER", "how many of these columns the record filled"),
        Column("source", "VARCHAR", "k8s kueue volcano yunikorn kai"),
    ),
)  # fmt: skip
