"""`train_event`: what happened to a training run beside its steps, as its own logs tell it."""

from __future__ import annotations

from fleetmark.table import Column, Table

TRAIN_EVENT = Table(
    name="train_event",
    doc="Moments of a training job that its own logs state: starts and stops of initialisation, run, "
    "evaluation; job starts and checkpoints. One row per event and time.",
    grain=("cluster", "job_id", "attempt", "event", "ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job"),
        Column(
            "attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"
        ),
        Column("ts", "TIMESTAMP", "when it happened"),
        Column(
            "event",
            "VARCHAR",
            "init_start, init_stop, run_start, run_stop, block_start, block_stop, epoch_start, "
            "epoch_stop, eval_start, eval_stop (MLPerf's names; a block is training between two "
            "evaluations), job_start, checkpoint_saved, checkpoint_save_start (asynchronous: what "
            "follows of it is not logged), other_note",
        ),
        Column("step", "BIGINT", "training step it happened at, where the record says"),
        Column("sample_count", "BIGINT", "samples as the record counts them", "count"),
        Column("token_count", "BIGINT", "tokens trained on since the start of the run", "count"),
        Column("flop_count", "DOUBLE", "FLOP since the start of the run, as logged", "FLOP"),
        Column(
            "logged_tflops", "DOUBLE", "TFLOP/s per GPU since the job's start, as logged", "TFLOP/s"
        ),
        Column("gpu_count", "BIGINT", "GPUs of the job, where the record says", "count"),
        Column("status", "VARCHAR", "outcome, or the text of a note"),
    ),
    time="ts",
    sort=("job_id", "ts"),
)
