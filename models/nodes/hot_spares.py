"""How many spare nodes keep a fleet whole."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ..reliability._formulas import poisson_quantile

HOT_SPARES = Table(
    name="hot_spares",
    doc=(
        "Least number of spare nodes with which, at a moment, all the nodes under repair are covered with the stated "
        "probability: the quantile of a Poisson distribution of mean rate x nodes x time to repair. The rate is that of "
        "the month's unplanned outages (node_failure_rate, population outage), also at its upper bound; repair "
        "times are the month's median and 90th percentile (node_availability). Failures of a whole rack break "
        "the assumption that nodes fail alone: add them."
    ),
    grain=("cluster", "month_ts", "repair_quantile"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("month_ts", "TIMESTAMP", "start of the month, UTC"),
        Column("repair_quantile", "VARCHAR", "p50 or p90: which time to repair is taken"),
        Column("repair_s", "DOUBLE", "time to repair; NULL if nothing was repaired in the month", "s"),
        Column("node_count", "BIGINT", "nodes installed", "count"),
        Column("rate", "DOUBLE", "unplanned outages per 1,000 node-days", "1/1000 d"),
        Column("expected_out_count", "DOUBLE", "nodes expected under repair at a moment", "count"),
        Column("probability", "DOUBLE", "with which the spares suffice, of the settings", "ratio"),
        Column("spare_count", "BIGINT", "spare nodes needed", "count"),
        Column("spare_upper_count", "BIGINT", "the same at the rate's upper 95 % bound", "count"),
        Column("coverage_ratio", "DOUBLE", "share of the month that the outage records reach", "ratio"),
    ),
    time="month_ts",
    period="month",
    sort=("cluster", "month_ts"),
)  # fmt: skip
PARAMS = {
    "probability": Param(
        0.99,
        "ratio; share of moments in which the spares must suffice. 99 %: 3.65 days a year short of nodes.",
        most=0.999999,
    ),
}
DAY_S = timedelta(days=1).total_seconds()


@model(output=HOT_SPARES, window="month", params=PARAMS)
def hot_spares(
    node_failure_rate: pl.LazyFrame, node_availability: pl.LazyFrame, *, probability: float
) -> pl.LazyFrame:
    """Poisson quantiles. No SQL: DuckDB has none."""
    month = ["cluster", "month_ts"]
    rates = (
        node_failure_rate.filter(pl.col("population") == "outage")
        .select(*month, "rate", "rate_upper")
        .unique()
    )
    repaired = (
        node_availability.filter(pl.col("reason_class") == "unplanned")
        .select(*month, "node_count", "coverage_ratio", p50="repair_p50_s", p90="repair_p90_s")
        .unpivot(
            ["p50", "p90"],
            index=[*month, "node_count", "coverage_ratio"],
            variable_name="repair_quantile",
            value_name="repair_s",
        )
    )
    per_rate = pl.col("node_count") * pl.col("repair_s") / DAY_S / 1000
    found = (
        repaired.join(rates, on=month)
        .with_columns(
            (pl.col("rate") * per_rate).alias("expected_out_count"),
            (pl.col("rate_upper") * per_rate).alias("upper"),
            pl.lit(float(probability)).alias("probability"),
        )
        .collect()
    )
    return (
        found.lazy()
        .with_columns(
            poisson_quantile(found["expected_out_count"], probability).alias("spare_count"),
            poisson_quantile(found["upper"], probability).alias("spare_upper_count"),
        )
        .select(HOT_SPARES.column_names)
    )
