"""Failures per 1,000 node-days, and what they mean for jobs of any size."""

from __future__ import annotations

import polars as pl

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ..reliability._formulas import expected_count_bounds

# The sizes a planner asks about; the last is the largest that published projections go to.
PROJECTED_GPUS = (8, 64, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072)

NODE_FAILURE_RATE = Table(
    name="node_failure_rate",
    doc=(
        "Failures per 1,000 node-days by month and named population, with 95 % bounds (chi-square), and the "
        "mean time to failure that they project for a job of gpu_count GPUs: 24,000 / (rate x nodes) hours, "
        "all nodes alike and independent (arXiv 2410.21680: 6.50 gives 1.8 h at 16,384 GPUs, 0.23 h at "
        "131,072). Stands beside job_mttf_by_size, which measures, and is never mixed with it. Populations: "
        "infrastructure and hardware are ends of attempts by node-days held by GPU jobs; outage is unplanned "
        "outages that began by node-days installed."
    ),
    grain=("cluster", "month_ts", "population", "gpu_count"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("month_ts", "TIMESTAMP", "start of the month, UTC"),
        Column("population", "VARCHAR", "infrastructure, hardware (as in failure_month) or outage"),
        Column("gpu_count", "BIGINT", "size of the job projected for", "count"),
        Column("failure_count", "BIGINT", "failures counted", "count"),
        Column("node_days", "DOUBLE", "node-days they are divided by; NULL if not known", "d"),
        Column("rate", "DOUBLE", "failures per 1,000 node-days", "1/1000 d"),
        Column("rate_lower", "DOUBLE", "lower 95 % bound", "1/1000 d"),
        Column("rate_upper", "DOUBLE", "upper 95 % bound", "1/1000 d"),
        Column(
            "gpus_per_node",
            "DOUBLE",
            "GPUs of a node: GPU-days by node-days of the jobs; of outages gpus_per_node of the settings",
            "count",
        ),
        Column("projected_mttf_h", "DOUBLE", "24,000 / (rate x gpu_count / gpus_per_node); NULL without failures", "h"),
        Column("projected_mttf_lower_h", "DOUBLE", "the same at rate_upper", "h"),
        Column("projected_mttf_upper_h", "DOUBLE", "the same at rate_lower; NULL without failures", "h"),
        Column(
            "coverage_ratio",
            "DOUBLE",
            "jobs: share of run time whose nodes are known; outages: share of the month the records reach",
            "ratio",
        ),
    ),
    time="month_ts",
    period="month",
    sort=("cluster", "month_ts", "population", "gpu_count"),
)  # fmt: skip
PARAMS = {
    "gpus_per_node": Param(
        8,
        "count; GPUs of a node where jobs do not tell. The usual server of 8 (HGX, DGX).",
    ),
}


@model(output=NODE_FAILURE_RATE, window="month", params=PARAMS)
def node_failure_rate(
    failure_month: pl.LazyFrame, node_availability: pl.LazyFrame, *, gpus_per_node: int
) -> pl.LazyFrame:
    """Rates of both kinds and their projections. No SQL: DuckDB has no quantiles of the chi-square."""
    is_whole = pl.col("has_all_attempts").is_null() | pl.col("has_all_attempts")
    jobs = failure_month.filter(
        pl.col("size_bucket") == "any", pl.col("population") != "all"
    ).select(
        "cluster",
        "month_ts",
        "population",
        "failure_count",
        pl.when(is_whole).then(pl.col("node_days")).alias("node_days"),
        (pl.col("gpu_h") / 24 / pl.col("node_days")).alias("gpus_per_node"),
        "coverage_ratio",
    )
    outages = node_availability.filter(pl.col("reason_class") == "unplanned").select(
        "cluster",
        "month_ts",
        pl.lit("outage").alias("population"),
        pl.col("outage_count").alias("failure_count"),
        (pl.col("installed_node_s") / 86400).alias("node_days"),
        pl.lit(float(gpus_per_node)).alias("gpus_per_node"),
        "coverage_ratio",
    )
    counted = pl.concat([jobs, outages]).collect()
    lower, upper = expected_count_bounds(counted["failure_count"])
    days = pl.when(pl.col("node_days") > 0).then(pl.col("node_days"))
    rated = counted.lazy().with_columns(
        (1000 * pl.col("failure_count") / days).alias("rate"),
        (1000 * lower / days).alias("rate_lower"),
        (1000 * upper / days).alias("rate_upper"),
    )
    sizes = pl.LazyFrame({"gpu_count": PROJECTED_GPUS}, schema={"gpu_count": pl.Int64})
    return (
        rated.join(sizes, how="cross")
        .with_columns(
            _projected("rate").alias("projected_mttf_h"),
            _projected("rate_upper").alias("projected_mttf_lower_h"),
            _projected("rate_lower").alias("projected_mttf_upper_h"),
        )
        .select(NODE_FAILURE_RATE.column_names)
    )


def _projected(rate: str) -> pl.Expr:
    nodes = pl.col("gpu_count") / pl.col("gpus_per_node")
    return pl.when(pl.col(rate) > 0).then(24_000 / (pl.col(rate) * nodes))
