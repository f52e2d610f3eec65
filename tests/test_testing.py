"""How tables are compared: rows in any order, ratios to a tolerance."""

from __future__ import annotations

import polars as pl

from fleetmark.testing import differences

ROWS = pl.DataFrame(
    {"name": ["a"] * 4, "free": [8.0, 7.5, 8.0, None], "count": [1.0, 2.0, 3.0, 4.0]}
)


def test_rows_that_only_a_ratio_tells_apart_have_an_order() -> None:
    assert differences(ROWS.reverse(), ROWS, 1e-9) == []
    nearly = ROWS.with_columns(pl.col("free") * (1 + 1e-12)).sample(
        fraction=1, shuffle=True, seed=3
    )
    assert differences(nearly, ROWS, 1e-9) == []


def test_another_ratio_is_told() -> None:
    wrong = ROWS.with_columns(free=pl.Series([8.0, 7.5, 8.1, None]))
    assert differences(wrong.reverse(), ROWS, 1e-9) == ["row 3, free: 8.1 instead of 8.0"]
