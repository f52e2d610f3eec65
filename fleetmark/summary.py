"""What stands in each table: rows, content hash, time range."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError
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
        return [_summary(store, table) for table in tables]
    finally:
        store.connection.execute("ROLLBACK")


def _summary(store: Store, table: Table) -> TableSummary:
    time = quote(table.time) if table.time else "NULL::TIMESTAMP"
    if not store.has_table(table.name):
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
