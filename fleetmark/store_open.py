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
from fleetmark.store_place import SQLITE, Place
from fleetmark.store_tables import META, OPERATIONAL, STORE_FORMAT
from fleetmark.table import Table, literal, quote

COMMIT_ATTEMPTS = 20
# What a lost race or a locked catalog says. All are answered by rolling back and trying again.
_BUSY = (
    "conflict",
    "database is locked",
    "database table is locked",
    "could not set lock",
    "could not serialize access",
    "deadlock detected",
    "duplicate key value",
)
# What a catalog in PostgreSQL says that is restarted, or that the network does not reach.
_LOST = (
    "unable to connect to postgres",
    "server closed the connection",
    "terminating connection",
    "connection to server was lost",
    "could not receive data from server",
    "could not send data to server",
    'failed to execute query "rollback"',
    'failed to execute query "begin',
)
_DAMAGED = "catalog.sqlite is damaged: bring it back from a copy, or read the logs into a new store"
_REMEDIES = {
    "readonly database": "the store's folder must be writable, even to read: its catalog is in "
    "write-ahead mode",
    "not a database": _DAMAGED,
    "malformed": _DAMAGED,
    "explicitly disabled": "catalog.sqlite is not the catalog of a Fleetmark store",
    "password authentication failed": "[lake] password names a file or variable with another",
    "no password supplied": "[lake] password must name a file or variable that holds it",
    "unable to connect to postgres": "does [lake] catalog say where PostgreSQL is, and does it run?",
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
    root: Path,
    place: Place,
    memory_mb: int,
    *,
    read_only: bool,
    create: bool = False,
    threads: int | None = None,
    sqlite: str = SQLITE,
) -> duckdb.DuckDBPyConnection:
    """A connection of its own with the lake attached as `lake`; `create` makes an empty one.

    `sqlite` is the file of a catalog that is not in PostgreSQL. `threads`: all processors by default.
    """
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "memory_limit": f"{memory_mb}MB",
            "temp_directory": str(root / "tmp"),
            **({"threads": threads} if threads else {}),
        }
    )
    for name in place.extensions():
        load_extension(connection, name)
    connection.execute("SET TimeZone = 'UTC'")
    # In a worker, which DuckDB takes for somebody's notebook, it would be drawn on standard output.
    connection.execute("SET enable_progress_bar = false")
    for statement in place.secrets():
        connection.execute(statement)
    options = f"DATA_PATH {literal(place.data_path(root))}"
    # A folder may have been moved. Where machines share a catalog, another path is a mistake of one of them.
    options += ", OVERRIDE_DATA_PATH true" if not place.catalog else ""
    options += f", CREATE_IF_NOT_EXISTS {str(create).lower()}"
    options += ", READ_ONLY" if read_only else ", DATA_INLINING_ROW_LIMIT 0"
    options += ", META_SECRET 'fleetmark_catalog'" if place.catalog else ""
    catalog = place.catalog or f"sqlite:{root.resolve() / sqlite}"
    # The catalog may be locked for a moment by a process that commits, or be restarting.
    for attempt in range(COMMIT_ATTEMPTS):
        try:
            connection.execute(f"ATTACH {literal('ducklake:' + catalog)} AS lake ({options})")
            break
        except duckdb.Error as error:
            if not _passes(error) or attempt == COMMIT_ATTEMPTS - 1:
                raise
            back_off(attempt)
    return connection


def make_store(root: Path) -> None:
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
    with connect(root, Place(), 256, read_only=False, create=True, sqlite=made.name) as connection:
        furnish(connection)
    with closing(sqlite3.connect(made)) as sqlite:
        sqlite.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    # When another process was first, its catalog counts.
    with suppress(FileExistsError):
        (root / SQLITE).hardlink_to(made)
    for leftover in root.glob(f"{made.name}*"):
        leftover.unlink()


def furnish(connection: duckdb.DuckDBPyConnection) -> None:
    """Give a new lake its options, and, in one transaction, the tables by which it is a store."""
    for key, value in _OPTIONS.items():
        connection.execute(f"CALL lake.set_option({literal(key)}, {literal(value)})")
    connection.execute("BEGIN")
    connection.execute("CREATE SCHEMA lake.meta")
    for table in OPERATIONAL:
        create_table(connection, table, "meta" if table in META else "main")
    connection.execute(f"INSERT INTO lake.meta.store_format VALUES ({STORE_FORMAT})")
    connection.execute("COMMIT")


def _ours(name: str) -> bool:
    return name in ("data", "tmp", "run", "spool", "access", "evidence") or name.startswith(
        "catalog."
    )


def is_busy(error: duckdb.Error) -> bool:
    """Another writer was first or holds the lock: rolling back and trying again may help."""
    text = str(error).lower()
    return any(sign in text for sign in _BUSY)


def is_lost(error: duckdb.Error) -> bool:
    """The catalog went away. What was not committed is gone; it may be back in a moment."""
    text = str(error).lower()
    return any(sign in text for sign in _LOST)


def _passes(error: duckdb.Error) -> bool:
    """Attaching again may help. A wrong password stays wrong."""
    refused = any(sign in str(error).lower() for sign in ("password", "does not exist"))
    return not refused and (is_busy(error) or is_lost(error))


def remedy(error: Exception) -> str:
    """What to do about a store that does not open, to be put after the error's own words."""
    text = str(error).lower()
    return next((f" ({words})" for sign, words in _REMEDIES.items() if sign in text), "")


def back_off(attempt: int) -> None:
    """Wait before another attempt, at random so that two writers fall out of step."""
    time.sleep(random.uniform(0.5, 1.0) * min(0.02 * 2**attempt, 1.0))
