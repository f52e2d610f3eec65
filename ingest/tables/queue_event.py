"""Contract of `queue_event`: what happened to a job between its submission and its end."""

from fleetmark.table import Column, Table

KINDS = (
    "submitted", "waiting", "eligible", "quota_reserved", "admitted", "bound", "pulling", "pulled",
    "started", "pods_ready", "pods_not_ready", "preempted", "evicted", "requeued", "suspended",
    "resumed", "resized", "restarted", "failed", "finished", "deleted", "other",
)  # fmt: skip

QUEUE_EVENT = Table(
    name="queue_event",
    doc=(
        "One row per moment in the life of a job or of one of its pods, from schedulers that record "
        "it. Kubernetes keeps only the last transition of each condition and events for an hour: what "
        "was not collected in time is missing, so counts from here are lower bounds."
    ),
    grain=("cluster", "job_id", "pod", "kind", "ts"),
    time="ts",
    sort=("cluster", "ts", "job_id"),
    latest=("count", "field_count"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the job"),
        Column(
            "job_id",
            "VARCHAR",
            "job_attempt.job_id; on Kubernetes NAMESPACE/NAME of the job that the pods belong to",
        ),
        Column("pod", "VARCHAR", "pod it happened to; '' for the job as a whole"),
        Column("kind", "VARCHAR", "what happened: " + " ".join(KINDS)),
        Column("ts", "TIMESTAMP", "when"),
        Column(
            "ts_precision_s",
            "DOUBLE",
            "how finely the time was recorded; events within it may stand in either order",
            unit="s",
        ),
        Column("attempt", "BIGINT", "job_attempt.attempt, where the record tells", unit="s"),
        Column("raw_job_id", "VARCHAR", "uid of the job object, as in job_attempt"),
        Column("workload", "VARCHAR", "name of the scheduler's own object: Workload, PodGroup"),
        Column("queue", "VARCHAR", "queue that users name: LocalQueue, Volcano or YuniKorn queue"),
        Column("cluster_queue", "VARCHAR", "queue that holds the quota, as in `quota`"),
        Column("flavor", "VARCHAR", "resource flavor assigned to the GPUs, as in `quota`"),
        Column("node", "VARCHAR", "node, of events of pods"),
        Column("reason", "VARCHAR", "reason as the scheduler wrote it; `reason_class` sorts them"),
        Column("message", "VARCHAR", "message as written"),
        Column("preemptor_job_id", "VARCHAR", "job it had to make room for, where the file names it"),
        Column("preemptor_uid", "VARCHAR", "uid of that job (raw_job_id), or of its Workload"),
        Column("duration_s", "DOUBLE", "length, of image pulls that tell it", unit="s"),
        Column(
            "count",
            "BIGINT",
            "times it happened up to `ts` (Kubernetes merges like events); NULL: once",
            unit="count",
        ),
        Column("first_ts", "TIMESTAMP", "first of these times"),
        Column(
            "is_inferred", "BOOLEAN", "true when the time was not recorded but follows from another"
        ),
        Column("field_count", "INTEGER", "how many of these columns the record filled"),
        Column("source", "VARCHAR", "k8s kueue volcano yunikorn ray"),
    ),
)  # fmt: skip
