"""Result sets as bytes: JSON rows, NDJSON, CSV, Arrow IPC stream.

What the text formats promise:

- Times are ISO 8601 in UTC with `Z`; dates `YYYY-MM-DD`; unknown is null (an empty field in CSV).
- Whole numbers beyond 2^53 - 1, which JavaScript cannot hold, are strings of digits, and so are
  decimals of more than 15 digits. NaN and infinities are the strings NaN, Infinity, -Infinity.
- BLOB is hexadecimal, INTERVAL an ISO 8601 duration, MAP a list of [key, value].

Arrow keeps every type as it is. Text runs at about 0.1 million rows of six columns a
second, Arrow at about 2 million.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Literal, get_args

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from fleetmark.errors import QueryError

Format = Literal["json", "ndjson", "csv", "arrow"]
FORMATS: tuple[Format, ...] = get_args(Format)
MAX_SAFE_INTEGER = 2**53 - 1
_BATCH_ROWS = 4096
# Types that DuckDB hands to Arrow with another value (seen in 1.5.5) or not at all.
_LOSSY = re.compile(r"\b(UHUGEINT|BIT|BIGNUM|VARIANT|UNION|TIME WITH TIME ZONE|TIME_NS|GEOMETRY)\b")
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")


@dataclass(frozen=True, slots=True)
class ResultSet:
    """Rows with their SQL types. `truncated`: there were more rows than asked for."""

    rows: pa.Table
    types: tuple[str, ...]
    truncated: bool

    @property
    def columns(self) -> list[dict[str, str]]:
        return [
            {"name": name, "type": kind}
            for name, kind in zip(self.rows.column_names, self.types, strict=True)
        ]


def fetch(connection: duckdb.DuckDBPyConnection, limit: int, max_bytes: int) -> ResultSet:
    """Take up to `limit` rows of the statement that `connection` has just executed.

    Raises QueryError when they do not fit into `max_bytes` or have a type that no format carries.
    """
    described = [(str(d[0]), str(d[1])) for d in connection.description or ()]
    for name, kind in described:
        if found := _LOSSY.search(_QUOTED.sub("", kind)):
            raise QueryError(f"column {name} has type {found[0]}: cast it, for example to VARCHAR")
    reader = connection.to_arrow_reader(_BATCH_ROWS)
    batches, rows, size = [], 0, 0
    for batch in reader:
        batches.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if size > max_bytes:
            raise QueryError(
                f"the answer is larger than {max_bytes:,} bytes: ask for fewer rows or columns",
                reason="limit",
            )
        if rows > limit:
            break
    table = pa.Table.from_batches(batches, schema=reader.schema)
    names = _distinct([name for name, _ in described])
    kept = table.rename_columns(names).slice(0, limit)
    return ResultSet(kept, tuple(kind for _, kind in described), truncated=rows > limit)


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


def encode(result: ResultSet, form: Format) -> bytes:
    """The rows in `form`. JSON is an array of objects; the envelope is the caller's."""
    try:
        if form == "arrow":
            return _arrow(result)
        if form == "csv":
            return _csv(result)
        lines = (json.dumps(row, ensure_ascii=False, allow_nan=False) for row in records(result))
        if form == "json":
            return ("[" + ",".join(lines) + "]").encode()
        return "".join(f"{line}\n" for line in lines).encode()
    except (ValueError, OverflowError, LookupError, TypeError, pa.ArrowException) as error:
        raise QueryError(
            f"a value cannot be written as {form} ({error}): cast its column to VARCHAR"
        ) from None


def records(result: ResultSet) -> list[dict[str, Any]]:
    """The rows as objects that JSON can hold exactly."""
    names = result.rows.column_names
    columns = [_values(column) for column in result.rows.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _arrow(result: ResultSet) -> bytes:
    table = result.rows.replace_schema_metadata(
        {"fleetmark.truncated": str(result.truncated).lower()}
    )
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _csv(result: ResultSet) -> bytes:
    columns = [
        column if _is_plain(column.type) else pa.array(map(_field, _values(column)), pa.string())
        for column in result.rows.columns
    ]
    sink = io.BytesIO()
    pyarrow.csv.write_csv(pa.table(columns, names=result.rows.column_names), sink)
    return sink.getvalue()


def _field(value: Any) -> str | None:  # noqa: ANN401 - whatever SQL returns
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_floating(kind)
    )


def _values(column: pa.ChunkedArray) -> list[Any]:
    """A column as values for JSON."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return _times(column)
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    values: list[Any] = column.to_pylist()
    narrow = pa.types.is_integer(kind) and kind.bit_width <= 32
    if narrow or pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return values
    return [cell(value) for value in values]


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
