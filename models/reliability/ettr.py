"""Effective training time ratio of jobs by size: measured, and expected from failures and checkpoints."""

from __future__ import annotations

import polars as pl

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ._failure_inputs import COST_COLUMNS, COST_PARAMS, with_cost, with_rate
from ._formulas import modelled_ettr_ratio

ETTR = Table(
    name="ettr",
    doc=(
        "Effective training time ratio by month and size. Measured: productive time by run time plus waits after "
        "the first start, over jobs that ran a day or more and ended in the month; productive is run time less lost work "
        "and less getting ready again, an interval where no log tells of checkpoints. Modelled: "
        "(1 - N r (u + D/2)) / (1 + w/D) of arXiv 2410.21680 for the bucket's mean size, N nodes, r failures per "
        "node-hour (node_failure_rate, infrastructure), u hours to restart, D between checkpoints, w to save. NULL "
        "where an ingredient is neither measured nor stated in the settings."
    ),
    grain=("cluster", "month_ts", "size_bucket"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the jobs"),
        Column("month_ts", "TIMESTAMP", "start of the month, UTC"),
        Column("size_bucket", "VARCHAR", "GPUs, as in run_exposure_day"),
        Column("job_count", "BIGINT", "jobs measured", "count"),
        Column("mean_gpu_count", "DOUBLE", "their GPUs, mean weighted by run time", "count"),
        Column("ettr_lower_ratio", "DOUBLE", "measured, if interruptions lost most; NULL if attempts are missing", "ratio"),
        Column("ettr_upper_ratio", "DOUBLE", "measured, if interruptions lost least", "ratio"),
        Column("modelled_ratio", "DOUBLE", "expected at the month's failure rate", "ratio"),
        Column("modelled_lower_ratio", "DOUBLE", "the same at the rate's upper 95 % bound", "ratio"),
        Column("modelled_upper_ratio", "DOUBLE", "the same at its lower bound", "ratio"),
        Column("failure_rate", "DOUBLE", "failures per 1,000 node-days that the model takes", "1/1000 d"),
        *COST_COLUMNS,
        Column(
            "coverage_ratio",
            "DOUBLE",
            "share of interruptions whose lost work is known; 1 without interruptions",
            "ratio",
        ),
    ),
    time="month_ts",
    period="month",
    sort=("cluster", "month_ts", "size_bucket"),
)  # fmt: skip
PARAMS: dict[str, Param] = COST_PARAMS


@model(output=ETTR, window="month", params=PARAMS)
def ettr(
    job_progress_month: pl.LazyFrame,
    node_failure_rate: pl.LazyFrame,
    checkpoint_practice: pl.LazyFrame,
    *,
    restart_s: float,
    save_s: float,
    interval_s: float,
) -> pl.LazyFrame:
    """Both ratios. No SQL: the model's formula is shared with failure_budget, kept once."""
    known = with_rate(job_progress_month, node_failure_rate).pipe(
        with_cost, checkpoint_practice, restart_s=restart_s, save_s=save_s, interval_s=interval_s
    )
    whole = pl.col("has_all_attempts").is_null() | pl.col("has_all_attempts")
    run, after_start = pl.col("run_gpu_s"), pl.col("run_gpu_s") + pl.col("wait_gpu_s")

    def measured(lost: str) -> pl.Expr:
        productive = pl.max_horizontal(run - pl.col(lost) - pl.col("init_gpu_s"), run * 0)
        return pl.when(whole & (run > 0)).then(productive / after_start)

    def modelled(rate: str) -> pl.Expr:
        nodes = pl.col("mean_gpu_count") / pl.col("gpus_per_node")
        return modelled_ettr_ratio(
            nodes * pl.col(rate) / 24_000,
            pl.col("restart_s") / 3600,
            pl.col("interval_s") / 3600,
            pl.col("save_s") / 3600,
        )

    return known.with_columns(
        measured("lost_upper_gpu_s").alias("ettr_lower_ratio"),
        measured("lost_lower_gpu_s").alias("ettr_upper_ratio"),
        modelled("rate").alias("modelled_ratio"),
        modelled("rate_upper").alias("modelled_lower_ratio"),
        modelled("rate_lower").alias("modelled_upper_ratio"),
        pl.col("rate").alias("failure_rate"),
        pl.when(pl.col("interruption_count") > 0)
        .then(pl.col("known_lost_count") / pl.col("interruption_count"))
        .otherwise(1.0)
        .alias("coverage_ratio"),
    ).select(ETTR.column_names)
