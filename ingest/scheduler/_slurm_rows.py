"""What rows of every snapshot share: times of a zone, and rejects for what cannot be read."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from fleetmark.source import REJECTS_SCHEMA

from ._slurm_time import times

Rows = tuple[pl.DataFrame, pl.DataFrame]


def with_times(
    frame: pl.DataFrame, columns: Sequence[str], zone: str | None
) -> tuple[pl.DataFrame, list[pl.Expr]]:
    """The frame with its text times read, and an expression for each column: why it cannot be read."""
    problems: list[pl.Expr] = []
    for name in columns:
        read = times(frame[name], zone)
        problem = pl.lit(pl.Series([*read["problem"]], dtype=pl.String))
        frame = frame.with_columns(read["ts"].alias(name))
        problems.append(pl.format("{} {}", pl.lit(name), problem))
    return frame, problems


def split_rejects(frame: pl.DataFrame, key: str, *working: str) -> Rows:
    """Rows whose `problem` is NULL, without it and the `working` columns; rejects for the others."""
    is_bad = pl.col("problem").is_not_null()
    bad = frame.filter(is_bad).select("line_no", reason="problem", text=key)
    typed = [pl.col(name).cast(kind) for name, kind in REJECTS_SCHEMA.items()]
    return frame.filter(~is_bad).drop("problem", *working), bad.select(typed)
