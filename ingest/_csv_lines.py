"""Lines of a CSV file under a header, cut into columns of text."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, rejects


@dataclass(frozen=True, slots=True)
class Cells:
    """`rows`: line_no, text and each known column (NULL where the header names none)."""

    rows: pl.DataFrame
    rejects: pl.DataFrame
    skipped: int


def header_of(first_line: str) -> list[str]:
    """Names in a header line; none where it cannot be read."""
    try:
        cells = next(csv.reader([first_line.removeprefix("\ufeff")], strict=True), [])
    except csv.Error:
        return []
    return [name.strip() for name in cells]


def cells_of(
    lines: pl.DataFrame, context: Context, known: Sequence[str], required: Sequence[str]
) -> Cells:
    """Cut lines by the header on line 1; those with another number of cells are rejects."""
    names = header_of(context.first_line)
    blank = pl.col("text").str.strip_chars() == ""
    body = lines.filter(~blank & (pl.col("line_no") > 1))
    missing = [name for name in required if name not in names]
    if missing or len(set(names)) != len(names):
        written = lines.filter(~blank)
        reason = f"line 1 names no column {' and '.join(missing) or 'once only'}"
        return Cells(_empty(known), rejects(written, reason), lines.height - written.height)
    cut, bad = _cut(body, names)
    columns = [pl.col(n) if n in names else pl.lit(None, pl.String).alias(n) for n in known]
    return Cells(cut.select("line_no", "text", *columns), bad, lines.height - body.height)


def _empty(known: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame(
        schema={"line_no": pl.Int64, "text": pl.String} | dict.fromkeys(known, pl.String)
    )


def _cut(body: pl.DataFrame, names: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Line by line by Python's reader, so that a quote that is not closed ends with its line: 70,000
    lines of 17 cells a CPU second with all else that gcs_usage does.
    """
    good: list[tuple[object, ...]] = []
    bad: list[tuple[int, str, str]] = []
    for line_no, text in body.select("line_no", "text").iter_rows():
        try:
            cells = next(csv.reader([text], strict=True), [])
        except csv.Error as error:
            bad.append((line_no, f"not a CSV line: {error}", text))
            continue
        if len(cells) == len(names):
            good.append((line_no, text, *cells))
        else:
            bad.append((line_no, f"{len(cells)} cells, line 1 names {len(names)}", text))
    schema = {"line_no": pl.Int64, "text": pl.String} | dict.fromkeys(names, pl.String)
    return (
        pl.DataFrame(good, schema=schema, orient="row"),
        pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row"),
    )
