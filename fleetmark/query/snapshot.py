"""The files that make up each table at one snapshot: all that a query worker is told of the lake."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fleetmark.errors import StoreError
from fleetmark.store import Store, files_sql
from fleetmark.table import Table

Files = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class View:
    """A table as SQL over listed files, and the files that this SQL opens."""

    sql: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the lake.

    root    folder that holds every data file
    files   per table its live Parquet files, each with the file of its deleted rows
    """

    id: int
    created_at: datetime
    root: Path
    tables: Mapping[str, Table]
    files: Mapping[str, Files]

    def view(self, name: str, *, below: Path | None = None) -> View:
        """The table `name`. With `below`, as seen by a process for which that folder is `/`."""
        files = [(_seen(data, below), deletes and _seen(deletes, below))
                 for data, deletes in self.files[name]]  # fmt: skip
        paths = [path for pair in files for path in pair if path]
        return View(files_sql(self.tables[name], files), tuple(paths))


def _seen(path: str, below: Path | None) -> str:
    return path if below is None else "/" + str(Path(path).relative_to(below))


def read_snapshot(store: Store, tables: Iterable[Table]) -> Snapshot:
    """List the files of `tables` (those the store has), all at the store's current snapshot."""
    connection = store.connection
    connection.execute("BEGIN")
    try:
        number = store.snapshot()
        row = connection.execute(
            "SELECT snapshot_time::TIMESTAMP FROM ducklake_snapshots('lake') WHERE snapshot_id = $1",
            [number],
        ).fetchone()
        stored = connection.execute(
            "SELECT table_name FROM duckdb_tables() "
            "WHERE database_name = 'lake' AND schema_name = 'main'"
        ).fetchall()
        names = {name for (name,) in stored}
        present = [table for table in tables if table.name in names]
        files = {table.name: tuple(store.files(table.name)) for table in present}
    finally:
        connection.execute("ROLLBACK")
    if row is None:
        raise StoreError(f"the store {store.root} does not list its snapshot {number}")
    return Snapshot(
        id=number,
        created_at=row[0],
        root=(store.root / "data").resolve(),
        tables={table.name: table for table in present},
        files=files,
    )
