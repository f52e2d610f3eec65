"""How often jobs of a size should save, and what changing to that would bring."""

from __future__ import annotations

import polars as pl

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ._formulas import checkpoint_overhead_ratio, young_daly_s

CHECKPOINT_INTERVAL_ADVICE = Table(
    name="checkpoint_interval_advice",
    doc=(
        "Interval between checkpoints of least expected loss by month and size: sqrt(2 x save time x MTTF) (Young, "
        "Daly), with the expected overhead save/interval + interval/(2 MTTF) there and at today's interval. Two rows "
        "a size: MTTF measured (job_mttf_by_size, infrastructure) and projected from nodes (node_failure_rate) for the "
        "largest attempt of the size in the month. First order: it holds while saving is short against the MTTF."
    ),
    grain=("cluster", "month_ts", "size_bucket", "mttf_source"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the jobs"),
        Column("month_ts", "TIMESTAMP", "start of the month, UTC"),
        Column("size_bucket", "VARCHAR", "GPUs, as in run_exposure_day"),
        Column("mttf_source", "VARCHAR", "measured or projected"),
        Column("gpu_count", "DOUBLE", "GPUs of the largest attempt of the size: what is projected for", "count"),
        Column("mttf_h", "DOUBLE", "mean time to failure; NULL without failures", "h"),
        Column("mttf_lower_h", "DOUBLE", "lower 95 % bound", "h"),
        Column("mttf_upper_h", "DOUBLE", "upper 95 % bound", "h"),
        Column("save_s", "DOUBLE", "time that saving stops training", "s"),
        Column("save_source", "VARCHAR", "measured (checkpoint_practice) or stated (settings)"),
        Column("advised_interval_s", "DOUBLE", "interval of least loss at mttf_h", "s"),
        Column("advised_lower_s", "DOUBLE", "the same at mttf_lower_h", "s"),
        Column("advised_upper_s", "DOUBLE", "the same at mttf_upper_h", "s"),
        Column("interval_s", "DOUBLE", "today's interval (checkpoint_practice); NULL if not known", "s"),
        Column("overhead_ratio", "DOUBLE", "expected overhead at today's interval", "ratio"),
        Column("advised_overhead_ratio", "DOUBLE", "expected overhead at the advised interval", "ratio"),
        Column("coverage_ratio", "DOUBLE", "of the mean time to failure, as in its own table", "ratio"),
    ),
    time="month_ts",
    period="month",
    sort=("cluster", "month_ts", "size_bucket"),
)  # fmt: skip
PARAMS = {
    "save_s": Param(
        60,
        "s; time that saving stops training where no log tells. A minute: advice for other times scales with "
        "the root.",
    ),
}
HOUR_S = 3600


@model(output=CHECKPOINT_INTERVAL_ADVICE, window="month", params=PARAMS)
def checkpoint_interval_advice(
    failure_month: pl.LazyFrame,
    job_mttf_by_size: pl.LazyFrame,
    node_failure_rate: pl.LazyFrame,
    checkpoint_practice: pl.LazyFrame,
    *,
    save_s: float,
) -> pl.LazyFrame:
    """Advice for every size that ran. No SQL: the formulas are shared, kept once."""
    both = _times_to_failure(failure_month, job_mttf_by_size, node_failure_rate)
    month = ["cluster", "month_ts"]
    practice = checkpoint_practice.select(
        *month, pl.col("interval_p50_s").alias("interval_s"), "save_p50_s"
    )
    costed = both.join(practice, on=month, how="left").with_columns(
        pl.coalesce("save_p50_s", pl.lit(float(save_s))).alias("save_s"),
        pl.when(pl.col("save_p50_s").is_not_null())
        .then(pl.lit("measured"))
        .otherwise(pl.lit("stated"))
        .alias("save_source"),
    )
    save, mttf_s = pl.col("save_s"), pl.col("mttf_h") * HOUR_S
    advised = costed.with_columns(
        young_daly_s(save, mttf_s).alias("advised_interval_s"),
        young_daly_s(save, pl.col("mttf_lower_h") * HOUR_S).alias("advised_lower_s"),
        young_daly_s(save, pl.col("mttf_upper_h") * HOUR_S).alias("advised_upper_s"),
        checkpoint_overhead_ratio(pl.col("interval_s"), save, mttf_s).alias("overhead_ratio"),
    )
    at_best = checkpoint_overhead_ratio(pl.col("advised_interval_s"), save, mttf_s)
    return advised.with_columns(
        pl.when(pl.col("advised_interval_s") > 0).then(at_best).alias("advised_overhead_ratio")
    ).select(CHECKPOINT_INTERVAL_ADVICE.column_names)


def _times_to_failure(
    failure_month: pl.LazyFrame, job_mttf_by_size: pl.LazyFrame, node_failure_rate: pl.LazyFrame
) -> pl.LazyFrame:
    """Mean times to failure with bounds of every size that ran, measured and projected."""
    infrastructure = pl.col("population") == "infrastructure"
    month, size = ["cluster", "month_ts"], ["cluster", "month_ts", "size_bucket"]
    sizes = failure_month.filter(infrastructure, pl.col("max_gpu_count") > 0).select(
        *size, pl.col("max_gpu_count").alias("gpu_count")
    )
    bounds = ("mttf_h", "mttf_lower_h", "mttf_upper_h")
    measured = job_mttf_by_size.filter(infrastructure).select(*size, *bounds, "coverage_ratio")
    rates = node_failure_rate.filter(infrastructure).select(
        *month, "rate", "rate_upper", "rate_lower", "gpus_per_node", "coverage_ratio"
    )
    nodes = pl.col("gpu_count") / pl.col("gpus_per_node")
    projected = sizes.join(rates.unique(), on=month).with_columns(
        pl.when(pl.col(rate) > 0).then(24_000 / (pl.col(rate) * nodes)).alias(name)
        for name, rate in zip(bounds, ("rate", "rate_upper", "rate_lower"), strict=True)
    )
    shown = [*size, "gpu_count", *bounds, "coverage_ratio", "mttf_source"]
    return pl.concat(
        [
            sizes.join(measured, on=size)
            .with_columns(mttf_source=pl.lit("measured"))
            .select(shown),
            projected.with_columns(mttf_source=pl.lit("projected")).select(shown),
        ]
    )
