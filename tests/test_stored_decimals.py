"""Values with decimals are stored as binary fractions that round to what was printed."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.pipeline.write import binary_fractions
from fleetmark.table import Column, Table


def table(decimals: int) -> Table:
    value = Column("value", "DOUBLE", "a printed number", decimals=decimals)
    return Table("t", "a table", ("value",), (value,))


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 6),
    st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=50),
)
def test_what_was_printed_comes_back(decimals: int, digits: list[int]) -> None:
    printed = [n / 10**decimals for n in digits]
    stored = binary_fractions(table(decimals), pl.DataFrame({"value": printed}))["value"]
    assert [round(value, decimals) for value in stored] == printed
    steps = stored * 2 ** (10**decimals - 1).bit_length()
    assert (steps == steps.round()).all()


@pytest.mark.parametrize("value", [None, 0.0, 1.0, 700.0, float("nan"), float("inf")])
def test_whole_numbers_and_what_is_none_stay(value: float | None) -> None:
    frame = pl.DataFrame({"value": [value]}, schema={"value": pl.Float64()})
    assert binary_fractions(table(3), frame)["value"].equals(frame["value"], null_equal=True)
