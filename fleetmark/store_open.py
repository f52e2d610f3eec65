"""Opening and making a store: the only code that attaches the lake."""

from __future__ import annotations

import importlib.resources
import random
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path

import duckdb

from fleetmark.errors import StoreError
from fleetmark.store_tables import META, OPERATIONAL, STORE_FORMAT
from fleetmark.table import Table, literal, quote

COMMIT_ATTEMPTS = 20
# What a lost race or a locked catalog says. All are answered by rolling back and trying again.
_BUSY = ("conflict", "database is locked", "database table is locked", "could not set lock")
_DAMAGED = "catalog.sqlite is damaged: bring it back from a copy, or read the logs into a new store"
_REMEDIES = {
    "readonly database": "the store's folder must be writable, even to read: its catalog is in "
    "write-ahead mode",
    "not a database": _DAMAGED,
    "malformed": _DAMAGED,
    "explicitly disabled": "catalog.sqlite is not the catalog of a Fleetmark store",
}
_OPTIONS = {
    "parquet_compression": "zstd",
    "parquet_compression_level": "5",
    "parquet_version": "2",
    # An hour of a thousand GPUs at 15 s; below that the compressor sees too little at once.
    "parquet_row_group_size": "262144",
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


def create_table(connection: duckdb.DuckDBPyConnection, table: Table, schema: str = "main") -> None:
    """Create a table in the lake, partitioned and sorted as its contract says."""
    name = f"lake.{schema}.{quote(table.name)}"
    connection.execute(f"CREATE TABLE {name} ({table.ddl()})")
    partition = table.partition
    if "cluster" in table.column_names and table.column("cluster").type == "VARCHAR":
        partition = ("cluster", *partition)
    keys = [quote(c) for c in partition]
    if table.time:
        periods = ("year", "month", "day", "hour")
        depth = periods.index(table.period) + 1
        keys += [f"{part}({quote(table.time)})" for part in periods[:depth]]
    if keys:
        connection.execute(f"ALTER TABLE {name} SET PARTITIONED BY ({', '.join(keys)})")
    if table.sort:
        order = ", ".join(f"{quote(c)} ASC" for c in table.sort)
        connection.execute(f"ALTER TABLE {name} SET SORTED BY ({order})")


def connect(
    root: Path, catalog: Path, memory_mb: int, *, read_only: bool, create: bool = False
) -> duckdb.DuckDBPyConnection:
    """A connection of its own with the lake attached as `lake`; `create` makes an empty one."""
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "memory_limit": f"{memory_mb}MB",
            "temp_directory": str(root / "tmp"),
        }
    )
    load_extension(connection, "ducklake")
    load_extension(connection, "sqlite_scanner")
    connection.execute("SET TimeZone = 'UTC'")
    options = f"DATA_PATH {literal(str(root.resolve() / 'data') + '/')}"
    options += ", OVERRIDE_DATA_PATH true"  # the folder may have been moved
    options += f", CREATE_IF_NOT_EXISTS {str(create).lower()}"
    options += ", READ_ONLY" if read_only else ", DATA_INLINING_ROW_LIMIT 0"
    uri = literal(f"ducklake:sqlite:{catalog.resolve()}")
    # The catalog may be locked for a moment by a process that commits.
    for attempt in range(COMMIT_ATTEMPTS):
        try:
            connection.execute(f"ATTACH {uri} AS lake ({options})")
            break
        except duckdb.Error as error:
            if not is_busy(error) or attempt == COMMIT_ATTEMPTS - 1:
                raise
            back_off(attempt)
    return connection


def make_store(root: Path, catalog: Path) -> None:
    """Make an empty store. The catalog appears in one step, complete or not at all.

    Two processes may do this at once, and a kill may end it anywhere: the first complete catalog
    counts, and what was left half made is an unused file. Raises StoreError when `root` holds
    something else.
    """
    if root.exists() and not root.is_dir():
        raise StoreError(f"{root} is a file, not a store folder: give --store a folder")
    if root.is_dir() and any(not _ours(entry.name) for entry in root.iterdir()):
        raise StoreError(f"{root} holds other files and no store: give --store an empty folder")
    (root / "data").mkdir(parents=True, exist_ok=True)
    made = root / f"catalog.{random.getrandbits(64):x}.new"
    # Write-ahead mode before the first attach: several processes read while one writes.
    with closing(sqlite3.connect(made)) as sqlite:
        sqlite.execute("PRAGMA journal_mode = WAL")
    with connect(root, made, 256, read_only=False, create=True) as connection:
        for key, value in _OPTIONS.items():
            connection.execute(f"CALL lake.set_option({literal(key)}, {literal(value)})")
        connection.execute("BEGIN")
        connection.execute("CREATE SCHEMA lake.meta")
        for table in OPERATIONAL:
            create_table(connection, table, "meta" if table in META else "main")
        connection.execute(f"INSERT INTO lake.meta.store_format VALUES ({STORE_FORMAT})")
        connection.execute("COMMIT")
    with closing(sqlite3.connect(made)) as sqlite:
        sqlite.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # When another process was first, its catalog counts.
    with suppress(FileExistsError):
        catalog.hardlink_to(made)
    for leftover in root.glob(f"{made.name}*"):
        leftover.unlink()


def _ours(name: str) -> bool:
    return name in ("data", "tmp", "run", "spool", "access", "evidence") or name.startswith(
        "catalog."
    )


def is_busy(error: duckdb.Error) -> bool:
    """Another writer was first or holds the lock: rolling back and trying again may help."""
    text = str(error).lower()
    return any(sign in text for sign in _BUSY)


def remedy(error: Exception) -> str:
    """What to do about a store that does not open, to be put after the error's own words."""
    text = str(error).lower()
    return next((f" ({words})" for sign, words in _REMEDIES.items() if sign in text), "")


def back_off(attempt: int) -> None:
    """Wait before another attempt, at random so that two writers fall out of step."""
    time.sleep(random.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 1.0))
