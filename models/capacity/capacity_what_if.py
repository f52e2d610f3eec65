"""What a month's waits would have been on fewer and more GPUs."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from fleetmark.capacity import RESULT_COLUMNS, SCHEMA, Fleet, Limits, what_if
from fleetmark.capacity.recorded import attempts_between, queue_limits
from fleetmark.model import Param, model
from fleetmark.table import Column, Table

CAPACITY_WHAT_IF = Table(
    name="capacity_what_if",
    doc=(
        "Recorded arrivals of a month replayed on today's GPUs, and on a stated share fewer and more of them: first "
        "come first served with backfill, gangs on whole nodes, limits of accounts and queues. A forecast stands only "
        "where the replay on today's GPUs reproduces the recorded waits within max_error_ratio; else verdict is refused and "
        "reason says why. `fleetmark capacity` replays any time and any numbers."
    ),
    grain=("cluster", "month_ts", "change_count"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("month_ts", "TIMESTAMP", "start of the month, UTC"),
        *RESULT_COLUMNS,
    ),
    time="month_ts",
    period="month",
    sort=("cluster", "month_ts", "change_count"),
)  # fmt: skip
PARAMS = {
    "change_ratio": Param(0.1, "ratio; share of today's GPUs that is taken away and added. A tenth."),
    "max_error_ratio": Param(
        0.2,
        "ratio; largest error of the replayed mean, median and 90th percentile of today's waits with which a forecast is given. "
        "Own choice: a fifth, and what is below a minute counts as a minute.",
    ),
    "gpus_per_node": Param(8, "count; GPUs of a node, which a smaller job does not cross. 0: one pool."),
    "max_attempt_count": Param(
        20_000,
        "count; months with more attempts are refused here and left to the command: three replays at every build "
        "would take seconds a month.",
    ),
}  # fmt: skip


@model(output=CAPACITY_WHAT_IF, window="month", lookback=timedelta(days=31), params=PARAMS)
def capacity_what_if(
    capacity_arrival: pl.LazyFrame,
    node_known: pl.LazyFrame,
    assoc: pl.LazyFrame,
    quota: pl.LazyFrame,
    *,
    change_ratio: float,
    max_error_ratio: float,
    gpus_per_node: int,
    max_attempt_count: int,
) -> pl.LazyFrame:
    """One replay per month and number of GPUs. No SQL: each start depends on those before it."""
    arrivals, nodes = capacity_arrival.collect(), node_known.collect()
    shares, quotas = assoc.collect(), quota.collect()
    months = arrivals.select("cluster", pl.col("ready_ts").dt.truncate("1mo").alias("month_ts"))
    found = [pl.DataFrame(schema=CAPACITY_WHAT_IF.polars_schema())]
    for cluster, month in months.unique().sort("cluster", "month_ts").iter_rows():
        here = pl.col("cluster") == cluster
        rows, given_up = attempts_between(
            arrivals.filter(here), quotas.filter(here), month, _next_month(month)
        )
        gpus = int(nodes.filter(here)["gpu_count"].sum())
        fleet = Fleet(gpus, gpus_per_node, queue_limits(shares.filter(here), quotas.filter(here)))
        step = max(1, round(gpus * change_ratio))
        if rows.height > max_attempt_count:
            result = _left_out(gpus, rows.height, max_attempt_count)
        else:
            limits = Limits(error_ratio=max_error_ratio)
            result = what_if(rows, given_up, fleet, (-step, step), limits)
        found.append(
            result.with_columns(cluster=pl.lit(cluster), month_ts=pl.lit(month, pl.Datetime("us")))
            .select(CAPACITY_WHAT_IF.column_names)
        )  # fmt: skip
    return pl.concat(found).lazy()


def _next_month(month: datetime) -> datetime:
    return (month + timedelta(days=31)).replace(day=1)


def _left_out(gpus: int, count: int, most: int) -> pl.DataFrame:
    why = f"{count} attempts, {most} at most at every build: run fleetmark capacity"
    row = {"gpu_count": gpus, "change_count": 0, "verdict": "refused", "reason": why}
    return pl.DataFrame([row], schema=SCHEMA)
