"""The store: a DuckLake, which is Parquet files and a catalog of them.

Everything is written in transactions; readers see a snapshot. Layout of the folder:
`catalog.sqlite`, `data/` (Parquet), `tmp/` (spill files of this machine). A store of several machines has
its catalog in PostgreSQL and its data where `Place` says; the folder then holds what is this machine's own.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self, TypeVar

import duckdb

from fleetmark.errors import InputError, StoreBusyError, StoreError
from fleetmark.store_open import (
    COMMIT_ATTEMPTS,
    back_off,
    connect,
    create_table,
    furnish,
    is_busy,
    is_lost,
    make_store,
    remedy,
)
from fleetmark.store_place import SQLITE, Place
from fleetmark.store_tables import STORE_FORMAT
from fleetmark.table import Table, literal, quote

T = TypeVar("T")


class Store:
    """An open store. Use as a context manager; one Store belongs to one thread.

    A store opened for writing is created when it is missing. `memory_mb` bounds DuckDB; what does
    not fit spills to `tmp/`.
    """

    def __init__(
        self,
        root: Path,
        *,
        place: Place = Place(),  # noqa: B008 - frozen
        read_only: bool = False,
        memory_mb: int = 2048,
        threads: int | None = None,
    ) -> None:
        self.root = root
        self.place = place
        self.name = place.name(root)
        self.read_only = read_only
        missing = not place.catalog and not (root / SQLITE).exists()
        if read_only and missing:
            raise _no_store(self.name, root)
        try:
            if missing:
                make_store(root)
            root.mkdir(parents=True, exist_ok=True)
            create = bool(place.catalog) and not read_only
            self.connection = connect(
                root, place, memory_mb, read_only=read_only, create=create, threads=threads
            )
            if create:
                self._complete()
            self._check_format()
        except (OSError, sqlite3.Error, duckdb.Error) as error:
            if place.catalog and read_only and "does not exist" in str(error):
                raise _no_store(self.name, root) from None
            raise StoreError(
                f"cannot open the store {self.name}: {error}{remedy(error)}"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.connection.close()
        if isinstance(error, duckdb.Error):
            raise StoreError(f"the store {self.name} cannot be read: {error}") from error

    def _complete(self) -> None:
        """Finish a store in PostgreSQL that is new, or whose maker was killed; others may do so, too."""
        for attempt in range(COMMIT_ATTEMPTS):
            if self._stored():
                return
            try:
                furnish(self.connection)
            except duckdb.Error as error:
                self._roll_back()
                if not is_busy(error) and "already exists" not in str(error):
                    raise
                back_off(attempt)

    def _stored(self) -> set[tuple[str, str]]:
        """Schema and name of every table."""
        found = self.connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = 'lake'"
        )
        return set(found.fetchall())

    def _check_format(self) -> None:
        stored = self._stored()
        if not stored and self.place.catalog:  # somebody is about to make it
            raise _no_store(self.name, self.root)
        if ("meta", "store_format") not in stored:
            catalog = self.name if self.place.catalog else f"{self.root}/{SQLITE}"
            raise StoreError(f"{catalog} is not the catalog of a Fleetmark store")
        row = self.connection.execute("SELECT max(format) FROM lake.meta.store_format").fetchone()
        if row and row[0] > STORE_FORMAT:
            raise StoreError(
                f"the store {self.name} has format {row[0]}; this Fleetmark reads up to "
                f"{STORE_FORMAT}: use a newer Fleetmark"
            )

    def has_table(self, name: str, *, schema: str = "main") -> bool:
        found = self.connection.execute(
            "SELECT count(*) FROM duckdb_tables() "
            "WHERE database_name = 'lake' AND schema_name = $1 AND table_name = $2",
            [schema, name],
        ).fetchone()
        return bool(found and found[0])

    def with_files(self) -> set[str]:
        """Tables that have data files, in one question: to ask each for a row costs 30 ms a table.

        One of these may still be empty, if all its rows were deleted.
        """
        found = self.connection.execute(
            "SELECT table_name FROM ducklake_table_info('lake') WHERE file_count > 0"
        ).fetchall()
        return {name for (name,) in found}

    def ensure(self, tables: Iterable[Table]) -> None:
        """Create missing tables and add missing columns, so that every table can be queried.

        Raises StoreError when a stored column has another type than its contract.
        """
        wanted = tuple(tables)
        stored = self.stored_types()
        if any(_differs(table, stored.get(table.name)) for table in wanted):
            self.commit(lambda: self._adapt_all(wanted))

    def stored_types(self) -> dict[str, dict[str, str]]:
        """Types of the stored columns, by table."""
        stored: dict[str, dict[str, str]] = {}
        for table, column, kind in self.connection.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE database_name = 'lake' AND schema_name = 'main'"
        ).fetchall():
            stored.setdefault(table, {})[column] = kind
        return stored

    def _adapt_all(self, tables: Iterable[Table]) -> None:
        stored = self.stored_types()
        for table in tables:
            if _differs(table, stored.get(table.name)):
                self._adapt(table, stored.get(table.name))

    def _adapt(self, table: Table, stored: dict[str, str] | None) -> None:
        if stored is None:
            create_table(self.connection, table)
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

    def commit(self, work: Callable[[], T]) -> T:
        """Run `work` in one transaction; roll back and run it again when another writer was first, or
        when the catalog went away before the end.

        `work` must read what it decides on inside the transaction. Raises StoreBusyError when
        all attempts were lost, StoreError for anything else that DuckDB refuses.
        """
        why = ""
        for attempt in range(COMMIT_ATTEMPTS):
            ending = False
            try:
                self.connection.execute("BEGIN")
                result = work()
                ending = True
                self.connection.execute("COMMIT")
            except BaseException as error:
                self._roll_back()
                if not isinstance(error, duckdb.Error):
                    raise
                why = self._retried(error, ending=ending)
                back_off(attempt)
            else:
                return result
        raise StoreBusyError(f"the store {self.name} {why} over {COMMIT_ATTEMPTS} attempts")

    def _retried(self, error: duckdb.Error, *, ending: bool) -> str:
        """Why trying again may help. Raises StoreError where it does not."""
        if is_lost(error):
            if ending:
                # Whether the commit was done is not known, and `work` may not be one to do twice.
                raise StoreError(
                    f"the catalog of the store {self.name} went away during a commit: run the command "
                    "again, it goes on from what was committed"
                ) from error
            return "stayed out of reach"
        if is_busy(error):
            return "stayed locked by other writers"
        raise StoreError(f"the store {self.name} refused a write: {error}") from error

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
            raise StoreError(f"the store {self.name} has no snapshot")
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
        try:
            rows = self.connection.execute(
                f"SELECT data_file, delete_file FROM ducklake_list_files('lake', {literal(table)})"
            ).fetchall()
        except duckdb.CatalogException:
            raise StoreError(f"no table {table}: `fleetmark tables` lists them") from None
        return [(str(data), None if deletes is None else str(deletes)) for data, deletes in rows]


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


def _no_store(name: str, root: Path) -> InputError:
    return InputError(
        f"no store at {name}: `fleetmark ingest … --store {root}` makes one, "
        "`--store` or FLEETMARK_STORE names another"
    )


def _differs(table: Table, stored: dict[str, str] | None) -> bool:
    return stored is None or any(stored.get(c.name) != c.type for c in table.columns)
