"""MLPerf training logs (`:::MLLOG` lines)."""

from __future__ import annotations

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.train_event import TRAIN_EVENT
from ..tables.train_step import TRAIN_STEP

EVENTS = r'"key": *"((?:init|run|block|epoch|eval)_(?:start|stop))"'
MAX_STEP_S = 86_400.0


@source(
    outputs=(TRAIN_STEP, TRAIN_EVENT),
    options=(
        Option("job_id", "job of the log, if its name is not RESULT.txt", ""),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
    ),
    name_facts=r"^(?P<job_id>.+)\.txt(?:\.gz)?$",
    sniff=lambda head, file_name: b":::MLLOG {" in head,
)
def mlperf(lines: pl.DataFrame, context: Context) -> Parsed:
    """MLPerf training logs: starts and stops, and step times (NeMo's callbacks, v4.1 to v5.1).

    Start and stop of init, run, block, epoch and eval are events, in every version since v0.6. Step
    times stand among `tracked_stats`. Only records with train_step_time and reduced_train_loss are steps; those without a loss sum up
    several and are skipped, as are all other keys. Some runs log one step in 32: no sum over the
    rows is the run's length. time_ms is the end of the step, UTC. A record that is no JSON is a
    reject.
    """
    logged = lines.filter(pl.col("text").str.contains(":::MLLOG ", literal=True)).with_columns(
        pl.col("text").str.extract(EVENTS, 1).alias("event")
    )
    is_stat = pl.col("text").str.contains('"train_step_time"', literal=True)
    stats = logged.filter(is_stat | pl.col("event").is_not_null())
    attempt, job_id = context.options["attempt"], context.options["job_id"]
    if not job_id or not attempt.isdigit() or len(attempt) > 18:
        reason = "job or attempt is not stated; --set job_id=JOB --set attempt=N"
        refused = stats.select("line_no", reason=pl.lit(reason), text="text")
        return Parsed({}, refused, lines.height - refused.height)
    found = _decoded(stats)
    bad = found.filter(pl.col("reason").is_not_null())
    good = found.filter(pl.col("reason").is_null()).with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit(job_id).alias("job_id"),
        pl.lit(int(attempt)).alias("attempt"),
    )
    events = good.filter(pl.col("event").is_not_null()).with_columns(
        pl.from_epoch(pl.col("time_ms"), time_unit="ms").cast(pl.Datetime("us")).alias("ts")
    )
    steps = good.filter(pl.col("step_s").is_not_null() & pl.col("loss").is_not_null()).with_columns(
        pl.from_epoch(pl.col("time_ms") * 1000 - (pl.col("step_s") * 1e6).round().cast(pl.Int64),
                      time_unit="us").alias("ts"),
        pl.lit("absolute").alias("time_basis"),
        pl.lit("mlperf").alias("framework"),
        pl.sum_horizontal(pl.col("step_s", "loss", "sample_count").is_not_null())
        .cast(pl.Int32).alias("field_count"),
    )  # fmt: skip
    rejects = bad.select(*REJECTS_SCHEMA)
    tables = {
        TRAIN_STEP.name: steps.select(
            "line_no", *(c for c in TRAIN_STEP.column_names if c in steps.columns)
        ),
        TRAIN_EVENT.name: events.select(
            "line_no", *(c for c in TRAIN_EVENT.column_names if c in events.columns)
        ),
    }
    skipped = lines.height - steps.height - events.height - rejects.height
    return Parsed(tables, rejects, skipped)


def _decoded(stats: pl.DataFrame) -> pl.DataFrame:
    """Fields of each record, and `reason` where there are none."""
    body = pl.col("text").str.extract(r":::MLLOG (\{.*\})\s*$", 1)
    parts = {
        "time_ms": r'"time_ms": *(\d{1,13})[,}]',
        "step_s": r'"train_step_time": *([-+0-9.eE]+)',
        "loss": r'"reduced_train_loss": *([-+0-9.eE]+)',
        "step": r'"step": *(\d{1,12})(?:\.0*)?[,}]',
        "sample_count": r'"samples_count": *(\d{1,15})(?:\.0*)?[,}]',
    }
    whole = ("time_ms", "step", "sample_count")
    read = stats.select(
        "line_no", "text", "event",
        body.str.extract(r'"status": *"(\w{1,20})"', 1).alias("status"),
        body.is_null().alias("cut"),
        *(body.str.extract(p, 1).cast(pl.Int64 if n in whole else pl.Float64, strict=False).alias(n)
          for n, p in parts.items()),
    )  # fmt: skip
    reasons = {
        "no whole JSON object behind :::MLLOG": pl.col("cut"),
        "no time_ms or step": pl.col("time_ms").is_null()
        | (pl.col("step").is_null() & pl.col("event").is_null()),
        "train_step_time is not between 0 and a day": pl.col("loss").is_not_null()
        & ~pl.col("step_s").is_between(0, MAX_STEP_S, closed="right").fill_null(value=False),
    }
    # A sum over several steps has no loss, and its step need not be known.
    summed = pl.col("loss").is_null() & ~pl.col("cut") & pl.col("event").is_null()
    return read.with_columns(
        pl.when(summed).then(None).otherwise(
            pl.coalesce(pl.when(fails).then(pl.lit(reason)) for reason, fails in reasons.items())
        ).alias("reason")
    ).drop("cut")  # fmt: skip
