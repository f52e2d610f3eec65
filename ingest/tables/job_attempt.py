"""Contract of `job_attempt`: one run of a job, as its scheduler recorded it."""

from fleetmark.table import Column, Table

JOB_ATTEMPT = Table(
    name="job_attempt",
    doc=(
        "One row per attempt: a requeued, preempted or resized job has one for every run, and a job "
        "that never started has one without `start_ts`. Never steps."
    ),
    grain=("cluster", "job_id", "attempt"),
    time="attempt_ts",
    end="end_ts",
    observed="observed_ts",
    sort=("cluster", "attempt_ts", "job_id"),
    latest=("phase", "field_count", "observed_ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster the job was given to"),
        Column(
            "job_id",
            "VARCHAR",
            "job id as the scheduler shows it: 15_0 is task 0 of array 15, 19+1 part 1 of "
            "heterogeneous job 19; NAMESPACE/NAME on Kubernetes",
        ),
        Column(
            "attempt",
            "BIGINT",
            "which run of the job: its submit time in epoch seconds (a requeue resets it), else its "
            "start, else its end; grows from one attempt to the next. Slurm's own database keys "
            "records by job id and submit time. Of Kueue: creation of the Workload, after an eviction "
            "the time of the quota reservation",
            unit="s",
        ),
        Column("attempt_ts", "TIMESTAMP", "`attempt` as a time"),
        Column(
            "raw_job_id",
            "VARCHAR",
            "SLURM_JOB_ID of the run, which telemetry and logs carry; differs from job_id for array "
            "tasks and heterogeneous parts; on Kubernetes the uid of the job object",
        ),
        Column("array_job_id", "VARCHAR", "id of the array; NULL for jobs outside arrays"),
        Column("array_task_id", "BIGINT", "index in the array"),
        Column(
            "array_is_truncated",
            "BOOLEAN",
            "true when the record listed more waiting tasks than it had room for: the rows are a "
            "lower bound",
        ),
        Column("het_job_id", "VARCHAR", "id of the heterogeneous job this is a part of"),
        Column("het_offset", "INTEGER", "number of the part, from 0"),
        Column("job_name", "VARCHAR", "name given at submission"),
        Column("principal", "VARCHAR", "user who submitted it"),
        Column("uid", "BIGINT", "that user's numeric id"),
        Column("account", "VARCHAR", "account charged"),
        Column("partition", "VARCHAR", "partition (pending jobs may list several)"),
        Column("qos", "VARCHAR", "quality of service"),
        Column("reservation", "VARCHAR", "reservation it ran in"),
        Column("submit_ts", "TIMESTAMP", "when this attempt entered the queue"),
        Column(
            "eligible_ts", "TIMESTAMP", "from when it could have started (dependencies, begin time)"
        ),
        Column("start_ts", "TIMESTAMP", "start of the allocation; NULL if it never started"),
        Column("end_ts", "TIMESTAMP", "end; NULL while open or when the record has none"),
        Column(
            "observed_ts",
            "TIMESTAMP",
            "the record is known to have read so at this time: the stated collection time, else the "
            "latest time the record itself proves (end; start + suspended + elapsed; submit)",
        ),
        Column("phase", "TINYINT", "0 waiting, 1 started, 2 ended: decides which record is newer"),
        Column(
            "state",
            "VARCHAR",
            "PENDING RUNNING SUSPENDED COMPLETED FAILED CANCELLED TIMEOUT OUT_OF_MEMORY NODE_FAIL "
            "PREEMPTED BOOT_FAIL DEADLINE REQUEUED UNKNOWN",
        ),
        Column("native_state", "VARCHAR", "state as the scheduler wrote it"),
        Column("state_flags", "VARCHAR[]", "flags shown beside or instead of the state"),
        Column("cancelled_by_uid", "BIGINT", "who cancelled it, where the record says"),
        Column("state_reason", "VARCHAR", "last reason for waiting"),
        Column("exit_code", "INTEGER", "exit code of the batch script"),
        Column("exit_signal", "INTEGER", "signal that ended it, 0 for none"),
        Column("derived_exit_code", "INTEGER", "highest exit code of its steps"),
        Column("derived_exit_signal", "INTEGER", "signal that goes with derived_exit_code"),
        Column("priority", "BIGINT", "scheduling priority"),
        Column("restart_count", "INTEGER", "restarts before this run, where the record says"),
        Column("timelimit_s", "BIGINT", "time limit", unit="s"),
        Column("timelimit_kind", "VARCHAR", "limited, unlimited or partition_limit"),
        Column("suspended_s", "BIGINT", "time spent suspended", unit="s"),
        Column("elapsed_s", "BIGINT", "end - start - suspended, computed; NULL if open", unit="s"),
        Column("native_elapsed_s", "BIGINT", "elapsed as recorded", unit="s"),
        Column("elapsed_mismatch_s", "BIGINT", "native_elapsed_s - elapsed_s", unit="s"),
        Column("req_nodes", "INTEGER", "nodes asked for", unit="count"),
        Column("req_cpus", "BIGINT", "CPUs asked for", unit="count"),
        Column("req_gpus", "INTEGER", "GPUs asked for; NULL if not recorded", unit="count"),
        Column(
            "req_gpu_amount",
            "DOUBLE",
            "GPUs asked for, shares of one included (0.5: half a GPU); filled where shares occur, "
            "else req_gpus is it",
            unit="count",
        ),
        Column("req_mem_bytes", "BIGINT", "memory asked for, per req_mem_scope", unit="bytes"),
        Column("req_mem_scope", "VARCHAR", "job, node or cpu"),
        Column("alloc_nodes", "INTEGER", "nodes allocated; NULL if it never started", unit="count"),
        Column("alloc_cpus", "BIGINT", "CPUs allocated", unit="count"),
        Column("alloc_mem_bytes", "BIGINT", "memory allocated", unit="bytes"),
        Column(
            "alloc_gpus",
            "INTEGER",
            "GPUs allocated; NULL when the record has no GPU entry: see gpu_count_source",
            unit="count",
        ),
        Column(
            "alloc_gpu_amount",
            "DOUBLE",
            "GPUs allocated, shares of one included; filled where shares occur, else alloc_gpus is it",
            unit="count",
        ),
        Column(
            "workload",
            "VARCHAR",
            "what it is for, in the words of the record (Pretrain, Evaluation, debug ...)",
        ),
        Column(
            "gpu_count_source",
            "VARCHAR",
            "tres_generic (gres/gpu=N), tres_typed (sum of gres/gpu:MODEL=N), gres (gpu:MODEL:N), "
            "k8s_request (extended resources of devices and MIG instances that pods ask for), "
            "as_given (a public trace's own count), fractional (a share of a GPU, which fits no "
            "count: see alloc_gpu_amount), no_gpu_entry (a TRES list without GPUs: none held, or the cluster does not account "
            "them), not_collected (no list); NULL while nothing is allocated",
        ),
        Column("gpu_models", "VARCHAR[]", "models of the allocated GPUs, where typed"),
        Column("gpu_model_counts", "INTEGER[]", "GPUs of each of gpu_models", unit="count"),
        Column(
            "node_list", "VARCHAR[]", "nodes of the allocation, expanded; NULL before it starts"
        ),
        Column("db_index", "BIGINT", "Slurm's database index of the record"),
        Column("sluid", "VARCHAR", "Slurm's id of the run (releases from 25.11 on)"),
        Column(
            "has_all_attempts",
            "BOOLEAN",
            "true if collected with earlier attempts (sacct -D), false if stated to lack them, NULL if "
            "nobody said",
        ),
        Column("field_count", "INTEGER", "how many of these columns the file could fill"),
        Column(
            "source",
            "VARCHAR",
            "slurm_sacct kueue k8s volcano yunikorn ray, or trace_ and the name of a public trace",
        ),
    ),
)
