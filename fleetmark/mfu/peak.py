"""The dense peak of a GPU by its name and the precision that ran."""

from __future__ import annotations

from importlib.resources import files

import polars as pl

# Precisions of runs to those of gpu_peak. What is not stated is taken for bf16, and the result says so.
PRECISION = {"bf16": "fp16_bf16", "fp16": "fp16_bf16", "fp8": "fp8", "fp4": "fp4", "tf32": "tf32"}
ASSUMED = "bf16"


def packaged() -> pl.DataFrame:
    """The peaks that ship with Fleetmark: what a store holds when nobody added any."""
    path = files("fleetmark.ingest.training") / "gpu_peak.json"
    return pl.read_ndjson(path.read_bytes(), schema_overrides={"dense_tflops": pl.Float64()})


def with_peak(rows: pl.DataFrame, peaks: pl.DataFrame) -> pl.DataFrame:
    """Rows (gpu_model, precision) with `dense_tflops`, `peak_model`, `peak_source`.

    The first pattern in match_order that fits the name decides, whatever the precision: an H100 NVL
    without an FP8 entry has no FP8 peak, and never that of the SXM board. NULL where no pattern fits,
    and for MIG instances, which report their parent's name but have a part of its rate.
    """
    stated = pl.col("precision").fill_null(ASSUMED).replace_strict(PRECISION, default=None)
    names = rows.select("gpu_model").drop_nulls().unique()
    names = names.filter(~pl.col("gpu_model").str.contains(r"(?i)\bMIG\b"))
    patterns = peaks.select("match_order", "pattern", peak_model="gpu_model").unique().sort(
        "match_order", "pattern", "peak_model"
    )  # fmt: skip
    fits = [
        names.filter(pl.col("gpu_model").str.contains(f"(?i){pattern}")).with_columns(
            pl.lit(order).alias("match_order"), pl.lit(model).alias("peak_model")
        )
        for order, pattern, model in patterns.iter_rows()
    ]
    schema = {"gpu_model": pl.String(), "match_order": pl.Int64(), "peak_model": pl.String()}
    first = pl.concat([pl.DataFrame(schema=schema), *fits], how="vertical_relaxed").unique(
        "gpu_model", keep="first", maintain_order=True
    )
    rates = peaks.select(
        "dense_tflops", peak_model="gpu_model", peak_precision="precision", peak_source="source"
    ).unique(["peak_model", "peak_precision"], keep="first", maintain_order=True)
    return (
        rows.with_columns(stated.alias("peak_precision"))
        .join(first.drop("match_order"), on="gpu_model", how="left", maintain_order="left")
        .join(rates, on=["peak_model", "peak_precision"], how="left", maintain_order="left")
        .drop("peak_precision")
    )
