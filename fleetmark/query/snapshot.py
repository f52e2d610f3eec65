"""The files that make up each table at one snapshot: all that a query worker is told of the lake."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from fleetmark.errors import StoreError
from fleetmark.query.mirror import Mirror
from fleetmark.store import Store, files_sql
from fleetmark.table import Table

Files = tuple[tuple[str, str | None], ...]

# Where DuckLake keeps the files of all tables. To ask its function for each table's costs 10 ms a table.
_FILES = """
SELECT t.table_name,
       p.folder || s.path || t.path || f.path, f.path_is_relative,
       p.folder || s.path || t.path || d.path, d.path_is_relative, f.path, d.path
FROM __ducklake_metadata_lake.ducklake_table t
JOIN __ducklake_metadata_lake.ducklake_schema s ON s.schema_id = t.schema_id
CROSS JOIN (SELECT $2 AS folder) p
LEFT JOIN __ducklake_metadata_lake.ducklake_data_file f
  ON f.table_id = t.table_id
 AND f.begin_snapshot <= $1 AND (f.end_snapshot IS NULL OR f.end_snapshot > $1)
LEFT JOIN __ducklake_metadata_lake.ducklake_delete_file d
  ON d.data_file_id = f.data_file_id
 AND d.begin_snapshot <= $1 AND (d.end_snapshot IS NULL OR d.end_snapshot > $1)
WHERE s.schema_name = 'main'
  AND t.begin_snapshot <= $1 AND (t.end_snapshot IS NULL OR t.end_snapshot > $1)
ORDER BY f.data_file_id
"""


@dataclass(frozen=True, slots=True)
class View:
    """A table as SQL over listed files, and the files that this SQL opens.

    `held`: its rows must be copied before anything else may run, and the files closed: they hold rows
    that the caller may not see.
    """

    sql: str
    paths: tuple[str, ...]
    held: bool = False


@dataclass(frozen=True, slots=True)
class Owned:
    """Jobs of some accounts, by a table that says whose a job is."""

    table: Table
    files: Files
    where: str


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The rows of a table that a caller may see. `where` may ask `owned_job` (cluster, job_id)."""

    where: str
    owned: tuple[Owned, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of the lake, or what one caller may see of it.

    root    folder that holds every data file
    files   per table its live Parquet files, each with the file of its deleted rows
    rows    per table which of its rows are to be seen; all, where it is not named
    scope   a name for what is left out, that caches keep answers apart by
    mirror  fetches files that are objects, where they are
    """

    id: int
    created_at: datetime
    root: Path
    tables: Mapping[str, Table]
    files: Mapping[str, Files]
    rows: Mapping[str, RowFilter] = field(default_factory=dict)
    scope: str = ""
    mirror: Mirror | None = None

    def state(self, names: Iterable[str]) -> str:
        """Names what can be read of these tables: it stays while others are written to."""
        seen = [
            (name, self.files[name], [owned.files for owned in narrow.owned] if narrow else [])
            for name in sorted(set(names))
            for narrow in [self.rows.get(name)]
        ]
        return hashlib.sha256(repr((self.scope, seen)).encode()).hexdigest()

    def view(self, name: str, *, below: Path | None = None) -> View:
        """The table `name`. With `below`, as seen by a process for which that folder is `/`."""
        if self.mirror is not None:
            self.mirror.fetch(self._opened(name))
        files = _seen(self.files[name], below)
        sql = files_sql(self.tables[name], files)
        paths = _paths(files)
        narrow = self.rows.get(name)
        if narrow is None:
            return View(sql, tuple(paths))
        jobs = []
        for owned in narrow.owned:
            seen = _seen(owned.files, below)
            paths += _paths(seen)
            jobs.append(
                f"SELECT cluster, job_id FROM ({files_sql(owned.table, seen)}) WHERE {owned.where}"  # noqa: S608 - values are quoted
            )
        begin = f"WITH owned_job AS MATERIALIZED ({' UNION '.join(jobs)}) " if jobs else ""
        narrowed = f"SELECT * FROM ({sql}) AS narrowed WHERE {narrow.where}"  # noqa: S608 - values are quoted
        return View(begin + narrowed, tuple(paths), held=True)

    def _opened(self, name: str) -> list[str]:
        narrow = self.rows.get(name)
        owned = narrow.owned if narrow else ()
        return [*_paths(self.files[name]), *(path for one in owned for path in _paths(one.files))]


def _seen(files: Files, below: Path | None) -> list[tuple[str, str | None]]:
    if below is None:
        return list(files)
    return [
        (_inside(data, below), None if deletes is None else _inside(deletes, below))
        for data, deletes in files
    ]


def _inside(path: str, below: Path) -> str:
    return "/" + str(Path(path).relative_to(below))


def _paths(files: Iterable[tuple[str, str | None]]) -> list[str]:
    return [path for pair in files for path in pair if path]


def read_snapshot(store: Store, tables: Iterable[Table], mirror: Mirror | None = None) -> Snapshot:
    """List the files of `tables`, all at the store's current snapshot.

    A table that the store does not have yet is one without rows. `mirror`: where the data files are objects.
    """
    number = store.snapshot()
    row = store.connection.execute(
        "SELECT (snapshot_time::TIMESTAMPTZ AT TIME ZONE 'UTC')::TIMESTAMP "
        "FROM __ducklake_metadata_lake.ducklake_snapshot WHERE snapshot_id = $1",
        [number],
    ).fetchone()
    if row is None:
        raise StoreError(f"the store {store.name} does not list its snapshot {number}")
    root = store.place.folder(store.root)
    found: dict[str, list[tuple[str, str | None]]] = {}
    for (
        name,
        data,
        inside,
        deletes,
        deletes_inside,
        as_is,
        deletes_as_is,
    ) in store.connection.execute(_FILES, [number, f"{root}/"]).fetchall():
        files = found.setdefault(name, [])
        if as_is is not None:
            removed = deletes if deletes_inside else deletes_as_is
            files.append((data if inside else as_is, removed))
    named = {table.name: table for table in tables}
    return Snapshot(
        id=number,
        created_at=row[0],
        root=root,
        tables=named,
        files={name: tuple(found.get(name, ())) for name in named},
        mirror=mirror,
    )
