"""How many failures a target ETTR allows, and how much of that a month has used."""

from __future__ import annotations

import polars as pl

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ._failure_inputs import COST_COLUMNS, COST_PARAMS, with_cost
from ._formulas import allowed_failures_per_h, poisson_tail

FAILURE_BUDGET = Table(
    name="failure_budget",
    doc=(
        "Failure budget by month and size: the largest failure rate at which jobs of gpu_count GPUs still reach the "
        "target ETTR (the model of table ettr, solved for the rate), the failures that it allows over the month's "
        "node-days of the size, and how many of them infrastructure has used. gpu_count is the largest attempt of the "
        "size in the month: what it reaches smaller ones reach too."
    ),
    grain=("cluster", "month_ts", "size_bucket"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the jobs"),
        Column("month_ts", "TIMESTAMP", "start of the month, UTC"),
        Column("size_bucket", "VARCHAR", "GPUs, as in run_exposure_day"),
        Column("gpu_count", "DOUBLE", "GPUs of the largest attempt of the size", "count"),
        Column("target_ettr_ratio", "DOUBLE", "the target, of the settings", "ratio"),
        Column(
            "allowed_rate",
            "DOUBLE",
            "largest rate that meets it, failures per 1,000 node-days; 0 if saving alone misses it; NULL where "
            "the interval between checkpoints is not known",
            "1/1000 d",
        ),
        Column("node_days", "DOUBLE", "node-days that attempts of the size ran", "d"),
        Column("allowed_count", "DOUBLE", "failures allowed over these", "count"),
        Column("failure_count", "BIGINT", "failures of infrastructure and hardware", "count"),
        Column("used_ratio", "DOUBLE", "failure_count / allowed_count; above 1 the budget is burnt", "ratio"),
        Column(
            "tail_probability", "DOUBLE", "chance of as many failures or more if the allowed rate were the true one",
            "ratio",
        ),
        *COST_COLUMNS,
        Column("coverage_ratio", "DOUBLE", "share of the size's run time whose nodes are known", "ratio"),
    ),
    time="month_ts",
    period="month",
    sort=("cluster", "month_ts", "size_bucket"),
)  # fmt: skip
PARAMS = {
    "target_ettr_ratio": Param(
        0.9,
        "ratio; what jobs should reach. Meta takes 0.9 as the goal at 100,000 GPUs (arXiv 2410.21680).",
        most=1,
    ),
    **COST_PARAMS,
}


@model(output=FAILURE_BUDGET, window="month", params=PARAMS)
def failure_budget(
    failure_month: pl.LazyFrame,
    job_progress_month: pl.LazyFrame,
    checkpoint_practice: pl.LazyFrame,
    *,
    target_ettr_ratio: float,
    restart_s: float,
    save_s: float,
    interval_s: float,
) -> pl.LazyFrame:
    """The inverse of the ETTR model, per node. No SQL: see ettr."""
    size = ["cluster", "month_ts", "size_bucket"]
    exposed = (
        failure_month.filter(pl.col("population") == "infrastructure", pl.col("max_gpu_count") > 0)
        .join(job_progress_month.select(*size, "init_p50_s"), on=size, how="left")
        .pipe(with_cost, checkpoint_practice, restart_s=restart_s, save_s=save_s, interval_s=interval_s)
    )  # fmt: skip
    gpus_per_node = pl.col("gpu_h") / 24 / pl.col("node_days")
    nodes = pl.max_horizontal(pl.col("max_gpu_count") / gpus_per_node, pl.lit(1.0))
    hours = [pl.col(name) / 3600 for name in ("restart_s", "interval_s", "save_s")]
    allowed = allowed_failures_per_h(target_ettr_ratio, *hours) / nodes
    whole = pl.col("has_all_attempts").is_null() | pl.col("has_all_attempts")
    known = whole & (pl.col("node_days") > 0)
    found = (
        exposed.with_columns(
            pl.col("max_gpu_count").alias("gpu_count"),
            pl.lit(float(target_ettr_ratio)).alias("target_ettr_ratio"),
            pl.when(known).then(allowed * 24_000).alias("allowed_rate"),
        )
        .with_columns((pl.col("allowed_rate") * pl.col("node_days") / 1000).alias("allowed_count"))
        .with_columns(
            pl.when(pl.col("allowed_count") > 0)
            .then(pl.col("failure_count") / pl.col("allowed_count"))
            .alias("used_ratio")
        )
        .collect()
    )
    tail = poisson_tail(found["failure_count"], found["allowed_count"])
    return (
        found.lazy()
        .with_columns(tail.alias("tail_probability"))
        .select(FAILURE_BUDGET.column_names)
    )
