"""What is already known of a file: the same content is never read twice, grown content is resumed.

A file is recognised by what it holds, not by its path: an earlier record of the same source and
facts whose content is a beginning of this file's. So a repeated, moved, grown or first cut and
then whole file gives the same tables as one read once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path

import polars as pl

from fleetmark.errors import SupersededError
from fleetmark.pipeline.files import Content, shown
from fleetmark.pipeline.marks import Marks, Position
from fleetmark.pipeline.write import copy_in, log_change
from fleetmark.store import Store
from fleetmark.store_tables import INGEST_FILE, REJECT
from fleetmark.table import Table, quote

HEAD_BYTES = 16 << 10
BLOCK_BYTES = 1 << 22


@dataclass
class FileRecord:
    """A row of `ingest_file`, counting while a file is read."""

    file_id: str
    source: str
    path: str
    facts: str
    head_bytes: int = 0
    head_sha256: str = ""
    content_bytes: int = 0
    content_sha256: str = ""
    settled_bytes: int = 0
    settled_lines: int = 0
    line_count: int = 0
    row_count: int = 0
    repeat_count: int = 0
    reject_count: int = 0
    skipped_count: int = 0
    tail_row_count: int = 0
    tail_repeat_count: int = 0
    tail_skipped_count: int = 0
    finished: bool = False
    ingested_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """How a file stands: its record, whether all of it has been read before, its head, and the mark that
    it was recognised by.
    """

    record: FileRecord
    unchanged: bool
    head: bytes
    mark: Position | None = None


def facts_json(options: Mapping[str, str]) -> str:
    """The options a file was read with, as they are compared."""
    return json.dumps(dict(sorted(options.items())))


def find_all(
    store: Store,
    files: Sequence[tuple[str, Mapping[str, str], Path]],
    marks: Marks | None = None,
) -> list[Found]:
    """How each file (source, options, path) stands. One look at the store for all of them."""
    heads = [_head(path) for _, _, path in files]
    sizes = [
        row[0]
        for row in store.connection.execute(
            "SELECT DISTINCT head_bytes FROM lake.ingest_file WHERE head_bytes > 0"
        ).fetchall()
    ]
    digests = {_sha(head[:size]) for head in heads for size in sizes if size <= len(head)}
    columns = [f.name for f in fields(FileRecord)]
    rows = store.connection.execute(
        f"SELECT {', '.join(map(quote, columns))} FROM lake.ingest_file "
        "WHERE head_sha256 IN (SELECT unnest($1)) "
        "OR (head_bytes = 0 AND path IN (SELECT unnest($2)))",
        [list(digests), [shown(path) for _, _, path in files]],
    ).fetchall()
    records = [FileRecord(**dict(zip(columns, row, strict=True))) for row in rows]
    found = [
        _stand(source, facts_json(options), path, head, records, marks)
        for (source, options, path), head in zip(files, heads, strict=True)
    ]
    _give_free_ids(store, [f.record for f in found if f.record.ingested_at is None])
    return found


def _give_free_ids(store: Store, new: Sequence[FileRecord]) -> None:
    """Files that begin alike for 4 MiB and then differ must not share an id."""
    while taken := _hashes(store, [record.file_id for record in new]):
        new = [record for record in new if record.file_id in taken]
        for record in new:
            record.file_id = _sha(f"{record.file_id}\0{taken[record.file_id]}".encode())[:16]


def _hashes(store: Store, file_ids: Sequence[str]) -> dict[str, str]:
    """Content hash by file id, of those that have a record."""
    rows = store.connection.execute(
        "SELECT file_id, content_sha256 FROM lake.ingest_file WHERE file_id IN (SELECT unnest($1))",
        [list(file_ids)],
    ).fetchall()
    return {row[0]: row[1] for row in rows}


def refuse_superseded(store: Store, records: Sequence[FileRecord]) -> None:
    """Raise SupersededError when another ingest has written one of these files since they were
    looked up or last written here; inside the transaction that is to write them.
    """
    stored = _hashes(store, [record.file_id for record in records])
    for record in records:
        expected = None if record.ingested_at is None else record.content_sha256
        if stored.get(record.file_id) != expected:
            raise SupersededError(f"{record.path}: another ingest reads this file")


def begins_like(head: bytes, heads: Iterable[tuple[int, str]]) -> bool:
    """Is one of these (length, hash) heads a beginning of `head`? Then a file may go on another."""
    by_length: dict[int, set[str]] = {}
    for length, digest in heads:
        by_length.setdefault(length, set()).add(digest)
    return any(
        length <= len(head) and _sha(head[:length]) in digests
        for length, digests in by_length.items()
    )


def _stand(
    source: str, facts: str, path: Path, head: bytes, records: list[FileRecord], marks: Marks | None
) -> Found:
    candidates = [
        record
        for record in records
        if record.source == source
        and record.facts == facts
        and (record.head_bytes or record.path == shown(path))
        and _sha(head[: record.head_bytes]) == record.head_sha256
    ]
    mark = marks.of(path) if marks is not None and candidates else None
    longer = [] if mark is None else [r for r in candidates if r.content_bytes >= mark.size]
    best = _longest_prefix(path, longer, mark or Position())
    if best is None:
        mark = None
        best = _longest_prefix(path, candidates, Position())
    if best is None:
        identity = _sha(
            f"{source}\0{facts}\0{shown(path) if not head else _content_key(path)}".encode()
        )
        new = FileRecord(identity[:16], source, shown(path), facts, len(head), _sha(head))
        return Found(new, unchanged=False, head=head)
    known, ends = best
    # A copy: several files of one slice can hold what one record describes.
    record = replace(known, path=shown(path), head_bytes=len(head), head_sha256=_sha(head))
    return Found(record, unchanged=ends and record.finished, head=head, mark=mark)


def _head(path: Path) -> bytes:
    content = Content(path)
    try:
        return content.read(HEAD_BYTES)
    finally:
        content.close()


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _content_key(path: Path) -> str:
    """Hash of the first 4 MiB: tells new files apart; equality of content is decided by records."""
    content = Content(path)
    try:
        return f"{shown(path.name)}\0{_sha(content.read(BLOCK_BYTES))}"
    finally:
        content.close()


def _longest_prefix(
    path: Path, records: list[FileRecord], start: Position
) -> tuple[FileRecord, bool] | None:
    """The record with the longest content that this file begins with; and does the file end there?

    `start`: how far it is known to be what it was.
    """
    if not records:
        return None
    best: FileRecord | None = None
    content = Content(path)
    digest = start.digest.copy()
    position = start.size
    try:
        if position:
            content.go_to(position)
        for record in sorted(records, key=lambda r: r.content_bytes):
            while position < record.content_bytes:
                block = content.read(min(BLOCK_BYTES, record.content_bytes - position))
                if not block:
                    return _with_end(best, position, content)
                digest.update(block)
                position += len(block)
            if digest.hexdigest() == record.content_sha256:
                best = record
        return _with_end(best, position, content)
    finally:
        content.close()


def _with_end(
    best: FileRecord | None, position: int, content: Content
) -> tuple[FileRecord, bool] | None:
    if best is None:
        return None
    ends = best.content_bytes == position and not content.read(1) and not content.damage
    return best, ends


def forget_tail(store: Store, record: FileRecord, outputs: tuple[Table, ...]) -> None:
    """Take back what the unsettled end of a file gave: it is read again.

    Rows of it that had taken another's place leave none: the other's line counts as a repeat from now on.
    """
    taken = -record.tail_row_count
    where = "file_id = $1 AND (line_no > $2 OR line_no = 0)"
    values = [record.file_id, record.settled_lines]
    for table in (*outputs, REJECT):
        name = f"lake.{quote(table.name)}"
        gone = store.connection.execute(f"SELECT * FROM {name} WHERE {where}", values).pl()
        if gone.is_empty():
            continue
        store.connection.execute(f"DELETE FROM {name} WHERE {where}", values)
        log_change(store, table, gone)
        if table is REJECT:
            record.reject_count -= gone.height
        else:
            taken += gone.height
    record.row_count -= record.tail_row_count + taken
    record.repeat_count += taken - record.tail_repeat_count
    record.skipped_count -= record.tail_skipped_count
    record.tail_row_count = record.tail_repeat_count = record.tail_skipped_count = 0
    record.line_count = record.settled_lines


def save_all(store: Store, records: Sequence[FileRecord]) -> None:
    """Replace the records of these files; inside the transaction that writes their rows."""
    frame = pl.DataFrame(
        [asdict(record) for record in records], schema=INGEST_FILE.polars_schema(), orient="row"
    )
    copy_in(store, "records", frame)
    store.connection.execute(
        "DELETE FROM lake.ingest_file WHERE file_id IN (SELECT file_id FROM records)"
    )
    store.connection.execute("INSERT INTO lake.ingest_file BY NAME FROM records")
