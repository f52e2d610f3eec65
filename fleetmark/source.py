"""Sources: one log format in, rows of tables out. A source does no I/O and keeps no state.

The core reads the file in bounded chunks (or hands it over whole), calls the source's function and
writes what it returns. What a source cannot read it returns as rejects; it never raises for bad
input, and never drops a line without counting it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol
from zoneinfo import ZoneInfo

import polars as pl

from fleetmark.errors import DefinitionError, InputError
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


def wrong_value(name: str, value: str) -> str | None:
    """Why a value cannot be one of an option whose name means the same in every source, or None.

    tz: an IANA zone. ts, boot_ts: RFC 3339, or seconds since 1970. year: four digits. Sources check again,
    with what they know of the file; this is said before any file is read.
    """
    if name == "tz":
        return None if _is_zone(value) else "is no time zone name such as UTC or Europe/Berlin"
    if name in ("ts", "boot_ts"):
        is_time = _is_time(value)
        return None if is_time else "is no time: write 2026-03-20T12:23:43Z or seconds since 1970"
    if name == "year" and not re.fullmatch(r"[0-9]{4}", value):
        return "is no year of four digits"
    return None


def _is_zone(value: str) -> bool:
    try:
        ZoneInfo(value)
    except (
        ValueError,
        OSError,
        KeyError,
    ):  # of names that are none, that are paths, that are absent
        return False
    return True


def _is_time(value: str) -> bool:
    if re.fullmatch(r"[0-9]{9,10}([.][0-9]+)?", value):
        return True
    try:
        datetime.fromisoformat(re.sub(r"(?<=T[0-9]{2})-([0-9]{2})-(?=[0-9]{2})", r":\1:", value))
    except ValueError:
        return False
    return True


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

    @property
    def defaults(self) -> dict[str, str]:
        """Options that have a default, with it."""
        return {o.name: o.default for o in self.options if o.default is not None}

    def check_options(self, stated: Iterable[str]) -> None:
        """Raise InputError for a stated option that the source does not have."""
        check_options(self.name, self.options, stated)


def check_options(name: str, options: Iterable[Option], stated: Iterable[str]) -> None:
    """Raise InputError when `stated` names what is none of the options of `name`."""
    known = {option.name for option in options}
    if unknown := set(stated) - known:
        raise InputError(
            f"{name} has no option {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}"
        )


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
