"""What tests of definitions stand on: run a source over a file or bytes, without a store."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from fleetmark.pipeline.files import split_lines
from fleetmark.source import Context, Parsed, Source


def context_for(source: Source, file_name: str, options: dict[str, str]) -> Context:
    """Options of a file: defaults, then facts of its name, then what the user states."""
    values = {o.name: o.default for o in source.options if o.default is not None}
    if source.name_facts and (match := re.search(source.name_facts, file_name)):
        values |= {k: v for k, v in match.groupdict().items() if v is not None}
    return Context(file_name, values | options)


def parse_file(source: Source, path: Path, **options: str) -> Parsed:
    """Run `source` over the whole of `path` (plain or as the source reads it) in one chunk."""
    context = context_for(source, path.name, options)
    if source.reads == "frame":
        return source.parse(pl.scan_parquet(path), context)  # type: ignore[arg-type]  # by `reads`
    content = path.read_bytes()
    if source.reads == "document":
        return source.parse(content, context)  # type: ignore[arg-type]  # by `reads`
    lines, damaged = split_lines(content, 1)
    first = lines["text"][0] if lines.height and lines["line_no"][0] == 1 else ""
    parsed = source.parse(
        lines,  # type: ignore[arg-type]  # by `reads`
        Context(context.file_name, context.options, first, at_end=True),
    )
    return Parsed(parsed.tables, pl.concat([damaged, parsed.rejects]), parsed.skipped)
