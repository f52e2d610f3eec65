"""Columns read text by text say what they say when read row by row."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import polars as pl
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

distinct: Any = import_module("fleetmark.ingest._distinct")


@given(st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "bb", "ccc"]), st.text(max_size=3))))
def test_each_text_is_read_once_and_stands_on_every_row(texts: list[str | None]) -> None:
    seen: list[str] = []

    def read(text: pl.Series) -> pl.DataFrame:
        seen.extend(text)
        return pl.DataFrame({"size": text.str.len_chars(), "twice": text + text})

    column = pl.Series("text", texts, dtype=pl.String)
    found = distinct.by_text(column, read)
    expected = pl.DataFrame({"size": column.str.len_chars(), "twice": column + column})
    assert_frame_equal(found, expected)
    assert sorted(seen) == sorted({text for text in texts if text is not None})
