"""How far a training job came on a day, and how long its steps usually took."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from fleetmark.model import model
from fleetmark.table import Column, Table

from ._steps import BLOCK, DAY, job_steps, placed

TRAIN_RUN_DAY = Table(
    name="train_run_day",
    doc="A training attempt's steps of a UTC day in one row: from which to which, when, how long they "
    "usually took. Of logs with clock times.",
    grain=DAY,
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job_attempt.job_id; as the log states it where no scheduler record knows it"),
        Column("attempt", "BIGINT", "job_attempt.attempt that ran at the time; as the log states it where none is known"),
        Column("day_ts", "TIMESTAMP", "start of the UTC day"),
        Column("is_scheduled", "BOOLEAN", "a scheduler record knows the job", null=False),
        Column("alloc_gpus", "INTEGER", "GPUs of the attempt; NULL: not known", "count"),
        Column("basis", "VARCHAR", "log (train_step) or ranks (step_sample)", null=False),
        Column("row_count", "BIGINT", "steps recorded", "count", null=False),
        Column("stride", "BIGINT", "every how many steps one is recorded, as a rule", "count", null=False),
        Column("first_ts", "TIMESTAMP", "start of the first recorded step, of those that its row stands for", null=False),
        Column("first_step", "BIGINT", "its number", null=False),
        Column("first_step_s", "DOUBLE", "length of a step of the first row", "s"),
        Column("last_ts", "TIMESTAMP", "end of the last one", null=False),
        Column("last_step", "BIGINT", "its number", null=False),
        Column("last_stride", "BIGINT", "how many steps the last row stands for; fewer where ranks recorded steps up to the end more often: so many may have gone unrecorded behind it", "count", null=False),
        Column("min_step", "BIGINT", "lowest step that the day's rows stand for: what an earlier row counts from there on was done again", null=False),
        Column("batch_sizes", "BIGINT[]", "sizes of the global batch that occurred; 0: not known", "count", null=False),
        Column("batch_step_s", "DOUBLE[]", "usual length of a step with each: first quartile of the medians of 64 steps", "s", null=False),
        Column("noise_ratio", "DOUBLE", "how much single steps wander about the median of their 64: 1.4826 times the median absolute deviation", "ratio"),
    ),
    time="day_ts",
    sort=("job_id", "day_ts"),
)  # fmt: skip


@model(output=TRAIN_RUN_DAY, lookback=timedelta(days=2))
def train_run_day(
    train_step_run: pl.LazyFrame, job_step_parts: pl.LazyFrame, job_attempt: pl.LazyFrame
) -> pl.LazyFrame:
    """First and last step of every attempt and day.

    The lookback shows attempts that ended before the day: a host's clock may run behind the
    scheduler's. No SQL: the order of steps is shared with goodput_segment (_steps.py).
    """
    attempts, parts = job_attempt.collect(), job_step_parts.collect()
    steps = job_steps(train_step_run.collect(), parts, attempts)
    stride = pl.col("step_count").median().fill_null(1).round().cast(pl.Int64)
    ends = steps.group_by("stretch", maintain_order=True).agg(
        pl.col(*DAY, "is_scheduled", "alloc_gpus", "basis", "step_s").first(),
        pl.len().cast(pl.Int64).alias("row_count"),
        stride.alias("stride"),
        pl.col("end_ts").first().alias("first_end_ts"),
        pl.col("step").first().alias("first_step"),
        pl.col("step_s").first().alias("first_step_s"),
        pl.col("end_ts").max().alias("last_ts"),
        pl.col("step").last().alias("last_step"),
        pl.col("step_count").last().fill_null(stride).alias("last_stride"),
        (pl.col("step") - pl.col("step_count").fill_null(stride) + 1).min().alias("min_step"),
    )
    lasted_us = (pl.col("step_s").fill_null(0) * pl.col("stride") * 1e6).round().cast(pl.Int64)
    first = pl.col("first_end_ts") - pl.duration(microseconds=lasted_us)
    seen = pl.col("ranks_last_step") + pl.col("ranks_stride") >= pl.col("last_step")
    return (
        ends.with_columns(first.alias("first_ts"))
        .join(_ranks(placed(parts, attempts)), on=DAY, how="left")
        .with_columns(
            pl.min_horizontal("last_stride", pl.when(seen).then("ranks_stride"))
            .alias("last_stride")
        )
        .join(_usual(steps), on="stretch", how="left")
        .with_columns(
            pl.col("batch_sizes").fill_null([]), pl.col("batch_step_s").fill_null([]),
        )
        .select(TRAIN_RUN_DAY.column_names)
        .lazy()
    )  # fmt: skip


def _ranks(parts: pl.DataFrame) -> pl.DataFrame:
    """The last step of a day that ranks recorded, and every how many steps they did."""
    every = pl.col("step").sort().diff().median().round().cast(pl.Int64)
    return (
        parts.with_columns(day_ts=pl.col("ts").dt.truncate("1d"))
        .group_by(DAY)
        .agg(pl.col("step").max().alias("ranks_last_step"), every.clip(1).alias("ranks_stride"))
    )


def _usual(steps: pl.DataFrame) -> pl.DataFrame:
    """Usual step per size of batch, and how much steps wander, by stretch."""
    timed = steps.filter(pl.col("step_s").is_not_null()).select(
        "stretch", "batch", "step_s", block=pl.col("step") // BLOCK
    )
    block = ["stretch", "batch", "block"]
    off = timed.with_columns(block_s=pl.col("step_s").median().over(block))
    blocks = off.group_by(block).agg(pl.col("block_s").first(), pl.len().alias("row_count"))
    # A block of few rows is as noisy as its rows: such only count where there are no others.
    full = 2 * pl.col("row_count") >= pl.col("row_count").median().over("stretch", "batch")
    usual = (
        blocks.filter(full)
        .group_by("stretch", "batch")
        .agg(pl.col("block_s").quantile(0.25, "linear"))
        .sort("stretch", "batch")
        .group_by("stretch", maintain_order=True)
        .agg(pl.col("batch").alias("batch_sizes"), pl.col("block_s").alias("batch_step_s"))
    )
    noise = off.group_by("stretch").agg(
        (1.4826 * (pl.col("step_s") / pl.col("block_s") - 1).abs().median()).alias("noise_ratio")
    )
    return usual.join(noise, on="stretch", how="left")
