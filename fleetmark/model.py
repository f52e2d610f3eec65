"""Models: tables in, one table out. SQL with a TOML header, or a Polars function.

A model is pure: it neither reads files nor the clock and never filters by time. The runner shows it
its inputs cut to `[start - lookback, end)` and publishes the rows whose time lies in `[start, end)`.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import duckdb
import polars as pl

from fleetmark.errors import DefinitionError
from fleetmark.table import Column, Table

Window = Literal["day", "month", "all"]
Params = Mapping[str, float | int | str | bool]
HEADER_KEYS = {
    "doc", "grain", "columns", "time", "end", "observed", "period", "partition", "sort", "lookback", "window", "params",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Param:
    """A threshold with its default; the doc names the unit and where the value comes from.

    most   the largest value that the model's lookback allows; None where any does
    """

    default: float | int | str | bool
    doc: str
    most: float | int | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """One table computed from others.

    compute   (connection, params) -> relation of exactly the output's columns; the connection
              shows each input as a view of that name
    window    the unit of recomputation; "all" for outputs without time
    lookback  how much earlier input a window needs
    version   hash of the definition: a changed model is rebuilt from the start
    """

    name: str
    inputs: tuple[str, ...]
    output: Table
    compute: Callable[[duckdb.DuckDBPyConnection, Params], duckdb.DuckDBPyRelation]
    window: Window
    lookback: timedelta
    params: Mapping[str, Param]
    version: str
    path: Path | None = None


def split_header(path: Path) -> tuple[dict[str, Any], str]:
    """The TOML header in the leading /* */ of an SQL file, and the whole text (it runs as it is)."""
    text = path.read_text(encoding="utf-8")
    if not text.startswith("/*") or "*/" not in text:
        raise DefinitionError(f"{path}: starts without a /* TOML header */")
    head = text[2 : text.index("*/")]
    try:
        return {k: _unwrapped(v) for k, v in tomllib.loads(head).items()}, text
    except tomllib.TOMLDecodeError as error:
        raise DefinitionError(f"{path}: the header is not TOML: {error}") from None


def _unwrapped(value: Any) -> Any:  # noqa: ANN401 - any TOML value
    """Text without the line ends it was written with; paragraphs and lists stay."""
    return re.sub(r"(?<=\S)\n(?=[^\s*|-])", " ", value).strip() if isinstance(value, str) else value


def columns_of(header: Mapping[str, Any], path: Path) -> tuple[Column, ...]:
    """The contract's columns from the header's [columns]."""
    try:
        return tuple(Column(name, **spec) for name, spec in header["columns"].items())
    except (KeyError, TypeError) as error:
        raise DefinitionError(f"{path}: [columns] needs type and doc for each: {error}") from None


def params_of(header: Mapping[str, Any], path: Path) -> dict[str, Param]:
    """The thresholds from the header's [params]."""
    try:
        return {
            name: Param(spec["default"], spec["doc"], spec.get("most"))
            for name, spec in header.get("params", {}).items()
        }
    except (KeyError, TypeError):
        raise DefinitionError(f"{path}: every parameter needs default and doc") from None


def duration(text: str, path: Path) -> timedelta:
    """`30d`, `12h`, `15m` or `0d` as a timedelta."""
    units = {"d": "days", "h": "hours", "m": "minutes"}
    if text[-1:] not in units or not text[:-1].isdigit():
        raise DefinitionError(f"{path}: lookback {text!r} is not a number followed by d, h or m")
    return timedelta(**{units[text[-1]]: int(text[:-1])})


def tables_in(sql: str, where: str, parser: duckdb.DuckDBPyConnection) -> tuple[str, ...]:
    """The base tables an SQL text reads, found by DuckDB's own parser. CTE names are left out.

    parser   any connection: opening one costs 15 ms, parsing a hundredth of that
    """
    row = parser.execute("SELECT json_serialize_sql($1)", [sql]).fetchone()
    tree = json.loads(row[0]) if row else {"error": True, "error_message": "empty"}
    if tree["error"]:
        raise DefinitionError(f"{where}: {tree['error_message']}")
    tables: set[str] = set()
    ctes: set[str] = set()
    walk = [tree]
    while walk:
        node = walk.pop()
        if isinstance(node, dict):
            if node.get("type") == "BASE_TABLE":
                tables.add(node["table_name"])
            if "cte_map" in node:
                ctes |= {entry["key"] for entry in node["cte_map"].get("map", [])}
            walk.extend(node.values())
        elif isinstance(node, list):
            walk.extend(node)
    return tuple(sorted(tables - ctes))


def sql_compute(
    text: str,
) -> Callable[[duckdb.DuckDBPyConnection, Params], duckdb.DuckDBPyRelation]:
    """A compute function that sets the parameters as variables and runs the text as it is."""

    def compute(connection: duckdb.DuckDBPyConnection, params: Params) -> duckdb.DuckDBPyRelation:
        for name, value in params.items():
            connection.execute(f'SET VARIABLE "{name}" = $1', [value])
        return connection.sql(text)

    return compute


def sql_model(path: Path, parser: duckdb.DuckDBPyConnection) -> Model:
    """Read a model from an SQL file. Its name, and its table's, is the file's."""
    header, text = split_header(path)
    if unknown := set(header) - HEADER_KEYS:
        raise DefinitionError(f"{path}: unknown header keys {', '.join(sorted(unknown))}")
    output = Table(
        name=path.stem,
        doc=header.get("doc", ""),
        grain=tuple(header.get("grain", ())),
        columns=columns_of(header, path),
        time=header.get("time"),
        end=header.get("end"),
        observed=header.get("observed"),
        partition=tuple(header.get("partition", ())),
        period=header.get("period", "day"),
        sort=tuple(header.get("sort", ())),
    )
    return Model(
        name=path.stem,
        inputs=tables_in(text, str(path), parser),
        output=output,
        compute=sql_compute(text),
        window=header.get("window", "day" if output.time else "all"),
        lookback=duration(header.get("lookback", "0d"), path),
        params=params_of(header, path),
        version=hashlib.sha256(text.encode()).hexdigest()[:16],
        path=path,
    )


def model(
    *,
    output: Table,
    lookback: timedelta = timedelta(0),
    window: Window | None = None,
    params: Mapping[str, Param] | None = None,
) -> Callable[[Callable[..., pl.LazyFrame]], Model]:
    """Make a model of a Polars function: positional parameters name its inputs, keyword-only ones
    its thresholds (each declared in `params`). It takes and returns lazy frames.
    """
    declared = params or {}

    def define(function: Callable[..., pl.LazyFrame]) -> Model:
        signature = inspect.signature(function)
        kinds = inspect.Parameter
        inputs = tuple(
            p.name for p in signature.parameters.values() if p.kind is not kinds.KEYWORD_ONLY
        )
        keywords = {p.name for p in signature.parameters.values() if p.kind is kinds.KEYWORD_ONLY}
        if keywords != set(declared):
            raise DefinitionError(f"model {output.name}: thresholds and params differ")

        def compute(
            connection: duckdb.DuckDBPyConnection, values: Params
        ) -> duckdb.DuckDBPyRelation:
            frames = [connection.table(name).pl().lazy() for name in inputs]
            result = function(*frames, **values).collect()
            return connection.from_arrow(result.to_arrow())

        source_text = inspect.getsource(inspect.getmodule(function) or function)
        return Model(
            name=output.name,
            inputs=inputs,
            output=output,
            compute=compute,
            window=window or ("day" if output.time else "all"),
            lookback=lookback,
            params=declared,
            version=hashlib.sha256(source_text.encode()).hexdigest()[:16],
        )

    return define
