"""Contract of `job_step`: one step of a job. Never added to allocations."""

from fleetmark.table import Column, Table

JOB_STEP = Table(
    name="job_step",
    doc=(
        "One row per step (batch, extern, interactive, 0, 1, ...). A step uses part of its attempt's "
        "allocation: sum attempts or steps, never both. It belongs to the attempt of the job that "
        "was running at step_ts; it may end after its job."
    ),
    grain=("cluster", "job_id", "step", "step_ts"),
    time="step_ts",
    end="end_ts",
    observed="observed_ts",
    sort=("cluster", "step_ts", "job_id"),
    latest=("phase", "field_count", "observed_ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the job"),
        Column("job_id", "VARCHAR", "job_attempt.job_id"),
        Column("step", "VARCHAR", "batch, extern, interactive or a number"),
        Column("step_ts", "TIMESTAMP", "when the step was created, else its start"),
        Column("raw_job_id", "VARCHAR", "SLURM_JOB_ID of the run"),
        Column("step_name", "VARCHAR", "name of the step"),
        Column("start_ts", "TIMESTAMP", "start"),
        Column("end_ts", "TIMESTAMP", "end; NULL while open"),
        Column("observed_ts", "TIMESTAMP", "see job_attempt.observed_ts"),
        Column("phase", "TINYINT", "0 waiting, 1 started, 2 ended"),
        Column("state", "VARCHAR", "as in job_attempt"),
        Column("native_state", "VARCHAR", "state as the scheduler wrote it"),
        Column("state_flags", "VARCHAR[]", "flags shown beside or instead of the state"),
        Column("cancelled_by_uid", "BIGINT", "who cancelled it, where the record says"),
        Column("exit_code", "INTEGER", "exit code"),
        Column("exit_signal", "INTEGER", "signal that ended it, 0 for none"),
        Column("suspended_s", "BIGINT", "time spent suspended", unit="s"),
        Column("elapsed_s", "BIGINT", "end - start - suspended, computed; NULL if open", unit="s"),
        Column("native_elapsed_s", "BIGINT", "elapsed as recorded", unit="s"),
        Column("elapsed_mismatch_s", "BIGINT", "native_elapsed_s - elapsed_s", unit="s"),
        Column("alloc_gpus", "INTEGER", "GPUs of the attempt it could use", unit="count"),
        Column("gpu_count_source", "VARCHAR", "as in job_attempt"),
        Column("node_list", "VARCHAR[]", "nodes it ran on, expanded"),
        Column("max_rss_bytes", "BIGINT", "largest resident set of any task", unit="bytes"),
        Column("field_count", "INTEGER", "how many of these columns the file could fill"),
        Column("source", "VARCHAR", "slurm_sacct"),
    ),
)
