"""Contract of `node_state`: what a scheduler said about a node at one moment."""

from fleetmark.table import Column, Table

NODE_STATE = Table(
    name="node_state",
    doc=(
        "One row per node and time of observation. Observations, not intervals: what a node did "
        "between two of them is not known from here. Slurm's own record of the times out of service "
        "is `node_event`."
    ),
    grain=("cluster", "node", "ts"),
    time="ts",
    sort=("cluster", "ts", "node"),
    latest=("field_count",),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the node"),
        Column("node", "VARCHAR", "node name"),
        Column("ts", "TIMESTAMP", "when it was so"),
        Column(
            "state",
            "VARCHAR",
            "IDLE ALLOCATED MIXED DOWN ERROR FUTURE UNKNOWN; NULL where the short form does not say "
            "(sinfo's `drained` may be idle or down; Kubernetes without the pods)",
        ),
        Column(
            "state_flags",
            "VARCHAR[]",
            "DRAIN NOT_RESPONDING COMPLETING MAINTENANCE RESERVED PLANNED FAIL POWERED_DOWN "
            "POWERING_UP POWERING_DOWN POWER_DOWN REBOOT_REQUESTED REBOOT_ISSUED INVALID_REG BLOCKED "
            "CLOUD ...; sorted",
        ),
        Column("native_state", "VARCHAR", "state as the scheduler wrote it"),
        Column(
            "is_schedulable",
            "BOOLEAN",
            "may take new jobs outside reservations: idle, mixed or allocated and no flag that keeps "
            "jobs away. An idle node that drains is not",
        ),
        Column("reason", "VARCHAR", "why it is out of service, as written"),
        Column("reason_ts", "TIMESTAMP", "when the reason was set"),
        Column("reason_principal", "VARCHAR", "who set it"),
        Column("gpu_count", "INTEGER", "GPUs configured; MIG instances count each", unit="count"),
        Column(
            "gpu_usable_count",
            "INTEGER",
            "GPUs that the scheduler may give out: fewer than gpu_count when some are unhealthy (Kubernetes)",
            unit="count",
        ),
        Column("gpu_used_count", "INTEGER", "GPUs allocated to jobs", unit="count"),
        Column(
            "gpu_count_source",
            "VARCHAR",
            "tres_generic, tres_typed, gres, as_given (see job_attempt), k8s_capacity; NULL where nothing was listed",
        ),
        Column("gpu_models", "VARCHAR[]", "models of the configured GPUs, where typed"),
        Column("gpu_model_counts", "INTEGER[]", "GPUs of each of gpu_models", unit="count"),
        Column("gres", "VARCHAR", "generic resources configured, as written"),
        Column("gres_used", "VARCHAR", "generic resources in use, as written, with GPU indices"),
        Column("cpu_count", "BIGINT", "CPUs configured", unit="count"),
        Column("cpu_used_count", "BIGINT", "CPUs allocated", unit="count"),
        Column("cpu_load", "DOUBLE", "load average of the system"),
        Column("mem_bytes", "BIGINT", "memory configured", unit="bytes"),
        Column("mem_used_bytes", "BIGINT", "memory allocated to jobs", unit="bytes"),
        Column("mem_free_bytes", "BIGINT", "memory free by the system's count", unit="bytes"),
        Column("partitions", "VARCHAR[]", "partitions it belongs to, sorted"),
        Column("features", "VARCHAR[]", "active features (available ones if those are not given)"),
        Column("reservation", "VARCHAR", "reservation it is in now"),
        Column("boot_ts", "TIMESTAMP", "when the system booted"),
        Column("agent_start_ts", "TIMESTAMP", "when the scheduler's daemon on it started"),
        Column("agent_version", "VARCHAR", "release of that daemon"),
        Column("field_count", "INTEGER", "how many of these columns the record filled"),
        Column("source", "VARCHAR", "slurm_scontrol slurm_sinfo slurm_json k8s trace_openb"),
    ),
)
