"""Entries of files that people write: CSV with a header line, or JSON lines; one entry a line.

Line by line in Python, 90,000 entries a second of CPU: such files are small.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import polars as pl

from fleetmark.source import REJECTS_SCHEMA
from fleetmark.table import Table

_DIGITS = re.compile(r"[-+]?[0-9]{1,20}")
_LIMITS = {"INTEGER": 1 << 31, "BIGINT": 1 << 63}


class EntryError(ValueError):
    """The line is no entry; the message says why."""


def _whole(text: str) -> int:
    # int() would also take 1_0 and the digits of every script.
    if not _DIGITS.fullmatch(text):
        raise ValueError
    return int(text)


def _time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo else time


def _real(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number < 0:
        raise ValueError
    return number


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_READ: Mapping[str, Callable[[str], object]] = {
    "INTEGER": _whole,
    "BIGINT": _whole,
    "DOUBLE": _real,
    "BOOLEAN": _truth,
    "TIMESTAMP": _time,
    "VARCHAR": str,
}


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries with the columns of `table` under their names, in any order.

    Those in `required` must be there; others may be missing or empty. Unknown ones are passed over,
    and a reject of line 1 names them: those of the header, or of the first JSON line.
    `cluster` falls back to the option. `names` says in words what an entry needs.
    """

    table: Table
    required: tuple[str, ...]
    names: str

    @property
    def kinds(self) -> dict[str, str]:
        return {column.name: column.type for column in self.table.columns}

    def read(
        self,
        lines: pl.DataFrame,
        first_line: str,
        cluster: str,
        finish: Callable[[dict[str, object]], dict[str, object]],
    ) -> tuple[pl.DataFrame, pl.DataFrame, int]:
        """Rows (with line_no), rejects, and how many lines were the header or blank.

        `finish` completes the typed values of an entry; it raises EntryError for what is wrong.
        """
        first = first_line.removeprefix("\ufeff")
        header = None if first.lstrip().startswith("{") else self._header(first)
        rows: list[dict[str, object]] = []
        bad: list[tuple[int, str, str]] = []
        if lines.height and lines["line_no"][0] == 1:
            bad += self._unknown(first, header)
        skipped = 0
        for line_no, text in lines.select("line_no", "text").iter_rows():
            is_header = header is not None and line_no == 1 and not self._missing(header)
            if is_header or not text.strip():
                skipped += 1
                continue
            try:
                values = self._values(text, header, cluster)
                rows.append({"line_no": line_no} | finish(values))
            except EntryError as error:
                bad.append((line_no, str(error), text))
        schema = {"line_no": pl.Int64(), **self.table.polars_schema()}
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        return frame, pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row"), skipped

    def _header(self, line: str) -> list[str]:
        try:
            return [name.strip() for name in next(csv.reader([line]), [])]
        except csv.Error:  # a bare carriage return, or a field over the limit: names nothing
            return []

    def _unknown(self, first: str, header: Sequence[str] | None) -> Iterator[tuple[int, str, str]]:
        """The file's reject for names that are no column, if it has any and the rest can be read."""
        try:
            names = list(_object(first)) if header is None else header
        except EntryError:
            return
        unknown = [repr(name) for name in names if name not in self.kinds]
        if unknown and not self._missing(["cluster", *names]):
            known = ", ".join(self.kinds)
            yield 1, f"passed over, no column here: {', '.join(unknown)}; there are {known}", first

    def _missing(self, names: Sequence[str]) -> list[str]:
        return [name for name in self.required if name not in names]

    def _values(self, text: str, header: Sequence[str] | None, cluster: str) -> dict[str, object]:
        fields = self._json_fields(text) if header is None else self._csv_fields(text, header)
        stated = {"cluster": cluster} | {k: v.strip() for k, v in fields.items() if v.strip()}
        if missing := self._missing(list(stated)):
            raise EntryError(f"{' and '.join(missing)} is empty: an entry names {self.names}")
        return {name: _typed(name, kind, stated.get(name)) for name, kind in self.kinds.items()}

    def _csv_fields(self, text: str, header: Sequence[str]) -> dict[str, str]:
        if missing := self._missing(header):
            raise EntryError(
                f"line 1 names no column {' and '.join(missing)}: write {','.join(self.kinds)}"
            )
        try:
            cells = next(csv.reader([text], strict=True))
        except csv.Error as error:
            raise EntryError(f"not a CSV line: {error}") from None
        if len(cells) != len(header):
            raise EntryError(f"{len(cells)} cells, line 1 names {len(header)}")
        return dict(zip(header, cells, strict=True))

    def _json_fields(self, text: str) -> dict[str, str]:
        found = _object(text)
        known = {k: v for k, v in found.items() if k in self.kinds and v is not None}
        if wrong := [k for k, v in known.items() if isinstance(v, dict | list)
                     or (isinstance(v, bool) and self.kinds[k] != "BOOLEAN")]:  # fmt: skip
            raise EntryError(f"{wrong[0]} is neither text nor a number")
        texts = {k: str(v) for k, v in known.items()}
        # JSON can write halves of a character (\ud800) that no UTF-8 holds.
        if wrong := [k for k, v in texts.items() if not is_utf8(v)]:
            raise EntryError(f"{wrong[0]} is not valid text")
        return texts


def _object(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EntryError(f"not JSON: {error}") from None
    if not isinstance(found, dict):
        raise EntryError("a JSON line is an object")
    return found


def is_utf8(text: str) -> bool:
    """Can UTF-8 hold it? JSON's halves of characters it cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _typed(name: str, kind: str, text: str | None) -> object:
    if text is None:
        return None
    try:
        value = _READ[kind](text)
    except (ValueError, OverflowError, KeyError):
        raise EntryError(f"{name} {text!r} is no {kind}") from None
    if kind in _LIMITS and isinstance(value, int) and not 0 <= value < _LIMITS[kind]:
        raise EntryError(f"{name} {text!r} is out of range")
    return value
