"""A copy of a store as of one snapshot, itself a store: nothing is needed to restore it but its folder."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from fleetmark.errors import InputError
from fleetmark.store import Store


@dataclass(frozen=True, slots=True)
class Copied:
    """What a backup holds; files that the folder held already are not copied again."""

    files: int
    files_copied: int
    bytes_copied: int


def back_up(store: Store, target: Path) -> Copied:
    """Copy the catalog, then every file it refers to, into `target`, which may hold an older copy.

    Writers go on meanwhile: files are never changed, and those the copied catalog refers to are kept for
    hours. Raises InputError when `target` is no folder for it, and for a catalog in PostgreSQL, which has
    tools of its own.
    """
    if store.place.catalog:
        raise InputError(
            "the catalog of this store is in PostgreSQL: copy it with pg_dump, and after it the data "
            f"files below {store.place.data_path(store.root)} (docs/operations.md says how)"
        )
    _suits(store.root, target)
    (target / "data").mkdir(parents=True, exist_ok=True)
    made = target / "catalog.new"
    with closing(_copy_of(store.root / "catalog.sqlite", made)) as copy:
        copy.execute("PRAGMA journal_mode = DELETE")
        wanted = [
            row[0]
            for table in ("ducklake_data_file", "ducklake_delete_file")
            for row in copy.execute(_PATHS.format(table=table))
        ]
    copied = size = 0
    for relative in wanted:
        came = _copy(store.root / "data" / relative, target / "data" / relative)
        copied += came > 0
        size += came
    # Write-ahead mode belongs to every store; switched on when the copy is complete.
    with closing(sqlite3.connect(made)) as copy:
        copy.execute("PRAGMA journal_mode = WAL")
    for leftover in ("catalog.sqlite-wal", "catalog.sqlite-shm"):
        (target / leftover).unlink(missing_ok=True)
    made.replace(target / "catalog.sqlite")
    _beside(store.root, target)
    for path in set(_files(target / "data")) - set(wanted):
        (target / "data" / path).unlink()
    return Copied(len(wanted), copied, size)


# Paths are relative to their table's, that to its schema's, that to the data folder.
_PATHS = (
    "SELECT s.path || t.path || f.path FROM {table} f "
    "JOIN ducklake_table t ON t.table_id = f.table_id AND t.end_snapshot IS NULL "
    "JOIN ducklake_schema s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL "
    "WHERE f.end_snapshot IS NULL"
)


def _suits(root: Path, target: Path) -> None:
    """Raises InputError for a folder that is no place for a backup of this store."""
    if target.exists() and not target.is_dir():
        raise InputError(f"{target} is a file: name a folder for the backup")
    if target.resolve().is_relative_to(root.resolve()):
        raise InputError(f"{target} lies in the store itself: name a folder outside it")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not (target / "catalog.sqlite").exists():
        raise InputError(f"{target} holds other files and no backup: name an empty folder")
    if _identity(target) != _identity(root):
        raise InputError(f"{target} holds another store, or its backup: name an empty folder")


def _identity(root: Path) -> object:
    """What tells one store's catalog from another's: the id that its schema was given when it was made."""
    try:
        with closing(sqlite3.connect(root / "catalog.sqlite")) as catalog:
            return catalog.execute(
                "SELECT schema_uuid FROM ducklake_schema ORDER BY schema_id LIMIT 1"
            ).fetchone()
    except sqlite3.DatabaseError:
        return None


def _copy_of(source: Path, target: Path) -> sqlite3.Connection:
    """A consistent copy of a SQLite file that others may be writing to, opened."""
    copy = sqlite3.connect(target)
    with closing(sqlite3.connect(source)) as original:
        original.backup(copy)
    return copy


def _beside(root: Path, target: Path) -> None:
    """The evidence ledger and the hashed keys, which belong to the store as well."""
    ledger = Path("evidence") / "ledger.sqlite"
    if (root / ledger).exists():
        (target / ledger).parent.mkdir(exist_ok=True)
        _copy_of(root / ledger, target / ledger).close()
    keys = Path("access") / "keys.json"
    if (root / keys).exists():
        (target / keys).parent.mkdir(mode=0o700, exist_ok=True)
        shutil.copy2(root / keys, target / keys)


def _copy(source: Path, target: Path) -> int:
    """Bytes copied: 0 when it is there. In one step, so that a kill leaves no half a file."""
    with suppress(OSError):
        if target.stat().st_size == source.stat().st_size:
            return 0
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_suffix(".new")
    shutil.copyfile(source, made)
    made.replace(target)
    return target.stat().st_size


def _files(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
