"""Merge small files, drop days past their keeping, and remove files that nothing refers to.

Every step is a transaction of its own and may run while others write and read. Files of snapshots that
a reader may still hold stay for `grace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetmark.catalog import Catalog
from fleetmark.errors import SettingsError
from fleetmark.pipeline.write import log_change
from fleetmark.store import Store
from fleetmark.table import Table, literal, quote

# The longest query or build takes far less; a file younger than this may belong to a commit in flight.
GRACE = timedelta(hours=6)


@dataclass(frozen=True, slots=True)
class Tended:
    """What one round did."""

    files_merged: int
    files_removed: int
    orphans_removed: int
    rows_expired: int
    snapshots_expired: int


def tend(
    store: Store,
    catalog: Catalog,
    keep_days: Mapping[str, int],
    now: datetime,
    grace: timedelta = GRACE,
) -> Tended:
    """One round. `keep_days` holds days by table; what it does not name stays for ever.

    Raises SettingsError for a table that does not exist, has no time, or is computed from others.
    """
    for name in keep_days:
        _check(catalog, name)
    expired = sum(_expire(store, catalog.tables[n], days, now) for n, days in keep_days.items())
    _thin_changes(store)
    merged = store.connection.execute("CALL ducklake_merge_adjacent_files('lake')").fetchall()
    before = literal(str(now - grace))
    snapshots = store.connection.execute(
        f"CALL ducklake_expire_snapshots('lake', older_than => {before}::TIMESTAMPTZ)"
    ).fetchall()
    removed = store.connection.execute(
        f"CALL ducklake_cleanup_old_files('lake', older_than => {before}::TIMESTAMPTZ)"
    ).fetchall()
    orphans = store.connection.execute(
        f"CALL ducklake_delete_orphaned_files('lake', older_than => {before}::TIMESTAMPTZ)"
    ).fetchall()
    return Tended(
        sum(row[2] for row in merged), len(removed), len(orphans), expired, len(snapshots)
    )


def _check(catalog: Catalog, name: str) -> None:
    table = catalog.tables.get(name)
    if table is None:
        raise SettingsError(f"retention_days: no table {name}")
    if table.time is None:
        raise SettingsError(f"retention_days: {name} has no time, so nothing of it grows old")
    if name in catalog.models or name == "finding":
        # Rows of a model follow its inputs: dropped alone they would come back at the next build.
        raise SettingsError(
            f"retention_days: {name} is computed; name the tables of sources that it rests on"
        )


def _expire(store: Store, table: Table, days: int, now: datetime) -> int:
    """Delete rows whose day (of the end, for intervals that have one) lies further back; their number.

    Whole partitions go without a rewrite. The days are logged as changed, so that models follow.
    """
    if days < 1:
        raise SettingsError(f"retention_days: {table.name} = {days}: it must be at least 1")
    oldest = (now - timedelta(days=days)).date()
    ends = [quote(c) for c in (table.end, table.observed) if c]
    until = f"greatest({', '.join([quote(table.time or ''), *ends])})"
    where = f"{until} < '{oldest}'::TIMESTAMP"
    if table.end:
        where += f" AND ({quote(table.end)} IS NOT NULL" + (
            f" OR {quote(table.observed)} IS NOT NULL)" if table.observed else ")"
        )
    name = f"lake.{quote(table.name)}"

    def work() -> int:
        keys = [
            c for c in (table.time, table.end, table.observed, "cluster") if c in table.column_names
        ]
        gone = store.connection.execute(
            f"SELECT {', '.join(quote(str(k)) for k in keys)} FROM {name} WHERE {where}"
        ).pl()
        if gone.height:
            store.connection.execute(f"DELETE FROM {name} WHERE {where}")
            log_change(store, table, gone)
        return gone.height

    return store.commit(work)


def _thin_changes(store: Store) -> None:
    """Of many changes of one table and day the last one says it all."""

    def work() -> None:
        store.connection.execute(
            "DELETE FROM lake.meta.partition_change c WHERE EXISTS ("
            "SELECT 1 FROM lake.meta.partition_change later "
            "WHERE later.table_name = c.table_name AND later.cluster = c.cluster "
            "AND later.day IS NOT DISTINCT FROM c.day "
            "AND (later.snapshot_id, later.rowid) > (c.snapshot_id, c.rowid))"
        )

    store.commit(work)
