"""Sources: one log format in, rows of tables out. A source does no I/O and keeps no state.

The core reads the file in bounded chunks (or hands it over whole), calls the source's function and
writes what it returns. What a source cannot read it returns as rejects; it never raises for bad
input, and never drops a line without counting it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import polars as pl

from fleetmark.errors import DefinitionError
from fleetmark.table import Table

Reads = Literal["lines", "document", "frame"]

LINES_SCHEMA = {"line_no": pl.Int64(), "text": pl.String()}
REJECTS_SCHEMA = {"line_no": pl.Int64(), "reason": pl.String(), "text": pl.String()}


@dataclass(frozen=True, slots=True)
class Option:
    """A fact the file does not hold and the user states with `--set NAME=VALUE`."""

    name: str
    doc: str
    default: str | None = None


CLUSTER = Option(
    "cluster", "name of the cluster (or account, region) the file belongs to", "default"
)


@dataclass(frozen=True, slots=True)
class Context:
    """What a source may know about the file beside its text.

    file_name    the file's name without folder
    options      every declared option (the user's value, the settings' value or the default)
    first_line   line 1 of the file, for formats with a header; '' in documents and frames
    at_end       this is the file's last chunk: nothing may be held back
    """

    file_name: str
    options: Mapping[str, str] = field(default_factory=dict)
    first_line: str = ""
    at_end: bool = True


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a source made of one chunk.

    tables     rows by table name: the contract's columns plus `line_no`; missing columns are NULL
    rejects    columns line_no, reason, text
    skipped    lines that rightly give no row (comments, blank lines, headers)
    held_from  line number at which a record begins that is not complete yet; the core shows those
               lines again with the next chunk. Rows, rejects and `skipped` leave them out.
    """

    tables: Mapping[str, pl.DataFrame | pl.LazyFrame]
    rejects: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REJECTS_SCHEMA))
    skipped: int = 0
    held_from: int | None = None


class ParseLines(Protocol):
    """A source that reads lines: a frame of line_no and text."""

    def __call__(self, lines: pl.DataFrame, context: Context, /) -> Parsed: ...


class ParseDocument(Protocol):
    """A source that reads a whole file's bytes."""

    def __call__(self, content: bytes, context: Context, /) -> Parsed: ...


class ParseFrame(Protocol):
    """A source that reads a Parquet file as a lazy frame."""

    def __call__(self, frame: pl.LazyFrame, context: Context, /) -> Parsed: ...


Parse = ParseLines | ParseDocument | ParseFrame


@dataclass(frozen=True, slots=True)
class Source:
    """A log format.

    reads      "lines": text, called with a frame of line_no and text, a chunk at a time;
               "document": called with the whole file's bytes; "frame": a Parquet file as a
               lazy frame
    options    facts the user may or must state
    name_facts named groups of this pattern, found in the file's name, become options (they lose
               against `--set`); they belong to the identity of a file, so two equal files with
               different names are two files
    sniff      does this head of a file (64 KiB) look like mine? used by `ingest auto`
    packaged   files that ship with Fleetmark and hold rows every store begins with; any ingest
               reads those it does not know yet
    """

    name: str
    doc: str
    reads: Reads
    outputs: tuple[Table, ...]
    parse: Parse
    options: tuple[Option, ...] = ()
    name_facts: str | None = None
    sniff: Callable[[bytes, str], bool] = lambda head, file_name: False
    packaged: tuple[Path, ...] = ()


def source(
    *,
    outputs: tuple[Table, ...],
    reads: Reads = "lines",
    options: tuple[Option, ...] = (),
    name_facts: str | None = None,
    sniff: Callable[[bytes, str], bool] = lambda head, file_name: False,
    packaged: tuple[Path, ...] = (),
) -> Callable[[Parse], Source]:
    """Make a source of a function: its name is the function's, its doc the docstring.

    Every source has the option `cluster` without naming it.
    """

    def define(parse: Parse) -> Source:
        name = getattr(parse, "__name__", "")
        doc = inspect.getdoc(parse)
        if not doc:
            raise DefinitionError(
                f"source {name}: needs a docstring that names format and versions"
            )
        every = (CLUSTER, *options)
        return Source(name, doc, reads, outputs, parse, every, name_facts, sniff, packaged)

    return define


def rejects(lines: pl.DataFrame, reason: str | pl.Expr) -> pl.DataFrame:
    """Turn lines (line_no, text) into rejects with one reason, or a reason per line."""
    value = pl.lit(reason) if isinstance(reason, str) else reason
    return lines.select("line_no", value.alias("reason"), "text")
