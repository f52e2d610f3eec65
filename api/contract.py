"""The OpenAPI description: the routes as FastAPI knows them, and one path per table with its contract.

One route serves the rows of every table. A description that says so once would tell nobody which filters
there are, of which type and unit; a route per table would cost a second at every start.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from fleetmark.catalog import Catalog
from fleetmark.query.selection import is_ranged, scalar_columns
from fleetmark.table import Column, Table

from .media import MEDIA_TYPES
from .rows import MAX_ROWS, PAGE_ROWS

_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UBIGINT")
_ERRORS = {
    "400": "the request cannot be read",
    "401": "the caller is unknown",
    "404": "there is no such table for this caller",
    "406": "no such format",
    "405": "the route takes another method",
    "413": "the request is too large",
    "422": "a parameter is malformed, or the answer is over a limit",
    "429": "too many requests",
    "503": "all workers busy, or the store cannot be read",
}
_UNCHANGED = "the answer that `If-None-Match` names still holds"
_SECURITY = {
    "key": {"type": "http", "scheme": "bearer", "description": "an API key or an OIDC token"},
    "password": {"type": "http", "scheme": "basic", "description": "an API key as password"},
}


def install(app: FastAPI, catalog: Catalog) -> None:
    """Make `/openapi.json` describe the tables of `catalog`, too."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = get_openapi(
                title=app.title, version=app.version, summary=app.summary, routes=app.routes
            )
            for table in catalog.tables.values():
                schema["paths"][f"/tables/{table.name}/rows"] = {"get": _operation(table)}
            for operations in schema["paths"].values():
                for operation in operations.values():
                    operation["responses"] = _every_answer(operation["responses"])
            schema["components"]["securitySchemes"] = _SECURITY
            schema["security"] = [{}, *({name: []} for name in _SECURITY)]
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]  # as FastAPI's documentation says to


def _operation(table: Table) -> dict[str, Any]:
    row = {
        "type": "object",
        "properties": {column.name: _described(table, column) for column in table.columns},
    }
    page = {
        "type": "object",
        "required": ["table", "snapshot", "columns", "row_count", "next", "rows"],
        "properties": {
            "table": {"const": table.name},
            "snapshot": {"type": "integer"},
            "elapsed_ms": {"type": "number"},
            "columns": {"type": "array", "items": {"$ref": "#/components/schemas/Column"}},
            "row_count": {"type": "integer"},
            "next": {"type": ["string", "null"], "description": "`after` of the next page"},
            "rows": {"type": "array", "items": row},
        },
    }
    whole: dict[str, Any] = {media: {} for media in MEDIA_TYPES}
    whole["application/json"] = {"schema": page}
    return {
        "tags": ["rows"],
        "summary": f"Rows of {table.name}",
        "description": table.doc,
        "operationId": f"rows_{table.name}",
        "parameters": [*_shared(table), *_filters(table)],
        "responses": {
            "200": {"description": "the rows", "content": whole},
        },
    }


def _every_answer(responses: dict[str, Any]) -> dict[str, Any]:
    """The answers of a route, with those that any route may give; all errors are problem documents."""
    errors = {
        status: {
            "description": responses.get(status, {}).get("description", text),
            "content": {"application/problem+json": {}},
        }
        for status, text in _ERRORS.items()
    }
    return {**responses, "304": {"description": _UNCHANGED}, **errors}


def _shared(table: Table) -> list[dict[str, Any]]:
    moment = {"type": "string", "format": "date-time"}
    limit = {"type": "integer", "minimum": 1, "maximum": MAX_ROWS}
    sort = ",".join(f"-{name}" for name in table.grain[:1])
    found = [
        _parameter("limit", limit, f"rows; of JSON a page, {PAGE_ROWS:,} and at most 10,000"),
        _parameter("sort", {"type": "string", "examples": [sort]}, "columns; `-` for descending"),
        _parameter("columns", {"type": "string"}, "only these, separated by commas"),
        _parameter("after", {"type": "string"}, "`next` of the page before"),
    ]
    if table.time:
        since = f"{table.time} from then on (UTC)"
        if table.end:
            since = f"intervals that end after that (UTC): {table.end}"
        found += [_parameter("since", moment, since),
                  _parameter("until", moment, f"{table.time} before that (UTC)")]  # fmt: skip
    return found


def _filters(table: Table) -> list[dict[str, Any]]:
    found = []
    for column in scalar_columns(table):
        kind = _json_type(column)
        several = {"type": "array", "items": kind}
        found.append(_parameter(column.name, several, f"any of these. {column.doc}", column))
        if is_ranged(column):
            found += [
                _parameter(f"{column.name}.min", kind, "at least", column),
                _parameter(f"{column.name}.below", kind, "less than", column),
            ]
    return found


def _parameter(
    name: str, schema: dict[str, Any], text: str, column: Column | None = None
) -> dict[str, Any]:
    unit = column.unit if column is not None else None
    return {
        "name": name,
        "in": "query",
        "required": False,
        "schema": schema,
        "description": f"{text} [{unit}]" if unit else text,
        **({"x-unit": unit} if unit else {}),
    }


def _described(table: Table, column: Column) -> dict[str, Any]:
    kind = _json_type(column, exact=True)
    if column.name not in table.required():
        kind = {"anyOf": [kind, {"type": "null"}]}
    found = {**kind, "description": column.doc}
    if column.unit:
        found["x-unit"] = column.unit
    return found


def _json_type(column: Column, *, exact: bool = False) -> dict[str, Any]:
    """The JSON type of a column's values. `exact`: as answers hold them, large numbers as text."""
    kind = column.type.removesuffix("[]")
    if column.type.endswith("[]"):
        inner = {"anyOf": [_scalar(kind, exact=exact), {"type": "null"}]}
        return {"type": "array", "items": inner}
    return _scalar(kind, exact=exact)


def _scalar(kind: str, *, exact: bool) -> dict[str, Any]:
    if kind in _WHOLE:
        return {"type": ["integer", "string"]} if exact else {"type": "integer"}
    if kind in ("FLOAT", "DOUBLE"):
        return {"type": ["number", "string"]} if exact else {"type": "number"}
    if kind == "BOOLEAN":
        return {"type": "boolean"}
    if kind == "TIMESTAMP":
        return {"type": "string"} if exact else {"type": "string", "format": "date-time"}
    if kind == "DATE":
        return {"type": "string", "format": "date"}
    return {"type": "string"}
