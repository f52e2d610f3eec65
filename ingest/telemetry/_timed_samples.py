"""Samples of exposition pages with their times, of the metrics that a source keeps."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from fleetmark.source import Context, rejects

from ._exposition_lines import read_samples
from ._scrape_pages import MARKER, own_times, page_frame, pages_of


class TimedSamples(NamedTuple):
    """Samples with `ts` (their own time, else their page's); what could not be read or has no time.

    `skipped` counts lines of other metrics and comments; `held_from` is the line at which a page begins
    that may go on in the next chunk.
    """

    samples: pl.DataFrame
    rejects: pl.DataFrame
    skipped: int
    held_from: int | None


def timed_samples(lines: pl.DataFrame, context: Context, kept: pl.Expr) -> TimedSamples:
    """Read the pages in `lines`; `kept` says which samples (by name, labels) are wanted."""
    markers = lines.filter(pl.col("text").str.starts_with(MARKER))
    held_from = None
    if not context.at_end and lines.height:
        held_from = int((markers["line_no"].tail(1) if markers.height else lines["line_no"])[0])
        lines = lines.filter(pl.col("line_no") < held_from)
        markers = markers.filter(pl.col("line_no") < held_from)
    pages = pages_of(markers, context)
    samples, unread = read_samples(lines, markers["line_no"])
    starts = pl.Series([page.line_no for page in pages[1:]], dtype=pl.Int64)
    samples = samples.with_columns(
        starts.search_sorted(samples["line_no"], side="right").cast(pl.UInt32).alias("page"),
        own_times(samples["time"]).alias("own_ts"),
        pl.col("name", "labels").cast(pl.String),
    ).filter(kept)
    samples = samples.join(page_frame(pages), on="page", how="left", maintain_order="left")
    samples = samples.with_columns(pl.coalesce("own_ts", "page_ts").alias("ts"))
    timeless = samples.filter(pl.col("ts").is_null())
    bad = lines.join(timeless.select("line_no", "problem"), on="line_no", how="inner")
    return TimedSamples(
        samples.filter(pl.col("ts").is_not_null()),
        pl.concat([unread, rejects(bad, pl.col("problem"))]).sort("line_no"),
        lines.height - samples.height - unread.height,
        held_from,
    )
