"""Samples of inference servers into rows of serving_sample and serving_latency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from ..tables.serving_sample import SERVING_LATENCY, SERVING_SAMPLE
from ..telemetry._exposition import labels_of
from ._serving_names import MODEL, NODE, RAY, RAY_REPLICA, REPLICA, TPOT, metric_of

START = "process_start_time_seconds"
WHO = ("cluster", "replica", "model", "ts")
_COUNTS = [c.name for c in SERVING_SAMPLE.columns if c.type == "BIGINT" and c.name != "gpu_count"]
_VALUES = (
    *_COUNTS,
    *(c.name for c in SERVING_SAMPLE.columns if c.type == "DOUBLE"),
)
# A counter beyond this is none.
_MOST = float(1 << 62)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows by table; `lost`: line_no of samples of no replica; `other_count`: samples not read."""

    tables: dict[str, pl.DataFrame]
    lost: pl.DataFrame
    other_count: int


def serving_rows(samples: pl.DataFrame, options: Mapping[str, str]) -> Rows:
    """Rows of samples (line_no, name, labels as `labels_of` reads them, value, ts, page_node)."""
    series = _series(samples.select("name", "labels").unique(maintain_order=True), options)
    placed = samples.join(series, on=("name", "labels"), how="inner", maintain_order="left")
    placed = placed.filter(pl.col("value").is_finite() & (pl.col("value") >= 0)).with_columns(
        (pl.col("value") * pl.col("factor")).alias("value"),
        pl.coalesce("node", "page_node").alias("node"),
        pl.lit(options["cluster"]).alias("cluster"),
        pl.coalesce("replica", "page_node").alias("replica"),
    )
    lost = placed.filter(pl.col("replica").is_null() & (pl.col("column") != START))
    good = placed.filter(pl.col("replica").is_not_null())
    rows = _wide(good, options)
    latency = _buckets(good)
    told = good.filter(
        (pl.col("column") != START) | pl.col("replica").is_in(rows["replica"].implode())
    )
    return Rows(
        {SERVING_SAMPLE.name: rows, SERVING_LATENCY.name: latency},
        lost.select("line_no"),
        samples.height - lost.height - told.height,
    )


def _series(series: pl.DataFrame, options: Mapping[str, str]) -> pl.DataFrame:
    """What each distinct series measures and of whom; others are left out. Python per series."""
    rows = []
    for name, text in series.iter_rows():
        found = metric_of(name)
        if found is None and name != START:
            continue
        labels = dict(labels_of(text) or ())
        if (
            found
            and found[0].where
            and found[0].where not in (f"{k}={v}" for k, v in labels.items())
        ):
            continue
        metric, is_bucket = found or (None, False)
        rows.append({
            "name": name, "labels": text, "is_bucket": is_bucket,
            "column": metric.column if metric else START,
            "server": metric.server if metric else None,
            "factor": metric.factor if metric and not is_bucket else 1.0,
            "combine": metric.combine if metric else "max",
            "le_s": _bound(labels.get("le"), metric.factor if metric else 1.0),
            "replica": _first(labels, RAY_REPLICA + REPLICA if name.startswith(RAY) else REPLICA)
            or options.get("replica")
            or labels.get("instance"),
            "node": _first(labels, NODE),
            "model": _first(labels, MODEL) or "",
        })  # fmt: skip
    return pl.DataFrame(rows, schema=_SERIES, orient="row")


_SERIES = {
    "name": pl.String(), "labels": pl.String(), "is_bucket": pl.Boolean(), "column": pl.String(),
    "server": pl.String(), "factor": pl.Float64(), "combine": pl.String(), "le_s": pl.Float64(),
    "replica": pl.String(), "node": pl.String(), "model": pl.String(),
}  # fmt: skip


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)


def _bound(text: str | None, factor: float) -> float | None:
    """A bucket's upper bound in seconds; infinity for the last."""
    try:
        return None if text is None else round(float(text) * factor, 9)
    except (ValueError, OverflowError):
        return None


def _wide(samples: pl.DataFrame, options: Mapping[str, str]) -> pl.DataFrame:
    """Metrics of a replica, model and time side by side."""
    values = samples.filter(~pl.col("is_bucket") & (pl.col("column") != START))
    combined = values.group_by(*WHO, "column", maintain_order=True).agg(
        pl.when(pl.col("combine").first() == "mean").then(pl.col("value").mean())
        .when(pl.col("combine").first() == "max").then(pl.col("value").max())
        .otherwise(pl.col("value").sum()).alias("value"),
    )  # fmt: skip
    starts = samples.filter(pl.col("column") == START).group_by("cluster", "replica", "ts").agg(
        (pl.col("value").max() * 1e6).round().cast(pl.Int64, strict=False).cast(pl.Datetime("us"))
        .alias("server_start_ts")
    )  # fmt: skip
    columns = [
        pl.col("value").filter(pl.col("column") == name).first().alias(name) for name in _VALUES
    ]
    gpus = options.get("gpu_count") or None
    # A server shows latencies of a model, too, on pages where it counts nothing of it yet.
    who = samples.filter(pl.col("column") != START).group_by(*WHO, maintain_order=True).agg(
        pl.col("line_no").min(), pl.col("server").first(), pl.col("node").drop_nulls().first()
    )  # fmt: skip
    wide = combined.group_by(*WHO, maintain_order=True).agg(columns)
    return (
        who.join(wide, on=WHO, how="left", maintain_order="left")
        .join(starts, on=("cluster", "replica", "ts"), how="left", maintain_order="left")
        .with_columns(
            *(pl.when(pl.col(n) < _MOST).then(n).round().cast(pl.Int64).alias(n) for n in _COUNTS),
            pl.lit(None if gpus is None else int(gpus), pl.Int64).alias("gpu_count"),
        )
    )


def _buckets(samples: pl.DataFrame) -> pl.DataFrame:
    """Finite buckets beside the count of all; per-token times only where no per-request ones are."""
    buckets = samples.filter(pl.col("is_bucket") & pl.col("le_s").is_not_null()).rename(
        {"column": "quantity"}
    )
    summed = buckets.group_by(*WHO, "quantity", "le_s", maintain_order=True).agg(
        pl.col("line_no").min(), pl.col("value").sum()
    )
    totals = summed.filter(pl.col("le_s").is_infinite()).select(
        *WHO, "quantity", pl.col("value").alias("total")
    )
    rank = pl.col("quantity").replace_strict(
        {name: place for place, name in enumerate(TPOT)}, default=None, return_dtype=pl.Int32
    )
    is_best = (rank == rank.min().over(WHO)).fill_null(value=True)
    return (
        summed.filter(is_best & pl.col("le_s").is_finite())
        .join(totals, on=(*WHO, "quantity"), how="left", maintain_order="left")
        .filter(pl.col("value") < _MOST)
        .select(
            "line_no", *WHO,
            pl.col("quantity").str.replace("^tpot_.*$", TPOT[0]), "le_s",
            pl.col("value").round().cast(pl.Int64).alias("within_count"),
            pl.when(pl.col("total") < _MOST).then("total").round().cast(pl.Int64).alias("total_count"),
        )
    )  # fmt: skip
