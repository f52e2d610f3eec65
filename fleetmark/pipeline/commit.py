"""Commits of an ingest: rows, rejects and the positions in the files they reach, together.

Chunks of files are gathered in a batch, so that a thousand small files cost a few transactions and
a large file one for every 32 MiB, or 256 MiB of text that gives little.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import polars as pl

from fleetmark.pipeline import write
from fleetmark.pipeline.files import shown
from fleetmark.pipeline.known import FileRecord, forget_tail, refuse_superseded, save_all
from fleetmark.pipeline.marks import Position
from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, Source
from fleetmark.store import Store
from fleetmark.store_tables import REJECT
from fleetmark.table import Table

BATCH_BYTES = 32 << 20
BATCH_ENTRIES = 1000
# Text that gives an eighth of itself in rows, or less, counts as an eighth: commits cost more than
# they save there.
COMPACTION = 8


@dataclass(frozen=True, slots=True)
class Entry:
    """One chunk of one file, ready to be written. Line numbers beyond `after_line` are its own."""

    load: FileLoad
    rows: dict[str, pl.DataFrame]
    rejects: pl.DataFrame
    skipped: int
    after_line: int
    last_line: int
    end: Position
    settles: bool
    finished: bool


@dataclass
class Batch:
    """Chunks waiting for a commit. `beside` writes what must stand or fall with them."""

    store: Store
    now: datetime
    beside: Callable[[], None] = lambda: None
    entries: list[Entry] = field(default_factory=list)
    size: int = 0

    def add(self, entry: Entry, size: int) -> None:
        self.entries.append(entry)
        self.size += size
        if self.size >= BATCH_BYTES or len(self.entries) >= BATCH_ENTRIES:
            self.flush()

    def flush(self) -> None:
        """Write everything that waits, in one transaction. Raises SupersededError."""
        if not self.entries:
            return
        loads = list({id(e.load): e.load for e in self.entries}.values())
        before = {id(load): replace(load.record) for load in loads}

        def work() -> None:
            for load in loads:
                vars(load.record).update(vars(before[id(load)]))
            refuse_superseded(self.store, [load.record for load in loads])
            for load in loads:
                if load.must_forget:
                    forget_tail(self.store, load.record, load.source.outputs)
            self._write()
            for load in loads:
                load.record.ingested_at = self.now
            save_all(self.store, [load.record for load in loads])
            self.beside()

        with write.one_thread(self.store):
            self.store.commit(work)
        for load in loads:
            load.must_forget = False
        self.entries, self.size = [], 0

    def _write(self) -> None:
        tables = {t.name: t for e in self.entries for t in e.load.source.outputs}
        added = {
            name: write.insert(self.store, table.with_provenance(), self._gathered(table))
            for name, table in tables.items()
        }
        refused = write.insert(self.store, REJECT, pl.concat([e.rejects for e in self.entries]))
        for entry in self.entries:
            _count(entry, added, refused)

    def _gathered(self, table: Table) -> pl.DataFrame:
        parts = [e.rows[table.name] for e in self.entries if table.name in e.rows]
        return pl.concat(parts) if parts else table.with_provenance().empty()


def _count(entry: Entry, added: dict[str, pl.DataFrame], refused: pl.DataFrame) -> None:
    """Bring the file's record up to date with what was written of this chunk."""
    record = entry.load.record
    mine = pl.col("file_id") == record.file_id
    if entry.load.source.reads == "lines":
        mine &= pl.col("line_no").is_between(entry.after_line, entry.last_line, closed="right")
    new = sum(rows.filter(mine).height for rows in added.values())
    known = sum(rows.height for rows in entry.rows.values()) - new
    record.row_count += new
    record.repeat_count += known
    record.skipped_count += entry.skipped
    record.reject_count += entry.rejects.join(
        refused.select("file_id", "line_no", "reason"), on=["file_id", "line_no", "reason"],
        how="semi",
    ).height  # fmt: skip
    record.line_count = entry.last_line
    record.content_bytes = entry.end.size
    record.content_sha256 = entry.end.digest.hexdigest()
    if entry.settles:
        record.settled_bytes, record.settled_lines = entry.end.size, entry.last_line
    else:
        record.tail_row_count += new
        record.tail_repeat_count += known
        record.tail_skipped_count += entry.skipped
    record.finished = entry.finished


def _detached(frame: pl.DataFrame) -> pl.DataFrame:
    """A copy whose strings do not hold on to the text they were cut from."""
    return pl.DataFrame(frame.to_arrow(compat_level=pl.CompatLevel.oldest()), schema=frame.schema)


@dataclass
class FileLoad:
    """One file on its way into the lake.

    `record` is its row of `ingest_file` as of the last commit; `settled` and `settled_lines` say
    how far complete records have been handed to the batch. `on_bytes` is told of every block read.
    `mark`: how far it need not be read again. `most_bytes`: how much of it is a look's share.
    """

    batch: Batch
    source: Source
    path: Path
    context: Context
    record: FileRecord
    on_bytes: Callable[[int], None]
    settled: Position = field(default_factory=Position)
    settled_lines: int = 0
    must_forget: bool = True
    mark: Position | None = None
    most_bytes: int | None = None

    def add(
        self,
        parsed: Parsed,
        lines: pl.DataFrame,
        end: Position,
        last_line: int,
        *,
        settles: bool,
        finished: bool,
    ) -> None:
        """Hand over one chunk that reaches `end` and line `last_line`.

        settles   these lines are complete; otherwise they are read again when the file has grown
        finished  nothing follows in the file as it is now
        """
        rows: dict[str, pl.DataFrame] = {}
        refused = [parsed.rejects.select(*REJECTS_SCHEMA)]
        for table in self.source.outputs:
            part = parsed.tables.get(table.name)
            if part is not None:
                frame = write.collected(part)
                gated = write.gate(table.with_provenance(), frame, self.record.file_id, lines)
                rows[table.name] = gated.rows
                refused.append(gated.rejects)
        bad = write.rejects_of(refused, self.source.name, shown(self.path), self.record.file_id)
        size = end.size - self.settled.size
        kept = sum(frame.estimated_size() for frame in (*rows.values(), bad))
        if kept * COMPACTION < size:
            rows = {name: _detached(frame) for name, frame in rows.items()}
            bad, size = _detached(bad), max(int(kept), size // COMPACTION)
        entry = Entry(
            self, rows, bad, parsed.skipped, self.settled_lines, last_line, end, settles, finished
        )
        if settles:
            self.settled, self.settled_lines = end, last_line
        self.batch.add(entry, size)
