"""Columns that repeat a few texts: each is read once."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl


def by_text(text: pl.Series, read: Callable[[pl.Series], pl.DataFrame]) -> pl.DataFrame:
    """What `read` says of each distinct text, on every row that holds it; NULL where there is none.

    `read` gets every text once and returns a row for each, in that order. Texts are told apart as
    categories: a join back to the rows would hash each of them twice.
    """
    if text.null_count() == text.len():
        return read(text.clear()).clear(text.len())
    codes = text.cast(pl.Categorical(pl.Categories.random())).to_physical()
    first = codes.arg_unique()
    first = first.filter(codes.gather(first).is_not_null())
    known = codes.gather(first)
    size = 1 + int(known.max())  # type: ignore[arg-type]  # codes are integers
    blank = pl.Series([0], dtype=pl.UInt32).new_from_index(0, size)
    number = blank.scatter(known, pl.int_range(known.len(), dtype=pl.UInt32, eager=True))
    return read(text.gather(first)).select(pl.all().gather(number.gather(codes)))
