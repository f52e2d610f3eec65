"""MLPerf training logs (`:::MLLOG` lines)."""

from __future__ import annotations

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from .tables.train_step import TRAIN_STEP

MAX_STEP_S = 86_400.0


@source(
    outputs=(TRAIN_STEP,),
    options=(
        Option("job_id", "job of the log, if its name is not RESULT.txt", ""),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
    ),
    name_facts=r"^(?P<job_id>.+)\.txt(?:\.gz)?$",
    sniff=lambda head, file_name: b":::MLLOG {" in head,
)
def mlperf(lines: pl.DataFrame, context: Context) -> Parsed:
    """MLPerf training logs: the step times among `tracked_stats` (NeMo's callbacks, v4.1 to v5.1).

    Only records with train_step_time and reduced_train_loss are steps; those without a loss sum up
    several and are skipped, as are all other keys. Some runs log one step in 32: no sum over the
    rows is the run's length. time_ms is the end of the step, UTC. A record that is no JSON is a
    reject.
    """
    stats = lines.filter(
        pl.col("text").str.contains(":::MLLOG ", literal=True)
        & pl.col("text").str.contains('"train_step_time"', literal=True)
    )
    attempt, job_id = context.options["attempt"], context.options["job_id"]
    if not job_id or not attempt.isdigit() or len(attempt) > 18:
        reason = "job or attempt is not stated; --set job_id=JOB --set attempt=N"
        refused = stats.select("line_no", reason=pl.lit(reason), text="text")
        return Parsed({}, refused, lines.height - refused.height)
    found = _decoded(stats)
    bad = found.filter(pl.col("reason").is_not_null())
    steps = found.filter(
        pl.col("reason").is_null() & pl.col("step_s").is_not_null() & pl.col("loss").is_not_null()
    )
    rows = steps.with_columns(
        pl.from_epoch(pl.col("time_ms") * 1000 - (pl.col("step_s") * 1e6).round().cast(pl.Int64),
                      time_unit="us").alias("ts"),
        pl.lit("absolute").alias("time_basis"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit(job_id).alias("job_id"),
        pl.lit(int(attempt)).alias("attempt"),
    ).drop("time_ms", "reason", "text")  # fmt: skip
    rejects = bad.select(*REJECTS_SCHEMA)
    return Parsed({TRAIN_STEP.name: rows}, rejects, lines.height - rows.height - rejects.height)


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
        "line_no", "text",
        body.is_null().alias("cut"),
        *(body.str.extract(p, 1).cast(pl.Int64 if n in whole else pl.Float64, strict=False).alias(n)
          for n, p in parts.items()),
    )  # fmt: skip
    reasons = {
        "no whole JSON object behind :::MLLOG": pl.col("cut"),
        "no time_ms or step": pl.col("time_ms").is_null() | pl.col("step").is_null(),
        "train_step_time is not between 0 and a day": pl.col("loss").is_not_null()
        & ~pl.col("step_s").is_between(0, MAX_STEP_S, closed="right").fill_null(value=False),
    }
    # A sum over several steps has no loss, and its step need not be known.
    summed = pl.col("loss").is_null() & ~pl.col("cut")
    return read.with_columns(
        pl.when(summed).then(None).otherwise(
            pl.coalesce(pl.when(fails).then(pl.lit(reason)) for reason, fails in reasons.items())
        ).alias("reason")
    ).drop("cut")  # fmt: skip
