"""Rows into the lake: the contract's gate, repeats, and the log of changed days.

Everything here runs inside a transaction that the caller opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta

import polars as pl

from fleetmark.errors import DefinitionError
from fleetmark.pipeline.files import REJECT_TEXT_CHARS
from fleetmark.source import REJECTS_SCHEMA
from fleetmark.store import Store
from fleetmark.store_tables import REJECT
from fleetmark.table import TYPES, Table, quote


@dataclass(frozen=True, slots=True)
class Gated:
    """Rows that fit the contract, in its column order, and rejects for those that do not."""

    rows: pl.DataFrame
    rejects: pl.DataFrame


def gate(table: Table, frame: pl.DataFrame, file_id: str, texts: pl.DataFrame) -> Gated:
    """Fit a source's rows to the stored contract of `table` (with provenance).

    Missing columns become NULL. A value that does not fit its type and a NULL in a required
    column make the row a reject; `texts` (line_no, text) gives its line.
    """
    schema = frame.schema
    if unknown := set(schema) - set(table.column_names):
        raise DefinitionError(f"rows for {table.name} have unknown columns {sorted(unknown)}")
    absent = [
        pl.lit(file_id if c.name == "file_id" else None, dtype=TYPES[c.type]).alias(c.name)
        for c in table.columns
        if c.name not in schema
    ]
    recast = [c for c in table.columns if c.name in schema and schema[c.name] != TYPES[c.type]]
    casts = [pl.col(c.name).cast(TYPES[c.type], strict=False) for c in recast]
    fitted = frame.with_columns_seq(*absent, *casts).select(table.column_names)
    problems = [
        pl.when(frame[c.name].is_not_null() & fitted[c.name].is_null()).then(
            pl.lit(f"{c.name}: value does not fit {c.type}")
        )
        for c in recast
        if frame[c.name].null_count() != fitted[c.name].null_count()
    ]
    problems += [
        pl.when(pl.col(name).is_null()).then(pl.lit(f"no {name}"))
        for name in table.required()
        if fitted[name].null_count()
    ]
    if not problems:
        return Gated(fitted, pl.DataFrame(schema=REJECTS_SCHEMA))
    judged = fitted.with_columns(pl.coalesce(problems).alias("reason"))
    bad = (
        judged.filter(pl.col("reason").is_not_null())
        .select("line_no", "reason")
        .join(texts.unique("line_no"), on="line_no", how="left")
    )
    good = judged.filter(pl.col("reason").is_null()).drop("reason")
    return Gated(good, bad.select(*REJECTS_SCHEMA))


def collected(frame: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """The rows of a source's table, in memory."""
    return frame.collect(engine="streaming") if isinstance(frame, pl.LazyFrame) else frame


def rejects_of(parts: list[pl.DataFrame], source: str, path: str, file_id: str) -> pl.DataFrame:
    """Rows of `reject` for what one file (or partition of a stream) refused, each reason once a line."""
    return (
        pl.concat(parts)
        .unique(["line_no", "reason"], keep="first", maintain_order=True)
        .with_columns(
            pl.col("text").str.slice(0, REJECT_TEXT_CHARS),
            pl.lit(source).alias("source"),
            pl.lit(path).alias("path"),
            pl.lit(file_id).alias("file_id"),
        )
        .select(REJECT.column_names)
    )


def insert(store: Store, table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Insert rows whose grain is new (or newer, by `latest`); return those whose grain is new.

    One that takes another's place counts as a repeat: so a file counts the same however it is cut.
    """
    if rows.is_empty():
        return rows
    grain = list(table.grain)
    if table.latest:
        order = list(table.latest)
        rows = rows.sort(order, descending=True, nulls_last=True, maintain_order=True)
    rows = binary_fractions(table, rows.unique(subset=grain, keep="first", maintain_order=True))
    if table.latest:
        return _replace_older(store, table, rows)
    rows = _unknown(store, table, rows)
    if not rows.is_empty():
        with showing(store, "added", rows):
            store.connection.execute(f"INSERT INTO lake.{quote(table.name)} BY NAME FROM added")
    log_change(store, table, rows)
    return rows


def binary_fractions(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with printed decimals as the nearest multiples of a power of two that round to them.

    The least such power leaves 2^-(k+1) < 0.5 * 10^-decimals; the bits behind it are 0 and vanish
    when packed.
    """
    kept = [(c.name, 2 ** (10**c.decimals - 1).bit_length()) for c in table.columns if c.decimals]
    return rows.with_columns_seq((pl.col(name) * steps).round() / steps for name, steps in kept)


# Polars' buffers are not always aligned as Arrow would like; it reads them, and warns on stderr.
os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "ignore")


@contextmanager
def one_thread(store: Store) -> Iterator[None]:
    """Run SQL on one thread. With two, the insert of a batch cuts each partition's file in two: a
    third more CPU time, and no less wall time.
    """
    store.connection.execute("SET threads = 1")
    try:
        yield
    finally:
        store.connection.execute("RESET threads")


@contextmanager
def showing(store: Store, name: str, rows: pl.DataFrame) -> Iterator[None]:
    """Show a frame to SQL under a name, without copying its strings; only for plain scans.

    A join would push its keys into Arrow as a filter, and Arrow compares no views of strings.
    """
    store.connection.register(name, rows.to_arrow(compat_level=pl.CompatLevel.newest()))
    try:
        yield
    finally:
        store.connection.unregister(name)


def copy_in(store: Store, name: str, rows: pl.DataFrame) -> None:
    """A frame as a temporary table, to be joined with."""
    with showing(store, "copied", rows):
        store.connection.execute(f"CREATE OR REPLACE TEMP TABLE {quote(name)} AS FROM copied")


def _unknown(store: Store, table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose grain the store does not hold. Only keys are compared, in the rows' time range."""
    name, where = f"lake.{quote(table.name)}", _overlap(table, rows)
    if store.connection.execute(f"SELECT 1 FROM {name} t {where} LIMIT 1").fetchone() is None:
        return rows
    grain = list(table.grain)
    copy_in(store, "keys", rows.select(grain).with_row_index("row_index"))
    known = store.connection.execute(
        f"SELECT row_index FROM keys b SEMI JOIN (SELECT {', '.join(map(quote, grain))} "
        f"FROM {name} t {where}) t ON {_same(grain)}"
    ).pl()
    if known.is_empty():
        return rows
    mask = (
        pl.Series([True]).new_from_index(0, rows.height).scatter(known["row_index"], values=False)
    )
    return rows.filter(mask)


def _replace_older(store: Store, table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    """Insert rows that are unknown, or newer than what the store holds, which goes; return the unknown."""
    connection, name, grain = store.connection, f"lake.{quote(table.name)}", list(table.grain)
    copy_in(store, "incoming", rows)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE arriving AS {_newer(table, name)}")
    replaced = connection.execute(
        f"SELECT t.* FROM {name} t SEMI JOIN arriving b ON {_same(grain)}"
    ).pl()
    if not replaced.is_empty():
        connection.execute(f"DELETE FROM {name} t USING arriving b WHERE {_same(grain)}")
        log_change(store, table, replaced)
    connection.execute(f"INSERT INTO {name} BY NAME FROM arriving")
    arrived = connection.execute("SELECT * FROM arriving").pl()
    log_change(store, table, arrived)
    return arrived if replaced.is_empty() else arrived.join(replaced, on=grain, how="anti")


def _same(grain: list[str]) -> str:
    return " AND ".join(f"t.{quote(c)} = b.{quote(c)}" for c in grain)


def _newer(table: Table, name: str) -> str:
    """Rows of `incoming` that are unknown or greater than the stored row in `latest`."""
    wins = "false"
    for column in reversed(table.latest):
        b, t = f"b.{quote(column)}", f"t.{quote(column)}"
        greater = f"coalesce({b} > {t}, {t} IS NULL AND {b} IS NOT NULL)"
        wins = f"({greater} OR ({b} IS NOT DISTINCT FROM {t} AND {wins}))"
    first = quote(table.grain[0])
    return (
        f"SELECT b.* FROM incoming b LEFT JOIN {name} t ON {_same(list(table.grain))} "
        f"WHERE t.{first} IS NULL OR {wins}"
    )


def _overlap(table: Table, rows: pl.DataFrame) -> str:
    """A repeat has the same event time, so only that range of the table needs to be looked at."""
    if table.time is None:
        return ""
    low, high = rows.select(low=pl.col(table.time).min(), high=pl.col(table.time).max()).row(0)
    return f"WHERE t.{quote(table.time)} BETWEEN '{low!s}'::TIMESTAMP AND '{high!s}'::TIMESTAMP"


def log_change(store: Store, table: Table, rows: pl.DataFrame) -> None:
    """Log the days that `rows` touch, for the incremental build."""
    if rows.is_empty():
        return
    days = changed_days(table, rows)
    cluster = ""
    if "cluster" in rows.columns and rows.schema["cluster"] == pl.String():
        clusters = rows["cluster"].unique().sort().to_list()
    else:
        clusters = [cluster]
    changes = [(table.name, c, day) for c in clusters for day in days]
    log_days(store, changes)


def log_days(store: Store, changes: list[tuple[str, str, date | None]]) -> None:
    """Append (table, cluster, day) to the log of changes."""
    frame = pl.DataFrame(
        changes,
        schema={"table_name": pl.String(), "cluster": pl.String(), "day": pl.Date()},
        orient="row",
    )
    with showing(store, "changes", frame):
        store.connection.execute("INSERT INTO lake.meta.partition_change BY NAME FROM changes")


def changed_days(table: Table, rows: pl.DataFrame) -> list[date | None]:
    """Days that rows fall on; for intervals every day they overlap. [None] without time."""
    if table.time is None:
        return [None]
    start = pl.col(table.time).dt.date()
    if table.end is None:
        return [*rows.select(start.unique().sort()).to_series()]
    closing = [pl.col(table.end)] + ([pl.col(table.observed)] if table.observed else [])
    until = pl.coalesce(*closing, pl.col(table.time)).dt.date()
    spans = rows.select(start.alias("a"), until.alias("b")).unique()
    days: set[date] = set()
    for first, last in spans.iter_rows():
        days.update(first + timedelta(days=n) for n in range(max(0, (last - first).days) + 1))
    return [*sorted(days)]
