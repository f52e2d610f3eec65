"""The sweep under the goodput ledger gives every moment to one claim, the first of its layer."""

from __future__ import annotations

from importlib import import_module

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

sweep = import_module("fleetmark.models.goodput._ledger")

claim = st.tuples(
    st.integers(0, 2),
    st.integers(-50, 300),
    st.integers(0, 200),
    st.integers(0, len(sweep.LAYERS) - 1),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(claim, max_size=30), st.lists(st.integers(0, 250), min_size=6, max_size=6))
def test_the_sweep_gives_every_moment_to_the_first_layer(
    claimed: list[tuple[int, int, int, int]], ends: list[int]
) -> None:
    runs = pl.DataFrame(
        {
            "run": [0, 1, 2],
            "start": ends[:3],
            "end": [a + b for a, b in zip(ends[:3], ends[3:], strict=True)],
        },
        schema={"run": pl.UInt32, "start": pl.Int64, "end": pl.Int64},
    )
    rows = pl.DataFrame(
        [(r, s, s + n, k, f"{k}", None, False) for r, s, n, k in claimed],
        schema=sweep.CLAIM,
        orient="row",
    )
    got = sweep.ledger(runs, rows, pl.DataFrame(schema={"run": pl.UInt32, "at": pl.Int64}))
    owner = {
        (row["run"], moment): row["class"]
        for row in got.iter_rows(named=True) for moment in range(row["start"], row["end"])
    }  # fmt: skip
    want = {
        (run, moment): min(
            (k for r, s, n, k in claimed if r == run and s <= moment < s + n), default=None
        )
        for run, start, end in runs.iter_rows() for moment in range(start, end)
    }  # fmt: skip
    assert owner == {k: "unexplained" if v is None else f"{v}" for k, v in want.items()}
    assert got.height == len({(row["run"], row["start"]) for row in got.iter_rows(named=True)})
