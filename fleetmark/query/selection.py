"""Rows of one table by its contract: filters, time range, order and pages, as SQL with bound values.

A page is cut by the values of its last row (keyset paging), never by counting rows: pages neither overlap
nor skip while rows are added. The order always ends with the grain, so it is total.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from fleetmark.errors import InputError
from fleetmark.table import Column, Table, quote

RESERVED = ("since", "until", "sort", "limit", "after", "columns")
_WHOLE = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "UBIGINT": 64}
_RANGED = (".min", ".below")


@dataclass(frozen=True, slots=True)
class Selection:
    """A SELECT over one table. `keys`: its order, column and whether descending."""

    table: Table
    sql: str
    params: list[Any]
    columns: tuple[str, ...]
    keys: tuple[tuple[str, bool], ...]

    def cursor_after(self, row: Mapping[str, Any]) -> str:
        """Where the page after `row` begins."""
        place = {"order": _order_text(self.keys), "after": [row[name] for name, _ in self.keys]}
        return cursor_of(place)

    def hidden(self) -> tuple[str, ...]:
        """Columns that were read for the cursor alone."""
        return tuple(name for name, _ in self.keys if name not in self.columns)


def cursor_of(place: object) -> str:
    """A place in an order as text for an address."""
    text = json.dumps(place, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def place_of(cursor: str) -> Any:  # noqa: ANN401 - JSON that anybody may have made up
    """The inverse. Raises ValueError for what `cursor_of` cannot have written."""
    try:
        place = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        json.dumps(place, ensure_ascii=False).encode()  # fails for half a surrogate pair
    except RecursionError:
        raise ValueError("the cursor is nested too deeply") from None
    return place


def scalar_columns(table: Table) -> list[Column]:
    """Columns that can be filtered and sorted by: all but lists."""
    return [column for column in table.columns if not column.type.endswith("[]")]


def is_ranged(column: Column) -> bool:
    """Whether it has `.min` and `.below` beside equality."""
    return column.type not in ("VARCHAR", "BOOLEAN")


def select(table: Table, asked: Sequence[tuple[str, str]], *, paged: bool) -> Selection:
    """The selection that the parameters of a request describe, but for `limit`.

    Paged, it is ordered and holds what the next page begins after. Else it is ordered only when that is
    asked for: a sort must hold all rows before the first one leaves.

    `column=value` may be given several times (any of them), `column.min=` and `column.below=` are bounds,
    `since` and `until` cut the table's own time (of intervals, those that overlap), `sort=-a,b` orders,
    `columns=a,b` picks, `after` goes on where a page ended. Raises InputError naming the parameter.
    """
    once = {name: value for name, value in asked if name in RESERVED}
    params: list[Any] = []
    conditions = _filters(table, asked, params)
    conditions += _time_range(table, once, params)
    keys = _keys(table, once.get("sort"))
    if "after" in once:
        conditions.append(_after(table, keys, _place(once["after"], keys), params))
    columns = _columns(table, once.get("columns"))
    read = [*columns, *(n for n, _ in keys if n not in columns)] if paged else columns
    sql = f"SELECT {', '.join(map(quote, read))} FROM {quote(table.name)}"  # noqa: S608 - names of the contract, quoted
    if conditions:
        sql += " WHERE " + " AND ".join(f"({condition})" for condition in conditions)
    if paged or "sort" in once or "after" in once:
        order = (f"{quote(n)} {'DESC' if down else 'ASC'} NULLS LAST" for n, down in keys)
        sql += f" ORDER BY {', '.join(order)}"
    return Selection(table, sql, params, columns, keys)


def _filters(table: Table, asked: Sequence[tuple[str, str]], params: list[Any]) -> list[str]:
    known = {column.name: column for column in scalar_columns(table)}
    equal: dict[str, list[str]] = {}
    conditions = []
    for name, text in asked:
        if name in RESERVED:
            continue
        bare, sign = next(
            ((name.removesuffix(s), s) for s in _RANGED if name.endswith(s)), (name, "")
        )
        column = known.get(bare)
        if column is None or (sign and not is_ranged(column)):
            raise InputError(f"{name}: {table.name} has no such filter; `/openapi.json` lists them")
        place = _bind(column, value_of(column, text, name), params)
        if sign:
            conditions.append(f"{quote(bare)} {'>=' if sign == '.min' else '<'} {place}")
        else:
            equal.setdefault(bare, []).append(place)
    conditions += [f"{quote(name)} IN ({', '.join(places)})" for name, places in equal.items()]
    return conditions


def _time_range(table: Table, once: Mapping[str, str], params: list[Any]) -> list[str]:
    conditions = []
    for name in ("since", "until"):
        if name not in once:
            continue
        if table.time is None:
            raise InputError(f"{name}: {table.name} has no time; filter by its columns")
        column = table.column(table.time)
        place = _bind(column, value_of(column, once[name], name), params)
        if name == "until":
            conditions.append(f"{quote(table.time)} < {place}")
        elif table.end is None:
            conditions.append(f"{quote(table.time)} >= {place}")
        else:
            ended = quote(table.end)
            conditions.append(
                f"{ended} > {place} OR {ended} IS NULL OR {quote(table.time)} >= {place}"
            )
    return conditions


def _keys(table: Table, sort: str | None) -> tuple[tuple[str, bool], ...]:
    known = {column.name for column in scalar_columns(table)}
    keys: dict[str, bool] = {}
    for part in sort.split(",") if sort else [table.time] if table.time else []:
        name, down = part.removeprefix("-"), part.startswith("-")
        if name not in known:
            raise InputError(f"sort: {table.name} cannot be ordered by {name!r}")
        keys.setdefault(name, down)
    for name in table.grain:
        keys.setdefault(name, False)
    return tuple(keys.items())


def _columns(table: Table, text: str | None) -> tuple[str, ...]:
    if text is None:
        return table.column_names
    names = tuple(dict.fromkeys(text.split(",")))
    if unknown := [name for name in names if name not in table.column_names]:
        raise InputError(f"columns: {table.name} has no column {unknown[0]!r}")
    return names


def _after(
    table: Table, keys: Sequence[tuple[str, bool]], place: Sequence[Any], params: list[Any]
) -> str:
    """Rows that come later in the order, in which NULL is last whichever the direction."""
    alternatives, equal = [], ""
    for (name, down), value in zip(keys, place, strict=True):
        if value is None:
            equal += f"{quote(name)} IS NULL AND "
            continue
        column = table.column(name)
        bound = _bind(column, value_of(column, str(value), "after"), params)
        later = f"{quote(name)} {'<' if down else '>'} {bound} OR {quote(name)} IS NULL"
        alternatives.append(f"{equal}({later})")
        equal += f"{quote(name)} = {bound} AND "
    return " OR ".join(alternatives) or "false"


def _place(cursor: str, keys: Sequence[tuple[str, bool]]) -> list[Any]:
    try:
        place = place_of(cursor)
        after, order = list(place["after"]), place["order"]
    except (ValueError, TypeError, KeyError):
        raise InputError("after: take it from `next` of the page before") from None
    if order != _order_text(keys) or len(after) != len(keys):
        raise InputError("after: it belongs to another order; keep `sort` from page to page")
    return after


def _order_text(keys: Sequence[tuple[str, bool]]) -> str:
    return ",".join(("-" if down else "") + name for name, down in keys)


def _bind(column: Column, value: Any, params: list[Any]) -> str:  # noqa: ANN401 - a value of its type
    params.append(value)
    return f"${len(params)}::{column.type}"


def value_of(column: Column, text: str, name: str) -> Any:  # noqa: ANN401 - a value of its type
    """A parameter's text as a value of the column, for JSON. Raises InputError naming `name`."""
    kind = column.type
    try:
        if kind in _WHOLE:
            return _whole(text, kind)
        if kind in ("FLOAT", "DOUBLE"):
            return _number(text)
        if kind == "BOOLEAN":
            return {"true": True, "false": False}[text.lower()]
        if kind == "TIMESTAMP":
            return _moment(text)
        if kind == "DATE":
            return date.fromisoformat(text).isoformat()
    except (ValueError, KeyError, OverflowError, OSError):
        raise InputError(f"{name}: {text[:100]!r} is no {kind} value") from None
    if "\0" in text:
        raise InputError(f"{name}: a text holds no NUL character")
    return text


def _whole(text: str, kind: str) -> int:
    value, bits = int(text), _WHOLE[kind]
    lowest = 0 if kind == "UBIGINT" else -(2**bits)
    if not lowest <= value < 2**bits:
        raise ValueError(text)
    return value


def _number(text: str) -> float | str:
    value = float(text)
    # JSON has no word for these; DuckDB reads them as text.
    return value if math.isfinite(value) else str(value)


def _moment(text: str) -> str:
    """ISO 8601, or epoch milliseconds as dashboards send them; UTC where no zone is given."""
    if text.lstrip("-").isdigit() and len(text) > 8:
        moment = datetime.fromtimestamp(int(text) / 1000, UTC)
    else:
        moment = datetime.fromisoformat(text)
    return (
        (moment if moment.tzinfo is None else moment.astimezone(UTC))
        .replace(tzinfo=None)
        .isoformat()
    )
