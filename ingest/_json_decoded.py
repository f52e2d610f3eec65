"""Records of JSON logs decoded by msgspec: well-formed lines that mean the same to every reader.

Imported when the first such log is read. What readers disagree about (repeated names, NaN, numbers
beyond a double, trailing commas, damage, nesting past Python's stack) is left to DuckDB.
Python per record, because one decoding then serves markers, envelopes and all fields. Rows a CPU
second, in turn with DuckDB's functions on the same text (medians of 5): 60 fields of records of 1.6 kB in one
document 29,000 against 8,100, a line each 36,000 against 20,000; 40 fields of 0.9 kB, a line each,
58,000 against 44,000.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, repeat
from types import NoneType
from typing import Any

import msgspec
import polars as pl

# Objects take up to 24 times their text ({} in an array): a longer document is DuckDB's.
_LONGEST = 16 << 20
_DEEPEST = 3
_BATCH = 4096
# Within these, all writers of doubles agree on the text; outside, on the exponent they do not.
_LEAST, _MOST = 1e-4, 1e15
_STEP = re.compile(r'\."([^"]+)"|\.([^.\["]+)|\[(\d+)\]')
# msgspec writes control characters as \u001b, DuckDB as \u001B.
_CONTROL = re.compile(r"(?<!\\)(?:\\\\)*\\u00[01][a-f]")

# One for all: thousands of new ones would each time wake the garbage collector.
_EMPTY: dict[str, Any] = {}
# Under a path and this: what lies there, with `_EMPTY` for all that is no object.
_OBJECTS = -1

Step = str | int
Found = tuple[int, int, str, bool, Any]


class _DoubtfulError(Exception):
    """JSON that readers understand in several ways, or that this one does not open."""


# ValueError: integers of more than 4,300 digits, and text that is no UTF-8.
_LEFT = (_DoubtfulError, msgspec.MsgspecError, RecursionError, ValueError)


def decoded(
    lines: pl.DataFrame,
    marker: tuple[str, ...],
    fields: Mapping[str, str],
    envelopes: tuple[str, ...],
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows (line_no, record, text, is_record, is_object, the fields), and the lines left over.

    marker, fields and envelopes are those of a `Form`. A line gives all of its records or is left.
    """
    opener = _Opener(marker, envelopes)
    cutter = _Cutter(fields)
    left: list[int] = []
    records = _records(lines, opener, left)
    parts = [cutter.frame([])]
    while batch := list(islice(records, _BATCH)):
        parts.append(cutter.frame(batch))
    return pl.concat(parts), lines[left]


def _records(lines: pl.DataFrame, opener: _Opener, left: list[int]) -> Iterator[Found]:
    """Each line's records; the indices of lines that are not read here go to `left`."""
    for index, (line_no, text) in enumerate(lines.select("line_no", "text").iter_rows()):
        try:
            found = list(opener.opened(text))
        except _LEFT:
            left.append(index)
            continue
        for number, (own, is_record, value) in enumerate(found, 1):
            yield line_no, number, own, is_record, value


def _float(text: str) -> float:
    """Raises _DoubtfulError for a number whose text depends on who writes it."""
    number = float(text)
    if number and not _LEAST <= abs(number) < _MOST:
        raise _DoubtfulError
    return number


_DECODER = msgspec.json.Decoder(float_hook=_float)


def _written(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return _CONTROL.sub(lambda m: m[0][:-1] + m[0][-1].upper(), text) if r"\u00" in text else text


def _read(text: str) -> Any:  # noqa: ANN401 - JSON
    """Raises _DoubtfulError if a name is repeated in an object.

    A dict keeps one of them, so that fewer quotes are written than were read. Nothing makes up for
    that: each string has one quote at its start, and at its end one unless a backslash ends it,
    which is written with a backslash before the quote however it was spelled.
    """
    given = text.encode()
    value = _DECODER.decode(given)
    written = msgspec.json.encode(value)
    if given != written and _quotes(given) != _quotes(written):
        raise _DoubtfulError
    return value


def _quotes(text: bytes) -> int:
    """Quotes without a backslash before them."""
    escaped = text.count(b'\\"') if b"\\" in text else 0
    return text.count(b'"') - escaped


def _steps(path: str) -> tuple[Step, ...]:
    """`$.a."b-c"[0]` as its steps."""
    return tuple(int(n) if n else quoted or bare for quoted, bare, n in _STEP.findall(path))


def _at(value: Any, steps: tuple[Step, ...]) -> Any:  # noqa: ANN401 - JSON
    """What lies there; None if nothing or null does."""
    for step in steps:
        if isinstance(step, str):
            value = value.get(step) if isinstance(value, dict) else None
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else None
    return value


class _Opener:
    """Opens arrays and envelopes until a record stands free."""

    def __init__(self, marker: tuple[str, ...], envelopes: tuple[str, ...]) -> None:
        self.marker = [_steps(path) for path in marker]
        self.envelopes = [_steps(path) for path in envelopes]

    def opened(self, text: str) -> Iterator[tuple[str, bool, Any]]:
        """Text, whether it is a record, and value of each object in a line.

        Raises one of `_LEFT` where DuckDB has to look.
        """
        if len(text) > _LONGEST:
            raise _DoubtfulError
        # A line in an array over lines.
        own = text[:-1] if text.endswith("},") and text.startswith("{") else text
        return self._inside(own, _read(own), 0)

    def _inside(self, text: str | None, value: Any, depth: int) -> Iterator[tuple[str, bool, Any]]:  # noqa: ANN401 - JSON
        if isinstance(value, list) and depth < _DEEPEST:
            for item in value:
                if not isinstance(item, dict):
                    raise _DoubtfulError
                yield from self._inside(None, item, depth + 1)
            return
        if not isinstance(value, dict) or depth > _DEEPEST:
            raise _DoubtfulError
        is_record = any(_at(value, steps) is not None for steps in self.marker)
        envelope = None if is_record else self._envelope(value)
        if envelope is None:
            yield _written(value) if text is None else text, is_record, value
        elif isinstance(envelope, str):
            yield from self._inside(envelope, _read(envelope), depth + 1)
        else:
            is_list = isinstance(envelope, list)
            yield from self._inside(None, envelope, depth if is_list else depth + 1)

    def _envelope(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """What the first envelope that is there holds. Raises _DoubtfulError if that is null."""
        for *above, name in self.envelopes:
            outer = _at(value, tuple(above))
            if isinstance(outer, dict) and name in outer:
                if outer[name] is None:
                    raise _DoubtfulError
                return outer[name]
        return None


class _Cutter:
    """Takes the fields of records out, a field of all records at a time."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self.paths = {name: _steps(path) for name, path in fields.items()}

    def frame(self, batch: list[Found]) -> pl.DataFrame:
        """The rows of a batch of records."""
        line_no, record, text, is_record, values = zip(*batch, strict=True) if batch else [()] * 5
        at: dict[tuple[Step, ...], Sequence[Any]] = {(): values}
        fields = {name: _texts(_column(at, path)) for name, path in self.paths.items()}
        return pl.DataFrame(
            {
                "line_no": pl.Series(line_no, dtype=pl.Int64),
                "record": pl.Series(record, dtype=pl.Int64),
                "text": pl.Series(text, dtype=pl.String),
                "is_record": pl.Series(is_record, dtype=pl.Boolean),
                "is_object": pl.Series([True], dtype=pl.Boolean).new_from_index(0, len(batch)),
                **{name: pl.Series(column, dtype=pl.String) for name, column in fields.items()},
            }
        )


def _column(at: dict[tuple[Step, ...], Sequence[Any]], path: tuple[Step, ...]) -> list[Any]:
    """What lies at `path` in each record. `at` keeps what lies at the paths above it."""
    *above, leaf = path
    outer = tuple(above)
    if outer not in at:
        at[outer] = _column(at, outer)
    if isinstance(leaf, int):
        return [_at(value, (leaf,)) for value in at[outer]]
    key = (*outer, _OBJECTS)
    if key not in at:
        at[key] = [v if type(v) is dict else _EMPTY for v in at[outer]]
    return list(map(dict.get, at[key], repeat(leaf)))


def _texts(column: list[Any]) -> list[str | None]:
    """Values as text: strings without their quotes, all else as JSON."""
    if set(map(type, column)) <= {str, NoneType}:
        return column
    return [x if x is None or isinstance(x, str) else _written(x) for x in column]
