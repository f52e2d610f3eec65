"""Mean time to failure of jobs by their size, measured, with bounds."""

from __future__ import annotations

import polars as pl

from fleetmark.model import model
from fleetmark.table import Column, Table

from ._formulas import expected_count_bounds

JOB_MTTF_BY_SIZE = Table(
    name="job_mttf_by_size",
    doc=(
        "Measured mean time to failure by month, size and named failure population: hours that attempts of "
        "the size ran, by the failures that ended them. What a job of that size lived through, whatever the "
        "cause; node_failure_rate projects from nodes and counts other failures: the two are never mixed "
        "(Meta's 1,024-GPU jobs: 7.9 h measured, 28.8 h projected). 95 % bounds by the chi-square: "
        "[2T/chi2(0.975, 2r+2), 2T/chi2(0.025, 2r)]; without failures there is a lower bound only. NULL where "
        "earlier attempts of jobs are stated to be missing: requeued failures are then not seen."
    ),
    grain=("cluster", "month_ts", "size_bucket", "population"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the jobs"),
        Column("month_ts", "TIMESTAMP", "start of the month, UTC"),
        Column("size_bucket", "VARCHAR", "GPUs held: as in failure_month; any: all GPU jobs"),
        Column(
            "population", "VARCHAR", "which failures count: all, infrastructure or hardware, as in failure_month"
        ),
        Column("failure_count", "BIGINT", "r: attempts that ended so in the month", "count"),
        Column("run_h", "DOUBLE", "T: hours that attempts of the size ran, running ones included", "h"),
        Column("mttf_h", "DOUBLE", "T / r; NULL without failures", "h"),
        Column("mttf_lower_h", "DOUBLE", "lower 95 % bound", "h"),
        Column("mttf_upper_h", "DOUBLE", "upper 95 % bound; NULL without failures: none exists", "h"),
        Column("unknown_count", "BIGINT", "failures whose domain is not known: they count in population all only", "count"),
        Column(
            "coverage_ratio",
            "DOUBLE",
            "share of the failures (population all) whose domain is known: how far the narrower populations can "
            "be trusted to be whole; NULL without failures",
            "ratio",
        ),
        Column("has_all_attempts", "BOOLEAN", "failure_month.has_all_attempts"),
    ),
    time="month_ts",
    period="month",
    sort=("cluster", "month_ts", "population"),
)  # fmt: skip


@model(output=JOB_MTTF_BY_SIZE, window="month")
def job_mttf_by_size(failure_month: pl.LazyFrame) -> pl.LazyFrame:
    """T / r and its bounds. No SQL: DuckDB has no quantiles of the chi-square."""
    months = failure_month.collect()
    lower, upper = expected_count_bounds(months["failure_count"])
    is_whole = pl.col("has_all_attempts").is_null() | pl.col("has_all_attempts")
    time = pl.when(is_whole & (pl.col("run_h") > 0)).then(pl.col("run_h"))
    return (
        months.lazy()
        .with_columns(lower.alias("lower"), upper.alias("upper"), time.alias("time_h"))
        .with_columns(
            pl.when(pl.col("failure_count") > 0)
            .then(pl.col("time_h") / pl.col("failure_count"))
            .alias("mttf_h"),
            (pl.col("time_h") / pl.col("upper")).alias("mttf_lower_h"),
            pl.when(pl.col("failure_count") > 0)
            .then(pl.col("time_h") / pl.col("lower"))
            .alias("mttf_upper_h"),
            pl.col("known_ratio").alias("coverage_ratio"),
        )
        .select(JOB_MTTF_BY_SIZE.column_names)
    )
