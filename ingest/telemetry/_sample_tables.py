"""Samples of series, as an exporter or dcgmi prints them, as rows of the four tables of GPU telemetry."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from fleetmark.source import Context
from fleetmark.table import Table

from ._exposition_cut import SAMPLES_SCHEMA
from ._gpu_series import series_frame
from ._identity_rows import identity_rows, named
from ._link_rows import link_rows
from ._sample_rows import extra_rows, positions, signals_of, wide_rows
from ._scrape_pages import Page, own_times, page_frame


def placed(samples: pl.DataFrame, series: pl.DataFrame, pages: Sequence[Page]) -> pl.DataFrame:
    """Samples with what the registry says of their name, the series and the page they belong to."""
    starts = pl.Series([page.line_no for page in pages[1:]], dtype=pl.Int64)
    page = starts.search_sorted(samples["line_no"], side="right").cast(pl.UInt32)
    number = positions(samples["labels"], series["labels"])
    return samples.select("line_no", "name", "value", "value_text").with_columns_seq(
        page.alias("page"),
        own_times(samples["time"]).alias("own_ts"),
        samples["time"].is_not_null().alias("is_own"),
        *signals_of(samples["name"]),
        number.alias("series"),
        series["is_gpu"].gather(number).alias("is_gpu"),
        series["is_link"].gather(number).alias("is_link"),
    )


def tables_of(
    samples: pl.DataFrame, series: pl.DataFrame, pages: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """Rows by table, without `cluster`."""
    identities = identity_rows(samples, series, pages)
    is_link = pl.col("table") == "gpu_link_sample"
    has_link = pl.col("is_link") | pl.col("name_link").is_not_null() & pl.col("is_gpu")
    on_gpu = ((pl.col("table") == "gpu_sample") & pl.col("is_gpu")).fill_null(value=False)
    on_link = (is_link & has_link).fill_null(value=False)
    rows = {
        "gpu_sample": wide_rows(samples.filter(on_gpu), series, pages),
        "gpu_link_sample": link_rows(samples.filter(on_link), series, pages),
        "gpu_sample_extra": extra_rows(samples.filter(~on_gpu & ~on_link), series, pages),
        "gpu_identity": identities,
    }
    return {name: named(frame, identities) for name, frame in rows.items()}


def timed_tables(
    samples: Sequence[tuple[object, ...]], outputs: Sequence[Table], cluster: str
) -> dict[str, pl.DataFrame]:
    """Rows by table from samples (as in SAMPLES_SCHEMA) that all state host, GPU and time."""
    frame = pl.DataFrame(samples, schema=SAMPLES_SCHEMA, orient="row").with_columns(
        pl.col("name", "labels").cast(pl.Categorical(pl.Categories.random()))
    )
    pages = [Page(0, None, None)]
    series = series_frame(frame["labels"])
    tables = tables_of(placed(frame, series, pages), series, page_frame(pages))
    stated = pl.lit(cluster).alias("cluster")
    return {one.name: tables[one.name].with_columns(stated) for one in outputs}


def stated_gpus(context: Context) -> list[str]:
    """The UUIDs that the option `gpus` states, by index on the node; none where it is not given."""
    stated = context.options.get("gpus", "")
    return [uuid.strip() for uuid in stated.split(",") if uuid.strip()]
