"""`train_event`: what happened to a training run beside its steps, as its own logs tell it."""

from __future__ import annotations

from fleetmark.table import Column, Table

# What is told in pairs: NAME_start and NAME_stop. MLPerf's names; a block is training between two
# evaluations; prep is what stands between init and the first step; a checkpoint_save stops when
# training goes on, which of an asynchronous save is before it is whole.
SPANS = (
    "init", "prep", "run", "block", "epoch", "eval", "data", "checkpoint_save", "checkpoint_load",
    "custom",
)  # fmt: skip
EVENTS = (
    *(f"{span}_{edge}" for span in SPANS for edge in ("start", "stop")),
    "job_start", "job_stop", "checkpoint_saved", "resize", "other_note",
)  # fmt: skip

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
            "init, prep (between init and the first step), run, block (training between two evaluations), "
            "epoch, eval, data (waiting for or loading of it), checkpoint_save, checkpoint_load, custom, "
            "each with _start or _stop behind it; job_start, job_stop, checkpoint_saved (whole: a restart "
            "can use it), resize (the job goes on with other resources), other_note. Training goes on after "
            "checkpoint_save_stop; some logs tell only the start of an asynchronous save",
        ),
        Column("step", "BIGINT", "training step it happened at, where the record says"),
        Column("sample_count", "BIGINT", "samples as the record counts them", "count"),
        Column("token_count", "BIGINT", "tokens trained on since the start of the run", "count"),
        Column("flop_count", "DOUBLE", "FLOP since the start of the run, as logged", "FLOP"),
        Column(
            "logged_tflops", "DOUBLE", "TFLOP/s per GPU since the job's start, as logged", "TFLOP/s"
        ),
        Column("gpu_count", "BIGINT", "GPUs of the job, where the record says", "count"),
        Column("status", "VARCHAR", "outcome, the kind of a custom event, or the text of a note"),
    ),
    time="ts",
    sort=("job_id", "ts"),
)
