"""The store: a DuckLake (Parquet files and a SQLite catalog) in one folder.

The only code that opens the lake. Everything is written in transactions; readers see a snapshot.
Layout of the folder: `catalog.sqlite`, `data/` (Parquet), `tmp/` (spill files of this machine).
"""

from __future__ import annotations

import importlib.resources
import random
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self, TypeVar

import duckdb

from fleetmark.errors import StoreBusyError, StoreError
from fleetmark.store_tables import OPERATIONAL, STORE_FORMAT
from fleetmark.table import Table, literal, quote

T = TypeVar("T")
COMMIT_ATTEMPTS = 20
# What a lost race or a locked catalog says. All are answered by rolling back and trying again.
_BUSY = ("conflict", "database is locked", "database table is locked", "could not set lock")
_OPTIONS = {
    "parquet_compression": "zstd",
    "parquet_compression_level": "3",
    "parquet_version": "2",
    "target_file_size": "256MB",
}


def load_extension(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """LOAD an extension from its wheel; nothing is downloaded."""
    try:
        package = importlib.resources.files(f"duckdb_extension_{name}")
    except ModuleNotFoundError:
        raise StoreError(
            f"the package duckdb-extension-{name.replace('_', '-')} is missing: run `make env`"
        ) from None
    path = package / "extensions" / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    try:
        connection.execute(f"LOAD {literal(str(path))}")
    except duckdb.Error as error:
        raise StoreError(f"cannot load DuckDB extension {name}: {error}") from None


class Store:
    """An open store. Use as a context manager; one Store belongs to one thread.

    A store opened for writing is created when it is missing. `memory_mb` bounds DuckDB; what does
    not fit spills to `tmp/`.
    """

    def __init__(self, root: Path, *, read_only: bool = False, memory_mb: int = 2048) -> None:
        self.root = root
        self.read_only = read_only
        catalog = root / "catalog.sqlite"
        if read_only and not catalog.exists():
            raise StoreError(
                f"no store at {root}: `fleetmark ingest … --store {root}` makes one, "
                "`--store` or FLEETMARK_STORE names another"
            )
        try:
            if not read_only:
                _prepare_folder(root, catalog)
            self.connection = self._connect(catalog, memory_mb)
            self._check_format()
        except (OSError, sqlite3.Error, duckdb.Error) as error:
            raise StoreError(f"cannot open the store {root}: {error}") from error

    def _connect(self, catalog: Path, memory_mb: int) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(
            config={
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "memory_limit": f"{memory_mb}MB",
                "temp_directory": str(self.root / "tmp"),
            }
        )
        load_extension(connection, "ducklake")
        load_extension(connection, "sqlite_scanner")
        connection.execute("SET TimeZone = 'UTC'")
        options = f"DATA_PATH {literal(str(self.root.resolve() / 'data') + '/')}"
        options += ", READ_ONLY" if self.read_only else ", DATA_INLINING_ROW_LIMIT 0"
        uri = literal(f"ducklake:sqlite:{catalog.resolve()}")
        # The catalog may be locked for a moment by a process that commits.
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                connection.execute(f"ATTACH {uri} AS lake ({options})")
                break
            except duckdb.Error as error:
                if not _is_busy(error) or attempt == COMMIT_ATTEMPTS - 1:
                    raise
                _back_off(attempt)
        return connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def _check_format(self) -> None:
        if not self.has_table("store_format", schema="meta"):
            if self.read_only:
                raise StoreError(f"{self.root} holds no Fleetmark store")
            self.commit(self._initialise)
        row = self.connection.execute("SELECT max(format) FROM lake.meta.store_format").fetchone()
        if row and row[0] > STORE_FORMAT:
            raise StoreError(
                f"the store {self.root} has format {row[0]}; this Fleetmark reads up to "
                f"{STORE_FORMAT}: use a newer Fleetmark"
            )

    def _initialise(self) -> None:
        self.connection.execute("CREATE SCHEMA IF NOT EXISTS lake.meta")
        for key, value in _OPTIONS.items():
            self.connection.execute(f"CALL lake.set_option({literal(key)}, {literal(value)})")
        for table in OPERATIONAL:
            self._create(table, schema="meta" if table.name in META_NAMES else "main")
        self.connection.execute(f"INSERT INTO lake.meta.store_format VALUES ({STORE_FORMAT})")

    def has_table(self, name: str, *, schema: str = "main") -> bool:
        found = self.connection.execute(
            "SELECT count(*) FROM duckdb_tables() "
            "WHERE database_name = 'lake' AND schema_name = $1 AND table_name = $2",
            [schema, name],
        ).fetchone()
        return bool(found and found[0])

    def ensure(self, tables: Iterable[Table]) -> None:
        """Create missing tables and add missing columns, so that every table can be queried.

        Raises StoreError when a stored column has another type than its contract.
        """
        stored: dict[str, dict[str, str]] = {}
        for table, column, kind in self.connection.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE database_name = 'lake' AND schema_name = 'main'"
        ).fetchall():
            stored.setdefault(table, {})[column] = kind
        wanted = [t for t in tables if _differences(t, stored.get(t.name))]
        if wanted:
            self.commit(lambda: self._adapt_all(wanted, stored))

    def _adapt_all(self, tables: list[Table], stored: dict[str, dict[str, str]]) -> None:
        for table in tables:
            self._adapt(table, stored.get(table.name))

    def _adapt(self, table: Table, stored: dict[str, str] | None) -> None:
        if stored is None:
            self._create(table)
            return
        for column in table.columns:
            kind = stored.get(column.name)
            if kind is None:
                self.connection.execute(
                    f"ALTER TABLE lake.{quote(table.name)} "
                    f"ADD COLUMN {quote(column.name)} {column.type}"
                )
            elif kind != column.type:
                raise StoreError(
                    f"{table.name}.{column.name} is stored as {kind}, its contract says "
                    f"{column.type}: rebuild the table in a new store"
                )

    def _create(self, table: Table, schema: str = "main") -> None:
        name = f"lake.{schema}.{quote(table.name)}"
        self.connection.execute(f"CREATE TABLE {name} ({table.ddl()})")
        partition = table.partition
        if "cluster" in table.column_names and table.column("cluster").type == "VARCHAR":
            partition = ("cluster", *partition)
        keys = [quote(c) for c in partition]
        if table.time:
            periods = ("year", "month", "day", "hour")
            depth = periods.index(table.period) + 1
            keys += [f"{part}({quote(table.time)})" for part in periods[:depth]]
        if keys:
            self.connection.execute(f"ALTER TABLE {name} SET PARTITIONED BY ({', '.join(keys)})")
        if table.sort:
            order = ", ".join(f"{quote(c)} ASC" for c in table.sort)
            self.connection.execute(f"ALTER TABLE {name} SET SORTED BY ({order})")

    def commit(self, work: Callable[[], T]) -> T:
        """Run `work` in one transaction; roll back and run it again when another writer was first.

        `work` must read what it decides on inside the transaction. Raises StoreBusyError when
        all attempts were lost, StoreError for anything else that DuckDB refuses.
        """
        for attempt in range(COMMIT_ATTEMPTS):
            self.connection.execute("BEGIN")
            try:
                result = work()
                self.connection.execute("COMMIT")
            except BaseException as error:
                self._roll_back()
                if not isinstance(error, duckdb.Error):
                    raise
                if not _is_busy(error):
                    raise StoreError(f"the store {self.root} refused a write: {error}") from error
                _back_off(attempt)
            else:
                return result
        raise StoreBusyError(
            f"the store {self.root} stayed locked by other writers over {COMMIT_ATTEMPTS} attempts"
        )

    def _roll_back(self) -> None:
        try:
            self.connection.execute("ROLLBACK")
        except duckdb.Error:
            # A failed COMMIT has already ended the transaction; there is nothing left to undo.
            return

    def snapshot(self) -> int:
        """Id of the snapshot that the running transaction, or else the next query, sees."""
        row = self.connection.execute("SELECT id FROM ducklake_current_snapshot('lake')").fetchone()
        if row is None:
            raise StoreError(f"the store {self.root} has no snapshot")
        return int(row[0])

    def settle(self, tables: Iterable[str]) -> None:
        """Rewrite files that have deleted rows, so that live Parquet files need no delete files."""
        for name in tables:
            if any(deletes for _, deletes in self.files(name)):
                self.connection.execute(
                    f"CALL ducklake_rewrite_data_files('lake', {literal(name)}, "
                    "delete_threshold => 0)"
                )

    def files(self, table: str) -> list[tuple[str, str | None]]:
        """Live Parquet files of a table at the current snapshot, each with its delete file."""
        if not self.has_table(table):
            raise StoreError(f"no table {table}: `fleetmark tables` lists them")
        rows = self.connection.execute(
            f"SELECT data_file, delete_file FROM ducklake_list_files('lake', {literal(table)})"
        ).fetchall()
        return [(str(data), None if deletes is None else str(deletes)) for data, deletes in rows]


META_NAMES = frozenset({"store_format", "partition_change", "model_state"})


def files_sql(table: Table, files: Iterable[tuple[str, str | None]]) -> str:
    """A SELECT that reads a table's rows from its files alone, deleted rows left out.

    Columns that old files lack are NULL. Positions in a delete file count rows from 0.
    """
    typed = ", ".join(f"NULL::{c.type} AS {quote(c.name)}" for c in table.columns)
    parts = [f"SELECT {typed} WHERE false"]
    whole = [data for data, deletes in files if deletes is None]
    if whole:
        listed = ", ".join(literal(path) for path in whole)
        parts.append(
            f"SELECT * FROM read_parquet([{listed}], union_by_name => true, "
            "hive_partitioning => false)"
        )
    for data, deletes in files:
        if deletes is not None:
            parts.append(
                "SELECT * EXCLUDE (file_row_number) FROM "
                f"read_parquet({literal(data)}, file_row_number => true, "
                "hive_partitioning => false) WHERE file_row_number NOT IN "
                f"(SELECT pos FROM read_parquet({literal(deletes)}))"
            )
    names = ", ".join(quote(c) for c in table.column_names)
    return f"SELECT {names} FROM ({' UNION ALL BY NAME '.join(parts)})"


def _prepare_folder(root: Path, catalog: Path) -> None:
    if root.exists() and not root.is_dir():
        raise StoreError(f"{root} is a file, not a store folder: give --store a folder")
    if root.is_dir() and not catalog.exists() and any(root.iterdir()):
        raise StoreError(f"{root} holds other files and no store: give --store an empty folder")
    (root / "data").mkdir(parents=True, exist_ok=True)
    if not catalog.exists():
        # Write-ahead mode before the first attach: several processes read while one writes.
        made = root / f"catalog.{random.getrandbits(64):x}.new"
        connection = sqlite3.connect(made)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        try:
            catalog.hardlink_to(made)
        except FileExistsError:
            pass  # another process made it first; theirs is the catalog
        finally:
            made.unlink()


def _differences(table: Table, stored: dict[str, str] | None) -> bool:
    return stored is None or any(stored.get(c.name) != c.type for c in table.columns)


def _is_busy(error: duckdb.Error) -> bool:
    text = str(error).lower()
    return any(sign in text for sign in _BUSY)


def _back_off(attempt: int) -> None:
    time.sleep(random.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 1.0))
