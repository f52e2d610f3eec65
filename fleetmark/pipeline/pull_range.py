"""Which times of which service were pulled: the rows of `pull_range`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import polars as pl

from fleetmark.pipeline.write import showing
from fleetmark.store import Store
from fleetmark.store_tables import PULL_RANGE

Span = tuple[datetime, datetime]
# What the rows of one pull have in common: endpoint, selector, options as JSON.
Key = Sequence[str]
MINE = "(endpoint, selector, options) = ($1, $2, $3)"


def spans(store: Store, key: Key, status: str) -> list[Span]:
    """The stretches of this pull with a status, in order."""
    return store.connection.execute(
        f"SELECT start_ts, end_ts FROM lake.pull_range WHERE {MINE} AND status = $4 ORDER BY start_ts",
        [*key, status],
    ).fetchall()


def gaps(pulled: Sequence[Span], start: datetime, end: datetime) -> list[Span]:
    """What of [start, end) lies in none of the stretches, which are in order and apart."""
    missing = []
    for begins, ends in pulled:
        if begins > start and min(begins, end) > start:
            missing.append((start, min(begins, end)))
        start = max(start, ends)
    return [*missing, (start, end)] if start < end else missing


def note(
    store: Store, key: Key, status: str, span: Span, now: datetime, reason: str | None = None
) -> None:
    """Note a stretch, inside a transaction: those that touch become one, failures inside it go."""
    start, end = span
    if status == "pulled":
        touching = store.connection.execute(
            f"SELECT min(start_ts), max(end_ts) FROM lake.pull_range WHERE {MINE} "
            "AND status = 'pulled' AND start_ts <= $5 AND end_ts >= $4",
            [*key, start, end],
        ).fetchone()
        if touching and touching[0]:
            start, end = min(start, touching[0]), max(end, touching[1])
    store.connection.execute(
        f"DELETE FROM lake.pull_range WHERE {MINE} AND start_ts >= $4 AND end_ts <= $5 "
        "AND (status = 'failed' OR status = $6)",
        [*key, start, end, status],
    )
    row = (*key, status, start, end, reason, now)
    frame = pl.DataFrame([row], schema=PULL_RANGE.polars_schema(), orient="row")
    with showing(store, "noted", frame):
        store.connection.execute("INSERT INTO lake.pull_range FROM noted")


def record(
    store: Store, key: Key, status: str, span: Span, now: datetime, reason: str | None = None
) -> None:
    """Note a stretch in a transaction of its own."""
    store.commit(lambda: note(store, key, status, span, now, reason))
    store.settle(["pull_range"])
