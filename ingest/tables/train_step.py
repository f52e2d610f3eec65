"""`train_step`: one step of a training job as its log tells it."""

from __future__ import annotations

from fleetmark.table import Column, Table

TRAIN_STEP = Table(
    name="train_step",
    doc="Training steps as the job's own logs state them, one row per telling: a step that ran again after a "
    "restart has a row each time, and so has one that several nodes or logs tell of (train_step_run counts "
    "those once). What single ranks lived through is in step_sample.",
    grain=("cluster", "job_id", "attempt", "step", "ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job"),
        Column(
            "attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"
        ),
        Column("step", "BIGINT", "training step (iteration) as the framework numbers it"),
        Column("ts", "TIMESTAMP", "start of the step; its end where its length is not known"),
        Column(
            "time_basis",
            "VARCHAR",
            "absolute: ts is a clock time; relative: the log has no times, only the order holds, "
            "and a step stands as many seconds after 1970 as its number says; one that ran twice is one row",
            null=False,
        ),
        Column(
            "step_s", "DOUBLE", "length of a step; a mean where the log sums up several steps", "s"
        ),
        Column(
            "framework",
            "VARCHAR",
            "who wrote the record: megatron (its forks too), nemo, deepspeed, torchtitan, maxtext, "
            "nanogpt, composer, transformers, mlperf, google_goodput, mlflow, or what a train_jsonl record says",
        ),
        Column("global_batch_size", "BIGINT", "samples of the step over all ranks", "count"),
        Column("step_token_count", "BIGINT", "tokens of the step over all ranks", "count"),
        Column("sample_count", "BIGINT", "samples trained on since the start of the run", "count"),
        Column("token_count", "BIGINT", "tokens trained on since the start of the run", "count"),
        Column("seq_len", "BIGINT", "tokens per sample, where the record says", "count"),
        Column("samples_per_s", "DOUBLE", "samples per second over all ranks, as logged", "1/s"),
        Column(
            "tokens_per_gpu_s",
            "DOUBLE",
            "tokens per second and GPU as logged, averaged over the framework's log interval",
            "1/s",
        ),
        Column("loss", "DOUBLE", "training loss"),
        Column("grad_norm", "DOUBLE", "norm of the gradients"),
        Column("logged_tflops", "DOUBLE", "TFLOP/s per GPU as the log states it", "TFLOP/s"),
        Column("logged_mfu_ratio", "DOUBLE", "MFU as the log states it", "ratio"),
        Column("field_count", "INTEGER", "how many fields the record gave", "count"),
    ),
    latest=("field_count",),
    time="ts",
    sort=("job_id", "step"),
)
