"""Lines of the exposition format, cut with Polars at the places where most of them are rightly cut."""

from __future__ import annotations

import polars as pl

SAMPLES_SCHEMA = {
    "line_no": pl.Int64(),
    "name": pl.String(),
    "labels": pl.String(),
    "value": pl.Float64(),
    "value_text": pl.String(),
    "time": pl.Float64(),
}


def cut_lines(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines cut as `name{labels} value [timestamp]`; NULL in value where that fails.

    Cut by position (which is in bytes): two splits would copy the long labels twice.
    """
    text, raw = pl.col("text"), pl.col("raw").bin
    opens, closes = pl.col("opens"), pl.col("closes")
    cut = (
        lines.with_columns_seq(
            raw=text.cast(pl.Binary),
            opens=text.str.find("{", literal=True).cast(pl.Int64),
            closes=text.str.find("} ", literal=True).cast(pl.Int64),
        )
        .with_columns_seq(closes=pl.when(closes > opens).then(closes))
        .select_seq(
            "line_no",
            raw.head(opens).cast(pl.String).alias("name"),
            raw.slice(opens + 1, closes - opens - 1).cast(pl.String).alias("labels"),
            raw.slice(closes + 2).cast(pl.String).alias("value_text"),
        )
    )
    return with_numbers(cut)


def with_numbers(cut: pl.DataFrame) -> pl.DataFrame:
    """Lines whose `value_text` is `value [timestamp]`, in SAMPLES_SCHEMA."""
    cut = cut.with_columns_seq(
        value=pl.col("value_text").cast(pl.Float64, strict=False), time=pl.lit(None, pl.Float64)
    )
    return (_cut_time(cut) if cut["value"].has_nulls() else cut).select(*SAMPLES_SCHEMA)


def _cut_time(cut: pl.DataFrame) -> pl.DataFrame:
    """The value text cut as `value timestamp`."""
    pair = cut["value_text"].str.splitn(" ", 2).struct
    time = pair.field("field_1").cast(pl.Float64, strict=False)
    no_time = pair.field("field_1").is_not_null() & ~time.is_finite().fill_null(value=False)
    value = pair.field("field_0").cast(pl.Float64, strict=False).set(no_time, None)
    return cut.with_columns(value=value, value_text=pair.field("field_0"), time=time)
