"""Result sets: read in batches, bounded, and their values as text formats hold them.

What the text formats promise:

- Times are ISO 8601 in UTC with `Z`; dates `YYYY-MM-DD`; unknown is null (an empty field in CSV).
- Whole numbers beyond 2^53 - 1, which JavaScript cannot hold, are strings of digits, and so are
  decimals of more than 15 digits. NaN and infinities are the strings NaN, Infinity, -Infinity.
- BLOB is hexadecimal, INTERVAL an ISO 8601 duration, MAP a list of [key, value].

Arrow and Parquet keep every type as it is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from fleetmark.errors import QueryError

MAX_SAFE_INTEGER = 2**53 - 1
_BATCH_ROWS = 4096
# Types that DuckDB hands to Arrow with another value (seen in 1.5.5) or not at all.
_LOSSY = re.compile(r"\b(UHUGEINT|BIT|BIGNUM|VARIANT|UNION|TIME WITH TIME ZONE|TIME_NS|GEOMETRY)\b")
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")


class Reader:
    """The rows of the statement that a connection has just executed, batch by batch, up to `limit`.

    `truncated` and `row_count` hold once all batches were read. Raises QueryError when they do not fit
    into `max_bytes`, or for a column whose type no format carries.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, limit: int, max_bytes: int | None
    ) -> None:
        described = [(str(d[0]), str(d[1])) for d in connection.description or ()]
        for name, kind in described:
            if found := _LOSSY.search(_QUOTED.sub("", kind)):
                raise QueryError(
                    f"column {name} has type {found[0]}: cast it, for example to VARCHAR"
                )
        try:
            self._batches = connection.to_arrow_reader(_BATCH_ROWS)
        except pa.ArrowInvalid as error:
            raise QueryError(f"a column's type is nested too deeply ({error})") from None
        self._limit = limit
        self._max_bytes = max_bytes
        self._names = _distinct([name for name, _ in described])
        self._types = [kind for _, kind in described]
        self.schema = pa.Table.from_batches([], schema=self._batches.schema)
        self.schema = self.schema.rename_columns(self._names).schema
        self.row_count = 0
        self.truncated = False

    @property
    def columns(self) -> list[dict[str, str]]:
        """Name and SQL type of each column."""
        return [
            {"name": name, "type": kind}
            for name, kind in zip(self._names, self._types, strict=True)
        ]

    def __iter__(self) -> Iterator[pa.Table]:
        size = 0
        for batch in self._arrived():
            size += batch.nbytes
            if self._max_bytes is not None and size > self._max_bytes:
                raise QueryError(
                    f"the answer is larger than {self._max_bytes:,} bytes: ask for fewer rows or "
                    "columns",
                    reason="limit",
                )
            left = self._limit - self.row_count
            self.truncated = batch.num_rows > left
            self.row_count += min(batch.num_rows, left)
            yield pa.Table.from_batches([batch]).rename_columns(self._names).slice(0, left)
            if self.truncated:
                return

    def _arrived(self) -> Iterator[pa.RecordBatch]:
        """Arrow tells of an error that DuckDB meets on the way as one of input and output."""
        try:
            yield from self._batches
        except OSError as error:
            raise duckdb.Error(str(error)) from None


def _distinct(names: list[str]) -> list[str]:
    """Column names made unique, since a JSON object holds each once: a, a_1, ..."""
    seen: set[str] = set()
    result = []
    for name in names:
        number, unique = 0, name
        while unique in seen:
            number += 1
            unique = f"{name}_{number}"
        seen.add(unique)
        result.append(unique)
    return result


def records(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows as objects that JSON can hold exactly."""
    columns = [values(column) for column in rows.columns]
    return [dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def is_plain(kind: pa.DataType) -> bool:
    """Whether CSV writes the type as it is."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_floating(kind)
    )


def values(column: pa.ChunkedArray) -> list[Any]:
    """A column as values for JSON."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return _times(column)
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    listed: list[Any] = column.to_pylist()
    narrow = pa.types.is_integer(kind) and kind.bit_width <= 32
    if narrow or pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return listed
    return [cell(value) for value in listed]


def _times(column: pa.ChunkedArray) -> list[str | None]:
    """Timestamps and dates as text. Not by way of Python's, which end with the year 9999."""
    if pa.types.is_date32(column.type):
        text, number = pc.cast(column, pa.string()), column.cast(pa.int32())
        largest = 2**31 - 1
    else:
        utc = column.cast(pa.timestamp(column.type.unit))
        text = pc.replace_substring_regex(
            pc.strftime(utc, format="%Y-%m-%dT%H:%M:%SZ"), r"\.0+Z$", "Z"
        )
        number, largest = utc.cast(pa.int64()), 2**63 - 1
    text = pc.if_else(pc.equal(number, largest), "infinity", text)
    listed: list[str | None] = pc.if_else(pc.equal(number, -largest), "-infinity", text).to_pylist()
    return listed


def cell(value: Any) -> Any:  # noqa: ANN401 - whatever SQL returns
    """One value for JSON, by the rules above."""
    if value is None or isinstance(value, bool | str):
        return value
    convert = _CELLS.get(type(value))
    return str(value) if convert is None else convert(value)


def _integer(value: int) -> int | str:
    return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> int | float | str:
    if value == value.to_integral_value():
        return _integer(int(value))
    return float(value) if len(value.as_tuple().digits) <= 15 else format(value, "f")


def _moment(value: datetime) -> str:
    return value.replace(tzinfo=None).isoformat() + "Z"


def _interval(value: pa.MonthDayNano) -> str:
    seconds = f"{value.nanoseconds / 1e9:.9f}".rstrip("0").rstrip(".")
    return f"P{value.months}M{value.days}DT{seconds}S"


_CELLS: dict[type, Callable[[Any], Any]] = {
    int: _integer,
    float: _float,
    Decimal: _decimal,
    datetime: _moment,
    date: date.isoformat,
    time: time.isoformat,
    timedelta: str,
    bytes: bytes.hex,
    list: lambda value: [cell(item) for item in value],
    tuple: lambda value: [cell(item) for item in value],
    dict: lambda value: {str(key): cell(item) for key, item in value.items()},
    pa.MonthDayNano: _interval,
}
