"""Nodes that fail more often than the fleet explains."""

from __future__ import annotations

import polars as pl

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ..reliability._formulas import poisson_quantile, poisson_tail

LEMON_NODES = Table(
    name="lemon_nodes",
    doc=(
        "Nodes with incidents, by month (and the 60 days before), against what the rest of the fleet lets expect "
        "for their GPU-hours. is_lemon: more incidents than the Poisson limit of the stated confidence at the rate of "
        "all other nodes (one incident added to theirs). rate_shrunk is the node's rate drawn towards the fleet's by a Gamma prior, whose mean and "
        "variance are those of the fleet's nodes (method of moments): a node with little exposure stays near the "
        "fleet. At 99.9 % one healthy node in a thousand exceeds the limit by chance: chance_count says how many "
        "of this fleet's nodes. NULL where the node's GPU-hours are not known."
    ),
    grain=("cluster", "month_ts", "node"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the node"),
        Column("month_ts", "TIMESTAMP", "start of the month, UTC"),
        Column("node", "VARCHAR", "node"),
        Column("incident_count", "BIGINT", "incidents in the month and 60 days before", "count"),
        Column("gpu_h", "DOUBLE", "GPU-hours it carried in that time", "h"),
        Column("expected_count", "DOUBLE", "incidents expected of it: those of all other nodes and one more, by GPU-hours", "count"),
        Column("limit_count", "BIGINT", "Poisson limit: more than this is a lemon", "count"),
        Column("tail_probability", "DOUBLE", "chance of as many incidents or more, were it like the others", "ratio"),
        Column("is_lemon", "BOOLEAN", "incident_count > limit_count"),
        Column("rate_shrunk", "DOUBLE", "incidents per 1,000 GPU-hours, shrunk", "1/1000 h"),
        Column("fleet_rate", "DOUBLE", "incidents per 1,000 GPU-hours of the cluster", "1/1000 h"),
        Column("node_count", "BIGINT", "nodes with GPU-hours in the cluster and month", "count"),
        Column("chance_count", "DOUBLE", "nodes that exceed their limit by chance alone, at most", "count"),
        Column("last_reasons", "VARCHAR[]", "reasons of the last five incidents, latest first"),
        Column("last_ts", "TIMESTAMP", "start of the last one"),
        Column("job_ids", "VARCHAR[]", "jobs concerned, 20 at most"),
        Column("coverage_ratio", "DOUBLE", "share of the node's held hours whose GPUs are known", "ratio"),
    ),
    time="month_ts",
    period="month",
    sort=("cluster", "month_ts", "node"),
)  # fmt: skip
PARAMS = {
    "confidence_ratio": Param(
        0.999,
        "ratio; of the Poisson limit. 99.9 %: one healthy node of a thousand is flagged by chance.",
        most=0.999999,
    ),
}
_MONTH = ("cluster", "month_ts")


@model(output=LEMON_NODES, window="month", params=PARAMS)
def lemon_nodes(node_load_month: pl.LazyFrame, *, confidence_ratio: float) -> pl.LazyFrame:
    """Limit, tail and shrunk rate per node. No SQL: DuckDB has no Poisson quantiles."""
    time, count = pl.col("gpu_h"), pl.col("incident_count")
    judged = node_load_month.filter((time > 0) | (count > 0)).with_columns(
        pl.when(time > 0).then(time).alias("gpu_h")
    )
    exposed = pl.when(time.is_not_null()).then(count)
    fleet = judged.with_columns(
        exposed.sum().over(_MONTH).alias("all_count"),
        time.sum().over(_MONTH).alias("all_h"),
        time.count().cast(pl.Int64).over(_MONTH).alias("node_count"),
    ).with_columns(
        (pl.col("all_count") / pl.col("all_h")).alias("mean_rate"),
        # Rate of the others, so that a lemon does not hide behind itself; one incident more than they
        # had, so that the first incident of a small fleet makes no lemon.
        ((pl.col("all_count") - count + 1) / (pl.col("all_h") - time) * time).alias(
            "expected_count"
        ),
    )
    # Spread of true rates: that of the counts, less what chance adds (Poisson: the count itself).
    spread = (((exposed - pl.col("mean_rate") * time) ** 2 - exposed).sum() / (time**2).sum()).over(
        _MONTH
    )
    shaped = fleet.with_columns(spread.clip(0).alias("variance")).with_columns(
        pl.when(pl.col("variance") > 0)
        .then((pl.col("mean_rate") ** 2 / pl.col("variance") + count)
              / (pl.col("mean_rate") / pl.col("variance") + time))
        .when(time.is_not_null())
        .then(pl.col("mean_rate"))
        .alias("shrunk")
    )  # fmt: skip
    bounded = _with_tail(shaped.filter(count > 0).collect(), confidence_ratio)
    return (
        bounded.lazy()
        .with_columns(
            (count > pl.col("limit_count")).alias("is_lemon"),
            (1000 * pl.col("shrunk")).alias("rate_shrunk"),
            (1000 * pl.col("mean_rate")).alias("fleet_rate"),
            (pl.col("node_count") * (1 - confidence_ratio)).alias("chance_count"),
            pl.when(pl.col("held_h") > 0)
            .then(pl.col("known_held_h") / pl.col("held_h"))
            .alias("coverage_ratio"),
        )
        .select(LEMON_NODES.column_names)
    )


def _with_tail(nodes: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """Adds limit_count and tail_probability."""
    mean = nodes["expected_count"].fill_nan(None)
    return nodes.with_columns(
        mean.alias("expected_count"),
        poisson_quantile(mean, confidence).alias("limit_count"),
        poisson_tail(nodes["incident_count"], mean).alias("tail_probability"),
    )
