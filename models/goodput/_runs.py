"""Allocations that the ledger divides, and what is known of each."""

from __future__ import annotations

import polars as pl

from ._steps import ATTEMPT

WINDOW_US = 300_000_000
ENDED_WELL = ("COMPLETED", "RUNNING", "SUSPENDED", "PENDING")


def runs_of(job_attempt: pl.DataFrame, progress: pl.DataFrame) -> pl.DataFrame:
    """One row per allocation with GPUs: the scheduler's, and those of logs of jobs it does not know.

    Columns: run, ATTEMPT, start, end (microseconds), gpu_count (NULL: not known), held_ratio (share not
    suspended), state (NULL without scheduler), ended_badly, is_scheduled, attempt_number (earlier
    attempts of the job with steps make it greater than 0).
    """
    logged = progress.group_by(ATTEMPT).agg(
        pl.col("gpu_count", "is_scheduled", "is_first_attempt").first(),
        pl.col("log_start_ts").first().alias("start_ts"),
        pl.col("log_end_ts").first().alias("until_ts"),
    )
    known = job_attempt.filter(pl.col("start_ts").is_not_null()).with_columns(
        until_ts=pl.max_horizontal("start_ts", pl.coalesce("end_ts", "observed_ts", "start_ts"))
    )
    length_s = (pl.col("until_ts") - pl.col("start_ts")).dt.total_microseconds() / 1e6
    suspended_s = pl.min_horizontal(pl.col("suspended_s").fill_null(0), length_s)
    held = known.join(logged.select(*ATTEMPT, "gpu_count", "is_first_attempt"), on=ATTEMPT, how="left").select(
        *ATTEMPT, "start_ts", "until_ts", "state", "is_first_attempt",
        pl.coalesce(pl.col("alloc_gpus").cast(pl.Int64), "gpu_count").alias("gpu_count"),
        pl.when(length_s > 0).then(1 - suspended_s / length_s).otherwise(1.0).alias("held_ratio"),
        pl.lit(value=True).alias("is_scheduled"),
    ).filter(pl.col("gpu_count") > 0)  # fmt: skip
    alone = logged.filter(~pl.col("is_scheduled")).select(
        *ATTEMPT, "start_ts", "until_ts", pl.lit(None, pl.String).alias("state"), "is_first_attempt",
        "gpu_count", pl.lit(1.0).alias("held_ratio"), pl.lit(value=False).alias("is_scheduled"),
    )  # fmt: skip
    badly = ~pl.col("state").is_in(ENDED_WELL)
    return (
        pl.concat([held, alone])
        .sort(ATTEMPT)
        .with_row_index("run")
        .with_columns(
            start=pl.col("start_ts").dt.epoch("us"),
            end=pl.col("until_ts").dt.epoch("us"),
            ended_badly=badly.fill_null(value=False),
            attempt_number=(~pl.col("is_first_attempt").fill_null(value=True)).cast(pl.Int64),
        )
        .drop("start_ts", "until_ts", "is_first_attempt")
    )


def windows_of(telemetry: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Five-minute windows of runs: run, window (number), start, end, is_idle, spare_count, causes.

    spare_count scales the idle GPUs among those with samples to the attempt's GPUs; it is 0 where
    all are idle (is_idle), or none, or the attempt's GPUs are not known.
    """
    idle, seen = pl.col("idle_gpu_count"), pl.col("gpu_count")
    spare = (idle / seen * pl.col("all_gpus")).floor().cast(pl.Int64)
    return (
        telemetry.join(runs.select("run", *ATTEMPT, all_gpus="gpu_count"), on=ATTEMPT)
        .with_columns(start=pl.col("window_ts").dt.epoch("us"))
        .select(
            "run", "start",
            (pl.col("start") + WINDOW_US).alias("end"),
            (pl.col("start") // WINDOW_US).alias("window"),
            (idle == seen).alias("is_idle"),
            pl.when(idle < seen).then(spare).fill_null(0).alias("spare_count"),
            "throttled_nodes", "degraded_nodes", "is_throttled",
        )
    )  # fmt: skip


def evidence(
    runs: pl.DataFrame, progress: pl.DataFrame, parts: pl.DataFrame, windows: pl.DataFrame
) -> pl.DataFrame:
    """The highest kind of evidence per run and day; days without any have no row."""
    key = runs.select("run", *ATTEMPT)
    day = pl.from_epoch(pl.col("start"), time_unit="us").dt.truncate("1d")
    found = [
        windows.select("run", day_ts=day, rank=pl.lit(1)),
        progress.join(key, on=ATTEMPT).select("run", "day_ts", rank=pl.lit(2)),
        parts.join(key, on=ATTEMPT).select(
            "run", day_ts=pl.col("ts").dt.truncate("1d"), rank=pl.lit(3)
        ),
    ]
    names = {1: "telemetry", 2: "steps", 3: "collectives"}
    return (
        pl.concat(found)
        .group_by("run", "day_ts")
        .agg(pl.col("rank").max())
        .select(
            "run", "day_ts", evidence=pl.col("rank").replace_strict(names, return_dtype=pl.String)
        )
    )
