"""A check-up of a store: is it whole, does it move, what has it refused, how long will the disk last."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
from pyarrow.lib import ArrowException

from fleetmark.catalog import Catalog
from fleetmark.live.status import load_all
from fleetmark.store import Store
from fleetmark.table import Table

# Refused lines above this share of a source's are worth a look.
REJECTED_SHARE = 0.01
FORECAST_DAYS = 30
SMALL_FILES = 1000


@dataclass(frozen=True, slots=True)
class Check:
    """One question to the store. `state`: fine, note, bad."""

    check: str
    state: str
    found: str
    action: str = ""


def examine(store: Store, catalog: Catalog, now: datetime) -> list[Check]:
    """All checks, in order of what must be right first. Nothing is changed."""
    return [
        *_catalog(store),
        *_files(store, catalog),
        *_contracts(store, catalog),
        *_reading(store, now),
        *_streams(store),
        *_inputs(store.root, now),
        *_rejects(store),
        *_detectors(store),
        *_disk(store, now),
    ]


def _catalog(store: Store) -> Iterator[Check]:
    if store.place.catalog:
        ((count, newest),) = _rows(
            store,
            "SELECT count(*), (max(snapshot_time::TIMESTAMPTZ) AT TIME ZONE 'UTC')::TIMESTAMP(0) "
            "FROM __ducklake_metadata_lake.ducklake_snapshot",
        )
        yield Check("catalog", "fine", f"PostgreSQL answers: {count} snapshots, the last {newest}Z")
        return
    with closing(sqlite3.connect(store.root / "catalog.sqlite")) as catalog:
        said = [row[0] for row in catalog.execute("PRAGMA integrity_check(5)")]
    if said == ["ok"]:
        yield Check("catalog", "fine", "integrity_check says ok")
    else:
        yield Check("catalog", "bad", "; ".join(said), "bring it back from a backup")


def _files(store: Store, catalog: Catalog) -> Iterator[Check]:
    """Every live file is there and its footer can be read, with the rows that the catalog counts."""
    missing: list[str] = []
    broken: list[str] = []
    count = small = 0
    for name in sorted(store.with_files() & catalog.tables.keys()):
        for data, _ in store.files(name):
            count += 1
            size, wrong = _footer(store, data)
            small += size is not None and size < 1 << 20
            if wrong:
                (missing if size is None else broken).append(f"{name}: {Path(data).name}{wrong}")
    lost = missing + broken
    if lost:
        yield Check(
            "files", "bad", f"{len(missing)} missing, {len(broken)} unreadable of {count}: {lost[0]}",
            "bring the data folder back from a backup, or read the logs into a new store",
        )  # fmt: skip
    else:
        yield Check("files", "fine", f"{count} live files, all readable")
    if small > SMALL_FILES:
        yield Check("small files", "note", f"{small} under 1 MiB", "fleetmark tend merges them")


def _footer(store: Store, path: str) -> tuple[int | None, str]:
    """Size of a data file, None when it is missing, and what is wrong with it."""
    if store.place.remote:
        return _object_footer(store, path)
    try:
        size = Path(path).stat().st_size
    except OSError:
        return None, " is not there"
    try:
        pq.ParquetFile(path).close()
    except (ArrowException, OSError) as error:
        return size, f": {str(error)[:80]}"
    return size, ""


def _object_footer(store: Store, path: str) -> tuple[int | None, str]:
    try:
        ((size,),) = _rows(store, "SELECT file_size_bytes FROM parquet_file_metadata($1)", [path])
    except duckdb.IOException as error:
        return None, f": {str(error)[:80]}"
    except duckdb.Error as error:
        return 0, f": {str(error)[:80]}"
    return int(size), ""


def _contracts(store: Store, catalog: Catalog) -> Iterator[Check]:
    stored = store.stored_types()
    made = [table for table in catalog.tables.values() if table.name in stored]
    wrong = [table.name for table in made if not _fits(stored[table.name], table)]
    if wrong:
        yield Check(
            "contracts", "bad", f"other types than the contract: {', '.join(wrong)}",
            "rebuild these tables in a new store",
        )  # fmt: skip
    else:
        absent = len(catalog.tables) - len(made)
        found = f"{len(made)} tables as their contracts say"
        yield Check("contracts", "fine", found + (f", {absent} not made yet" if absent else ""))


def _fits(stored: dict[str, str], table: Table) -> bool:
    return all(stored.get(c.name, c.type) == c.type for c in table.columns)


def _reading(store: Store, now: datetime) -> Iterator[Check]:
    cut = _rows(
        store,
        "SELECT path FROM lake.ingest_file WHERE NOT finished AND ingested_at < $1 ORDER BY path",
        [now - timedelta(hours=1)],
    )
    if cut:
        yield Check(
            "half-read files", "note", f"{len(cut)}: {cut[0][0]}", "ingest them again: they go on"
        )
    failed = _rows(
        store, "SELECT endpoint, start_ts, reason FROM lake.pull_range WHERE status = 'failed'"
    )
    if failed:
        endpoint, start, reason = failed[0]
        yield Check(
            "gaps of pulls", "bad", f"{len(failed)}: {endpoint} from {start}: {reason}",
            "fleetmark pull … --from TIME asks again for what is missing",
        )  # fmt: skip


def _streams(store: Store) -> Iterator[Check]:
    for name, topic, lost in _rows(
        store,
        "SELECT input, topic, sum(lost_count) FROM lake.stream_position GROUP BY ALL "
        "HAVING sum(lost_count) > 0 ORDER BY ALL",
    ):
        yield Check(
            "lost messages", "bad", f"{name}: {lost} of {topic} had left the topic unread",
            "keep the topic longer than Fleetmark may be down",
        )  # fmt: skip


def _inputs(root: Path, now: datetime) -> Iterator[Check]:
    for one in load_all(root):
        if one.state == "degraded":
            yield Check(f"input {one.name}", "bad", one.error, "see `fleetmark run`'s log")
        elif one.last_success:
            age = now - datetime.fromisoformat(one.last_success)
            if age > timedelta(hours=1):
                found = f"last success {one.last_success}Z"
                yield Check(f"input {one.name}", "note", found, "is `fleetmark run` running?")


def _rejects(store: Store) -> Iterator[Check]:
    """Refused lines by source. Those of a file that was read whole later, with what it lacked stated, are settled."""
    for source, refused, lines, reason in _rows(
        store,
        "WITH settled AS (SELECT first.file_id FROM lake.ingest_file AS first JOIN lake.ingest_file AS again "
        "USING (source, content_sha256) WHERE again.ingested_at > first.ingested_at AND again.reject_count = 0), "
        "r AS (SELECT source, count(*) AS refused, mode(reason) AS reason FROM lake.reject "
        "WHERE file_id IS NULL OR file_id NOT IN (FROM settled) GROUP BY source), "
        "f AS (SELECT source, sum(line_count) AS lines FROM lake.ingest_file "
        "WHERE file_id NOT IN (FROM settled) GROUP BY source) "
        "SELECT source, refused, lines, reason FROM r LEFT JOIN f USING (source) ORDER BY refused DESC",
    ):
        if lines is None or refused > REJECTED_SHARE * lines:
            of = "" if lines is None else f" of {lines}"
            yield Check(
                f"rejects of {source}", "note", f"{refused}{of} lines, most often: {reason[:80]}",
                f"SELECT * FROM reject WHERE source = '{source}'",
            )  # fmt: skip


def _detectors(store: Store) -> Iterator[Check]:
    blind = _rows(
        store,
        "SELECT detector, reason FROM lake.detector_status WHERE status = 'not_evaluable' ORDER BY 1",
    )
    if blind:
        names = ", ".join(name for name, _ in blind[:5]) + (", …" if len(blind) > 5 else "")
        yield Check(
            "detectors", "note", f"{len(blind)} cannot judge: {names}",
            "SELECT * FROM detector_status says what they lack",
        )  # fmt: skip


def _disk(store: Store, now: datetime) -> Iterator[Check]:
    """Days until the disk is full at the rate of the last week, by files' own times."""
    if store.place.remote:
        yield Check("disk", "fine", f"the data are objects below {store.place.data}")
        return
    data = store.place.folder(store.root)
    free = shutil.disk_usage(data).free
    week = [
        path.stat()
        for path in data.rglob("*.parquet")
        if now.timestamp() - path.stat().st_mtime < 7 * 86400
    ]
    if not week:
        yield Check("disk", "fine", f"{free / 1e9:.1f} GB free, nothing written in a week")
        return
    span_days = max(1.0, (now.timestamp() - min(s.st_mtime for s in week)) / 86400)
    per_day = sum(s.st_size for s in week) / span_days
    days = free / per_day
    found = f"{free / 1e9:.1f} GB free, {per_day / 1e9:.3f} GB a day: full in {days:.0f} days"
    if days < FORECAST_DAYS:
        yield Check("disk", "bad", found, "set [run] retention_days, or give it more room")
    else:
        yield Check("disk", "fine", found)


def _rows(store: Store, sql: str, values: list[object] | None = None) -> list[tuple[Any, ...]]:
    """Rows; none where an old store lacks the table."""
    try:
        found: list[tuple[Any, ...]] = store.connection.execute(sql, values or []).fetchall()
    except duckdb.CatalogException:
        return []
    return found
