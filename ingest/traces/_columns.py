"""The wanted columns of a trace's CSV file, found by its header, and the rows of contracts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from fleetmark.source import Context, Parsed, rejects

from .._delimited import delimiter_counts, split_columns


@dataclass(frozen=True, slots=True)
class Fields:
    """The wanted fields as text (a column the file lacks is NULL), what was refused and skipped."""

    frame: pl.DataFrame
    refused: pl.DataFrame
    skipped: int


def header_has(head: bytes, needed: Sequence[str]) -> bool:
    """Do all the needed columns stand in the first line?"""
    names = head.split(b"\n", 1)[0].decode("utf-8", "replace").removeprefix("\ufeff").strip()
    return set(needed) <= set(names.split(","))


def fields_of(
    lines: pl.DataFrame, context: Context, needed: Sequence[str], others: Sequence[str]
) -> Fields:
    """Split comma-separated lines without quotes; the header may have columns in any order."""
    names = context.first_line.removeprefix("\ufeff").strip().split(",")
    blank = lines["text"] == ""
    wanted = (*needed, *others)
    schema = {"line_no": pl.Int64, **dict.fromkeys(wanted, pl.String)}
    if missing := [name for name in needed if name not in names]:
        reason = f"the header has no {', '.join(missing)}"
        bad = rejects(lines.filter(~blank), reason)
        return Fields(pl.DataFrame(schema=schema), bad, int(blank.sum()))
    is_header = (lines["text"].str.strip_chars("\ufeff \r") == ",".join(names)) | blank
    body = lines.filter(~is_header)
    is_whole = delimiter_counts(body, ",") == len(names) - 1
    at = {name: names.index(name) for name in wanted if name in names}
    frame = split_columns(body.filter(is_whole), ",", at)
    absent = [pl.lit(None, pl.String).alias(name) for name in wanted if name not in at]
    short = rejects(body.filter(~is_whole), f"not {len(names)} fields as in the header")
    return Fields(frame.with_columns(absent).select(*schema), short, int(is_header.sum()))


def parsed(table: str, rows: pl.DataFrame, lines: pl.DataFrame, fields: Fields) -> Parsed:
    """Rows whose `problem` is NULL as rows of `table`, the others as rejects."""
    is_bad = pl.col("problem").is_not_null()
    bad = (
        rows.filter(is_bad)
        .select("line_no", pl.col("problem").alias("reason"))
        .join(lines, on="line_no")
        .select("line_no", "reason", "text")
    )
    return Parsed(
        {table: rows.filter(~is_bad).drop("problem")},
        pl.concat([fields.refused, bad]),
        skipped=fields.skipped,
    )


def whole(name: str) -> pl.Expr:
    """A count or second; NULL for what is not a whole number (a trailing .0 is taken)."""
    text = pl.col(name).str.strip_chars().str.replace(r"\.0*$", "")
    # A number beyond 15 digits is none of these traces'; times made of it would overflow.
    return pl.when(text.str.contains(r"^-?[0-9]{1,15}$")).then(text).cast(pl.Int64, strict=False)


def unread(*names: str) -> pl.Expr:
    """Why a row cannot be read: the first of `names` that is filled and no whole number."""
    return pl.coalesce(
        pl.when(pl.col(name).is_not_null() & whole(name).is_null()).then(
            pl.format("{} '{}' is not a whole number", pl.lit(name), name)
        )
        for name in names
    )
