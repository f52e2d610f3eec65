"""What stands in each table: rows, content hash, time range."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, count
from typing import Any, get_args

import duckdb

from fleetmark.catalog import Catalog
from fleetmark.detector import FINDING, Severity
from fleetmark.errors import InputError, QueryError
from fleetmark.pipeline.publish import content_sql
from fleetmark.store import Store
from fleetmark.table import Table, quote


@dataclass(frozen=True, slots=True)
class TableSummary:
    """`content_hash` is the same for the same rows in any order; bookkeeping columns are left out."""

    name: str
    row_count: int
    content_hash: str
    first_ts: datetime | None
    last_ts: datetime | None
    doc: str


def summarise(store: Store, tables: Iterable[Table]) -> list[TableSummary]:
    """Summaries of tables, at one snapshot."""
    store.connection.execute("BEGIN")
    try:
        filled = store.with_files()
        return [_summary(store, table, is_empty=table.name not in filled) for table in tables]
    finally:
        store.connection.execute("ROLLBACK")


def _summary(store: Store, table: Table, *, is_empty: bool) -> TableSummary:
    """`is_empty`: no need to ask, which costs 50 ms a table; a new store has a hundred."""
    time = quote(table.time) if table.time else "NULL::TIMESTAMP"
    if is_empty:
        return TableSummary(table.name, 0, f"{0:016x}", None, None, table.doc)
    row = store.connection.execute(
        f"SELECT count(*), {content_sql(table)}, min({time}), max({time}) "
        f"FROM lake.{quote(table.name)}"
    ).fetchone()
    count, content, first, last = row or (0, 0, None, None)
    return TableSummary(table.name, count, f"{content % (1 << 64):016x}", first, last, table.doc)


def table_named(catalog: Catalog, name: str) -> Table:
    """The contract of a table. Raises InputError naming what there is."""
    if name not in catalog.tables:
        raise InputError(f"no table {name}; there are {', '.join(catalog.tables)}")
    return catalog.tables[name]


def run_sql(
    store: Store, query: str, *, most: int | None = None
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run one statement on the (read-only) store, up to `most` rows of it. Raises QueryError with DuckDB's
    own words.
    """
    try:
        store.connection.execute("USE lake")
        # DuckDB answers with None where the text holds no statement, whatever its type says.
        result: duckdb.DuckDBPyConnection | None = store.connection.execute(query)
        if result is None:
            raise QueryError("no statement: write one, such as SELECT * FROM ingest_file")
        columns = distinct([d[0] for d in result.description or ()])
        if not columns:
            return columns, []
        return columns, result.fetchall() if most is None else result.fetchmany(most)
    except duckdb.Error as error:
        raise QueryError(str(error)) from None


def why_empty(store: Store, catalog: Catalog, query: str) -> list[str]:
    """A line for each table of the statement that has no rows: which tables below it have none either, and who writes those."""
    filled = store.with_files()
    return [
        f"{name} has no rows; nothing is in {', '.join(_unread(catalog, filled, name))}"
        for name in sorted(store.connection.get_table_names(query))
        if name in catalog.tables and name not in filled and _unread(catalog, filled, name)
    ]


def _unread(catalog: Catalog, filled: set[str], name: str) -> list[str]:
    """Tables of sources at or below a table that have no rows, as `assoc (source sacctmgr)`."""
    by_output = {model.output.name: model for model in catalog.models.values()}
    todo, seen, found = [name], {name}, set()
    while todo:
        table = todo.pop()
        writers = [s.name for s in catalog.sources.values() if table in {o.name for o in s.outputs}]
        if writers:
            found.add(f"{table} (source {' or '.join(writers)})")
        inputs = by_output[table].inputs if table in by_output else ()
        todo += [i for i in inputs if i not in filled and i not in seen]
        seen.update(inputs)
    return sorted(found)


def distinct(names: Sequence[str]) -> list[str]:
    """Names that come again get a number, so that no column of an answer hides another."""
    found: list[str] = []
    for name in names:
        free = (f"{name}_{n}" for n in count(1))
        found.append(next(n for n in chain([name], free) if n not in found))
    return found


def worst_first(store: Store, domain: str | None = None) -> list[tuple[Any, ...]]:
    """Rows of `finding`, by severity, then score, then time."""
    names = ", ".join(quote(c) for c in FINDING.column_names)
    return store.connection.execute(
        f"SELECT {names} FROM lake.finding WHERE $1 IS NULL OR domain = $1 "
        "ORDER BY list_position($2, severity) DESC, score DESC, detected_at, finding_id",
        [domain, list(get_args(Severity))],
    ).fetchall()
