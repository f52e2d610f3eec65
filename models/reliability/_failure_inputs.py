"""What reliability advice rests on: the cluster's failure rate, and what a failure and a checkpoint cost."""

from __future__ import annotations

import polars as pl

from fleetmark.model import Param
from fleetmark.table import Column

COST_COLUMNS = (
    Column("restart_s", "DOUBLE", "time from restart to work", "s"),
    Column("restart_source", "VARCHAR", "measured (median of the month's restarts) or stated (settings)"),
    Column("interval_s", "DOUBLE", "time between checkpoints; NULL if neither logged nor stated", "s"),
    Column("interval_source", "VARCHAR", "measured (checkpoint_practice) or stated; NULL if not known"),
    Column("save_s", "DOUBLE", "time that saving a checkpoint stops training", "s"),
    Column("save_source", "VARCHAR", "measured (checkpoint_practice) or stated"),
)  # fmt: skip
COST_PARAMS = {
    "restart_s": Param(
        300,
        "s; time from restart to work where no restart of the month was measured. 5 minutes, as in "
        "arXiv 2410.21680.",
    ),
    "save_s": Param(
        0,
        "s; time that saving stops training where no log tells. 0: asynchronous checkpoints.",
    ),
    "interval_s": Param(
        0,
        "s; time between checkpoints where no log tells. 0: not stated, and what rests on it is NULL.",
    ),
}


def with_rate(rows: pl.LazyFrame, node_failure_rate: pl.LazyFrame) -> pl.LazyFrame:
    """Rows with the month's rate, its bounds (infrastructure, per 1,000 node-days) and gpus_per_node."""
    rates = (
        node_failure_rate.filter(pl.col("population") == "infrastructure")
        .select("cluster", "month_ts", "rate", "rate_lower", "rate_upper", "gpus_per_node")
        .unique()
    )
    return rows.join(rates, on=["cluster", "month_ts"], how="left")


def with_cost(
    rows: pl.LazyFrame,
    checkpoint_practice: pl.LazyFrame,
    *,
    restart_s: float,
    save_s: float,
    interval_s: float,
) -> pl.LazyFrame:
    """Rows (with init_p50_s) with the columns of COST_COLUMNS: measured, else as the settings state."""
    practice = checkpoint_practice.select("cluster", "month_ts", "interval_p50_s", "save_p50_s")
    stated = {
        "restart": ("init_p50_s", pl.lit(float(restart_s))),
        "save": ("save_p50_s", pl.lit(float(save_s))),
        "interval": ("interval_p50_s", pl.lit(float(interval_s) if interval_s > 0 else None)),
    }
    return rows.join(practice, on=["cluster", "month_ts"], how="left").with_columns(
        column
        for name, (seen, value) in stated.items()
        for column in (
            pl.coalesce(seen, value).cast(pl.Float64).alias(f"{name}_s"),
            pl.when(pl.col(seen).is_not_null())
            .then(pl.lit("measured"))
            .when(value.is_not_null())
            .then(pl.lit("stated"))
            .alias(f"{name}_source"),
        )
    )
