"""`train_step`: one step of a training job as its log tells it."""

from __future__ import annotations

from fleetmark.table import Column, Table

TRAIN_STEP = Table(
    name="train_step",
    doc="Training steps as the job's own log states them, one row per logged step. What single "
    "ranks lived through is in step_sample.",
    grain=("cluster", "job_id", "attempt", "step"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job"),
        Column(
            "attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"
        ),
        Column("step", "BIGINT", "training step (iteration) as the framework numbers it"),
        Column("ts", "TIMESTAMP", "start of the step"),
        Column(
            "time_basis",
            "VARCHAR",
            "absolute: ts is a clock time; relative: the log has no times, only the order holds, "
            "and a step stands as many seconds after 1970 as its number says",
            null=False,
        ),
        Column(
            "step_s", "DOUBLE", "length of a step; a mean where the log sums up several steps", "s"
        ),
        Column("global_batch_size", "BIGINT", "samples of the step over all ranks", "count"),
        Column("sample_count", "BIGINT", "samples trained on since the start of the run", "count"),
        Column("loss", "DOUBLE", "training loss"),
        Column("grad_norm", "DOUBLE", "norm of the gradients"),
        Column("logged_tflops", "DOUBLE", "TFLOP/s per GPU as the log states it", "TFLOP/s"),
    ),
    time="ts",
    sort=("job_id", "step"),
)
