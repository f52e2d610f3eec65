"""Queries for the Infinity data source, which asks Fleetmark's `GET /query` with SQL.

SQL in a parameter, and no endpoint per panel: a panel's figure stands whole in the dashboard, anyone
can paste it into an SQL box, and a new panel needs no new code in the API. The API's guard sees the
SQL like any other.

The parser is always `backend`: a query without it is answered in the browser, where alerting,
caching and public dashboards do not reach. Types of columns are read off the tables' contracts by
binding the SQL, so a column that is renamed fails when the dashboard is built.

SQL here may hold three macros, replaced when a dashboard is built:

    $time(column)            the column lies in the dashboard's range
    $filter(variable)        the column of that name is among the variable's values
    $filter(variable, column), $overlap(variable, column)   another column; a list that shares a value
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

import duckdb
from grafana_foundation_sdk.cog import builder, variants

from fleetmark.catalog import load_catalog
from fleetmark.errors import DefinitionError

PLUGIN = "yesoreyeram-infinity-datasource"
DATASOURCE = "${datasource}"

ColumnType = Literal["string", "number", "boolean", "timestamp"]
Format = Literal["table", "timeseries", "dataframe"]

# The plugin's backend puts epoch milliseconds here, in alert rules and shared dashboards, too.
START = "make_timestamp(${__timeFrom} * 1000)"
END = "make_timestamp(${__timeTo} * 1000)"
# What a variable stands for while all of its values are chosen. Listing thousands of jobs would not
# fit an address, and would leave out the rows whose value is unknown.
ALL = "'*'"
_MACRO = re.compile(r"\$(time|filter|overlap)\((\w+)(?:,\s*([\w.]+))?\)")
_VARIABLE = re.compile(r"\$\{(\w+)(?::\w+)?\}")


@dataclass(frozen=True, slots=True)
class Query:
    """SQL with macros, and how Grafana is to read its answer."""

    text: str
    format: Format = "table"

    @property
    def sql(self) -> str:
        """The SQL with the macros replaced; Grafana's variables still stand in it."""
        return _MACRO.sub(_expand, self.text)

    @property
    def columns(self) -> dict[str, ColumnType]:
        """The columns it returns, by name and type.

        Raises DefinitionError for SQL that does not bind, and for columns that Grafana cannot show.
        """
        return _columns(self.sql)

    @property
    def variables(self) -> set[str]:
        """The dashboard's variables that it asks for."""
        return {name for name in _VARIABLE.findall(self.sql) if not name.startswith("__")}

    def model(self, ref: str = "A") -> dict[str, object]:
        """The query as the plugin stores it."""
        return {
            "refId": ref,
            "type": "json",
            "source": "url",
            "parser": "backend",
            "format": self.format,
            "url": "/query",
            "url_options": {
                "method": "GET",
                "params": [{"key": "sql", "value": self.sql}],
                "headers": [{"key": "Accept", "value": "application/json"}],
            },
            "root_selector": "rows",
            "columns": [
                {"selector": name, "text": name, "type": kind}
                for name, kind in self.columns.items()
            ],
            "filters": [],
        }


def _expand(macro: re.Match[str]) -> str:
    kind, name, column = macro.groups()
    if kind == "time":
        return f"{name} >= {START} AND {name} < {END}"
    values = f"${{{name}:sqlstring}}"
    every = f"{ALL} IN ({values})"
    if kind == "overlap":
        return f"({every} OR list_has_any({column}, [{values}]))"
    return f"({every} OR {column or name} IN ({values}))"


@cache
def _tables() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for table in load_catalog().tables.values():
        connection.execute(f"CREATE TABLE {table.name} ({table.ddl()})")
    return connection


@cache
def _columns(sql: str) -> dict[str, ColumnType]:
    bound = _VARIABLE.sub(lambda v: "0" if v[1].startswith("__") else "'x'", sql)
    try:
        described = _tables().execute(f"DESCRIBE {bound}").fetchall()
    except duckdb.Error as error:
        raise DefinitionError(f"a dashboard's query does not bind: {error}\n{sql}") from error
    return {name: _type(name, kind, sql) for name, kind, *_ in described}


def _type(name: str, kind: str, sql: str) -> ColumnType:
    if kind == "VARCHAR":
        return "string"
    if kind == "BOOLEAN":
        return "boolean"
    if kind.startswith("TIMESTAMP"):
        return "timestamp"
    if re.fullmatch(r"U?\w*INT(EGER)?|DOUBLE|FLOAT", kind):
        return "number"
    raise DefinitionError(f"a dashboard cannot show column {name}, a {kind}: cast it\n{sql}")


class _Dataquery(variants.Dataquery):
    """A query that the SDK writes as it is: it has no builder for this plugin."""

    def __init__(self, model: dict[str, object]) -> None:
        self._model = model

    def to_json(self) -> dict[str, object]:
        return self._model


class Target(builder.Builder[_Dataquery]):
    """A panel's target."""

    def __init__(self, query: Query, ref: str = "A") -> None:
        self._query = query
        self._ref = ref

    def build(self) -> _Dataquery:
        return _Dataquery(self._query.model(self._ref))
