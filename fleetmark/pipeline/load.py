"""Files into tables: read, parse, gate and commit, so that a kill at any moment loses nothing.

Text is handed over chunk by chunk; documents and Parquet files as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl

from fleetmark.pipeline.commit import Batch, FileLoad
from fleetmark.pipeline.files import Content, shown
from fleetmark.pipeline.known import Found
from fleetmark.pipeline.lines import CHUNK_BYTES, NO_LINES, load_lines, reject_at
from fleetmark.pipeline.marks import Position
from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, Source

DOCUMENT_BYTES = 256 << 20


def load_file(
    batch: Batch,
    source: Source,
    path: Path,
    options: Mapping[str, str],
    found: Found,
    on_bytes: Callable[[int], None] = lambda count: None,
    most_bytes: int | None = None,
) -> FileLoad:
    """Hand one file that is not known yet to the batch; its record counts after the batch's flush.

    Of a plain text file no more is read than the chunks that reach `most_bytes`.
    Raises InputError when the file cannot be opened; whatever is wrong inside becomes rejects.
    """
    context = Context(shown(path.name), options)
    load = FileLoad(
        batch, source, path, context, found.record, on_bytes,
        settled_lines=found.record.settled_lines,
        must_forget=found.record.ingested_at is not None, mark=found.mark, most_bytes=most_bytes,
    )  # fmt: skip
    {"lines": load_lines, "document": _load_document, "frame": _load_frame}[source.reads](load)
    return load


def _load_document(load: FileLoad) -> None:
    content = Content(load.path)
    try:
        data = content.read(DOCUMENT_BYTES + 1)
        damage = content.damage
    finally:
        content.close()
    load.on_bytes(len(data))
    if not data and not damage:
        damage = "the file is empty"
    is_readable = 0 < len(data) <= DOCUMENT_BYTES
    if len(data) > DOCUMENT_BYTES:
        limit = DOCUMENT_BYTES >> 20
        damage = f"larger than {limit} MiB, the limit of a {load.source.name} file"
    parsed = load.source.parse(data, load.context) if is_readable else Parsed({})  # type: ignore[arg-type]  # reads == "document"
    if damage:
        parsed = _of_damaged(parsed, damage)
    _commit_whole(load, parsed, Position().plus(data))


def _of_damaged(parsed: Parsed, damage: str) -> Parsed:
    """What a source made of the readable part of a damaged file, and the damage as a reject.

    Where it made nothing, its own rejects only say again that the file is damaged.
    """
    if not any(frame.lazy().select(pl.len()).collect().item() for frame in parsed.tables.values()):
        return Parsed({}, reject_at(0, damage))
    refused = pl.concat([reject_at(0, damage), parsed.rejects.select(*REJECTS_SCHEMA)])
    return Parsed(parsed.tables, refused, parsed.skipped)


def _load_frame(load: FileLoad) -> None:
    """A Parquet file. Its bytes are hashed in blocks, its rows scanned lazily."""
    content = Content(load.path)
    end = Position()
    try:
        while block := content.read(CHUNK_BYTES):
            end = end.plus(block)
            load.on_bytes(len(block))
    finally:
        content.close()
    try:
        frame = pl.scan_parquet(load.path)
        frame.collect_schema()
        parsed = load.source.parse(frame, load.context)  # type: ignore[arg-type]  # "frame"
        tables = {
            name: part.collect(engine="streaming") if isinstance(part, pl.LazyFrame) else part
            for name, part in parsed.tables.items()
        }
        parsed = Parsed(tables, parsed.rejects, parsed.skipped)
    # Polars panics, which is no PolarsError, on some damaged pages.
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = f"not a readable Parquet file: {error}" if end.size else "the file is empty"
        parsed = Parsed({}, reject_at(0, reason))
    _commit_whole(load, parsed, end)


def _commit_whole(load: FileLoad, parsed: Parsed, end: Position) -> None:
    """A file without lines settles never: grown or repaired, it is read anew as a whole."""
    records = sum(
        frame.lazy().select(pl.len()).collect().item() for frame in parsed.tables.values()
    )
    count = records + parsed.rejects.height + parsed.skipped
    load.add(parsed, NO_LINES, end, count, settles=False, finished=True)


def options_of(
    source: Source, path: Path, stated: Mapping[str, str], settings: Mapping[str, str]
) -> dict[str, str]:
    """Options of a file: defaults, then settings, then facts of its name, then what was stated."""
    values = {**source.defaults, **settings}
    if source.name_facts and (match := re.search(source.name_facts, shown(path.name))):
        values |= {k: v for k, v in match.groupdict().items() if v is not None}
    return values | dict(stated)
