"""On which days a node's kernel log has a line, from few of its lines."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from ._kernel_stamp import place_times, split_stamps

_KERNEL_TAG = " kernel:"
_DATE = r"(\d{4}-\d\d-\d\d|[A-Z][a-z]{2} [ \d]\d) "
_HOST = r"\d\d:\d\d:\d\d\S* (\S+)"
_DATE_T = r"(\d{4}-\d\d-\d\d)[T ]"
# Of lines whose stamps show no date (since boot, since 1970, in JSON) so many are looked at, evenly.
_UNDATED_LINES = 500


def day_rows(
    lines: pl.DataFrame, events: pl.DataFrame, options: Mapping[str, str], anchor: pl.Series
) -> pl.DataFrame:
    """Rows of kernel_log_day (without `cluster`) of lines (line_no, text) and the events found in them.

    The first and the last line of each date and host are placed: zones turn a date into two days at most.
    Where other programs write into the file, lines of the kernel count alone, and events. Lines that cannot
    be placed say nothing. A day is missed where stamps show no date and a chunk holds few lines of it.
    """
    is_tagged = pl.col("text").str.contains(_KERNEL_TAG, literal=True)
    mine = lines.filter(is_tagged) if lines.select(is_tagged.any()).item() else lines
    text = pl.col("text").str.head(80)
    dated = mine.with_columns(
        pl.coalesce(text.str.extract(_DATE_T), text.str.extract(_DATE)).alias("date"),
        text.str.extract(_HOST).alias("host"),
    )
    keys = dated.filter(pl.col("date").is_not_null()).group_by("date", "host").agg(
        pl.col("line_no").min().alias("first"), pl.col("line_no").max().alias("last")
    )  # fmt: skip
    undated = dated.filter(pl.col("date").is_null())["line_no"]
    step = max(1, undated.len() // _UNDATED_LINES)
    chosen = pl.concat([keys["first"], keys["last"], undated.gather_every(step), undated.tail(1)])
    found = split_stamps(lines.filter(pl.col("line_no").is_in(chosen.unique().implode())))
    found = found.filter(pl.col("tag").is_null() | (pl.col("tag") == "kernel"))
    placed = place_times(found, options, anchor).with_columns(
        pl.coalesce("node", pl.lit(options.get("node"), pl.String)).alias("node"),
        pl.col("ts").dt.truncate("1d").alias("day_ts"),
    )
    seen = placed.filter(pl.col("problem").is_null()).select("line_no", "node", "day_ts")
    told = events.select("line_no", "node", pl.col("ts").dt.truncate("1d").alias("day_ts"))
    rows = pl.concat([seen, told], how="vertical_relaxed").drop_nulls()
    return rows.group_by("node", "day_ts").agg(pl.col("line_no").min()).sort("line_no", "node")
