"""One commit of an ingest: rows, rejects and the position in the file they reach, together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from fleetmark.pipeline import write
from fleetmark.pipeline.files import REJECT_TEXT_CHARS
from fleetmark.pipeline.known import FileRecord, forget_tail
from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, Source
from fleetmark.store import Store
from fleetmark.store_tables import REJECT

if TYPE_CHECKING:
    from hashlib import _Hash


@dataclass(frozen=True, slots=True)
class Position:
    """How far into the unpacked content, and the hash of everything before."""

    size: int = 0
    digest: _Hash = field(default_factory=hashlib.sha256)

    def plus(self, data: bytes) -> Position:
        digest = self.digest.copy()
        digest.update(data)
        return Position(self.size + len(data), digest)


@dataclass
class FileLoad:
    """One file on its way into the lake. `record` holds its counts, `settled` how far it is safe.

    `on_bytes` is told of every block that was read.
    """

    store: Store
    source: Source
    path: Path
    context: Context
    record: FileRecord
    now: datetime
    on_bytes: Callable[[int], None]
    settled: Position = field(default_factory=Position)
    must_forget: bool = True

    def commit(
        self,
        parsed: Parsed,
        lines: pl.DataFrame,
        end: Position,
        last_line: int,
        *,
        settles: bool,
        finished: bool,
    ) -> None:
        """Write one chunk that reaches `end` and line `last_line`.

        settles   these lines are complete; otherwise they are read again when the file has grown
        finished  nothing follows in the file as it is now
        """
        before = FileRecord(**vars(self.record))

        def work() -> None:
            record = self.record
            vars(record).update(vars(before))
            if self.must_forget:
                forget_tail(self.store, record, self.source.outputs)
            known = self._write(parsed, lines)
            record.repeat_count += known
            record.skipped_count += parsed.skipped
            record.line_count = last_line
            record.content_bytes, record.content_sha256 = end.size, end.digest.hexdigest()
            if settles:
                record.settled_bytes, record.settled_lines = end.size, last_line
            else:
                record.tail_repeat_count += known
                record.tail_skipped_count += parsed.skipped
            record.finished = finished
            record.save(self.store, self.now)

        self.store.commit(work)
        self.must_forget = False
        if settles:
            self.settled = end

    def _write(self, parsed: Parsed, lines: pl.DataFrame) -> int:
        """Write rows and rejects; count both in the record; return how many rows were known."""
        refused = [parsed.rejects.select(*REJECTS_SCHEMA)]
        known = 0
        for table in self.source.outputs:
            part = parsed.tables.get(table.name)
            if part is None:
                continue
            frame = part.collect(engine="streaming") if isinstance(part, pl.LazyFrame) else part
            stored = table.with_provenance()
            gated = write.gate(stored, frame, self.record.file_id, lines)
            refused.append(gated.rejects)
            new = write.insert(self.store, stored, gated.rows)
            self.record.row_count += new
            known += gated.rows.height - new
        bad = (
            pl.concat(refused)
            .unique(["line_no", "reason"], keep="first", maintain_order=True)
            .with_columns(
                pl.col("text").str.slice(0, REJECT_TEXT_CHARS),
                pl.lit(self.source.name).alias("source"),
                pl.lit(str(self.path)).alias("path"),
                pl.lit(self.record.file_id).alias("file_id"),
            )
            .select(REJECT.column_names)
        )
        self.record.reject_count += write.insert(self.store, REJECT, bad)
        return known
