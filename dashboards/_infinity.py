"""Queries for the Infinity data source, which asks Fleetmark's `GET /query` with SQL.

SQL in a parameter, and no endpoint per panel: a panel's figure stands whole in the dashboard, anyone
can paste it into an SQL box, and a new panel needs no new code in the API. The API's guard sees the
SQL like any other; ranges of time are put in by the plugin's backend (`${__timeFrom}` is epoch
milliseconds there, in alert rules and shared dashboards, too).

The parser is always `backend`: a query without it is answered in the browser, where alerting,
caching and public dashboards do not reach. Types of columns are stated, never guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from grafana_foundation_sdk.cog import builder, variants

from fleetmark.catalog import load_catalog

PLUGIN = "yesoreyeram-infinity-datasource"
DATASOURCE = "${datasource}"

ColumnType = Literal["string", "number", "boolean", "timestamp"]
Format = Literal["table", "timeseries"]

START = "make_timestamp(${__timeFrom} * 1000)"
END = "make_timestamp(${__timeTo} * 1000)"
CLUSTERS = "cluster IN (${cluster:sqlstring})"


@dataclass(frozen=True, slots=True)
class Query:
    """SQL and the columns it returns, by name and type as Grafana is to read them."""

    sql: str
    columns: Mapping[str, ColumnType]
    format: Format = "table"

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


class _Dataquery(variants.Dataquery):
    """A query that the SDK writes as it is: it has no builder for this plugin."""

    def __init__(self, model: dict[str, object]) -> None:
        self._model = model

    def to_json(self) -> dict[str, object]:
        return self._model


class Target(builder.Builder[_Dataquery]):
    """A panel's target."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def build(self) -> _Dataquery:
        return _Dataquery(self._query.model())


def definition(table: str, *columns: str, note: str = "") -> str:
    """A panel's description: what the table and its columns hold, in the contract's words."""
    contract = load_catalog().tables[table]
    parts = [f"**{table}**: {_line(contract.doc)}"]
    parts += [f"**{name}**: {_line(contract.column(name).doc)}" for name in columns]
    return "\n\n".join([*parts, note] if note else parts)


def _line(text: str) -> str:
    return " ".join(text.split())
