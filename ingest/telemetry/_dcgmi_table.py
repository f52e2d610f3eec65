"""`dcgmi dmon` output: heads, rows of entities, and the rounds they come in."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ._scrape_pages import read_time

# Head line, as of DCGM 2 (`# Entity`) and of 3 and later (`#Entity`), behind a stamp or not.
_HEAD = re.compile(r"(?P<stamp>\S+ +)?# ?Entity +(?P<tags>\S.*)")
_ROW = re.compile(
    r"(?P<stamp>[^ ]*\d[^ ]* +)? *(?P<entity>GPU|GPU-I|GPU-CI|Switch|CPU|Core|Link|CX) +(?P<number>\d{1,5}) +(?P<rest>\S.*)"
)
# The line below a head: `Id`, or `ID` and units.
_UNITS = re.compile(r"(?:\S+ +)? *I[dD]\b.*")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|N/A")
_LINK_COUNT = 18
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)
NO_HEAD = "no head line (#Entity …) before it: the names of its columns are not known"
_OTHER = "no line of dcgmi dmon: expected #Entity, GPU 0 or another entity with its values"
_STAMP = "stamp {!r} is no time: write RFC 3339 with zone or seconds since 1970"
_CUT = "{} values where the head has {} names: is the line cut?"
_NOT_A_NUMBER = "{!r} is neither a number nor N/A: is the line damaged?"


def _fields() -> Mapping[str, str]:
    named = tomllib.loads(Path(__file__).with_name("dcgmi_dmon.toml").read_text(encoding="utf-8"))
    return {
        tag.replace("{link}", str(link)): name.replace("{link}", str(link))
        for tag, name in named.items()
        for link in (range(_LINK_COUNT) if "{link}" in tag else (0,))
    }


FIELDS = _fields()


def epoch_s(time: datetime) -> float:
    """Seconds since 1970 of a time in UTC without zone."""
    return (time - _EPOCH).total_seconds()


class Row(NamedTuple):
    """One entity's values in one round. stamp_s: seconds since 1970, where the line states them."""

    line_no: int
    round_no: int
    stamp_s: float | None
    entity: str
    number: int
    values: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Table:
    """What a text holds: rows, lines refused (line_no, reason), lines that rightly give no row."""

    rows: list[Row] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    skipped: int = 0


def read_table(lines: Iterable[tuple[int, str]]) -> Table:
    """All rows. A round ends where an entity comes again; entities may come in any order."""
    table = Table()
    tags: list[str] | None = None
    seen: set[tuple[str, int]] = set()
    round_no = 0
    for line_no, text in lines:
        head, row = _HEAD.fullmatch(text.strip()), _ROW.fullmatch(text)
        if head:
            tags = head["tags"].split()
            table.skipped += 1
        elif not text.strip() or text.startswith("#") or _UNITS.fullmatch(text):
            table.skipped += 1
        elif not row or tags is None:
            table.refused.append((line_no, _OTHER if not row else NO_HEAD))
        else:
            who = (row["entity"], int(row["number"]))
            if who in seen:
                round_no, seen = round_no + 1, set()
            seen.add(who)
            read = _row(line_no, round_no, row, tags)
            if isinstance(read, Row):
                table.rows.append(read)
            else:
                table.refused.append((line_no, read))
    return table


def _row(line_no: int, round_no: int, row: re.Match[str], tags: list[str]) -> Row | str:
    """The row, or why it is none."""
    stamp = (row["stamp"] or "").strip()
    time = read_time(stamp) if stamp else None
    values = row["rest"].split()
    if stamp and time is None:
        return _STAMP.format(stamp)
    if len(values) != len(tags):
        return _CUT.format(len(values), len(tags))
    for value in values:
        if not _NUMBER.fullmatch(value):
            return _NOT_A_NUMBER.format(value)
    cells = tuple(zip(tags, values, strict=True))
    stamp_s = None if time is None else epoch_s(time)
    return Row(line_no, round_no, stamp_s, row["entity"], int(row["number"]), cells)
