"""`/query`: read-only SQL over the tables, run by a confined worker."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from fleetmark.errors import QueryError
from fleetmark.query.answer import Format
from fleetmark.query.guard import MAX_SQL_CHARS
from fleetmark.query.pool import Answer, Pool
from fleetmark.query.snapshot import Snapshot

from .admission import note, principal_of
from .lake import Lake
from .problems import Problem, query_problem

router = APIRouter(tags=["query"])

# JSON is for pages and dashboards; the others carry whole tables.
DEFAULT_ROWS = {"json": 10_000, "ndjson": 1_000_000, "csv": 1_000_000, "arrow": 1_000_000}
MAX_ROWS = 1_000_000
MEDIA_TYPES: dict[str, Format] = {
    "application/json": "json",
    "application/vnd.apache.arrow.stream": "arrow",
    "text/csv": "csv",
    "application/x-ndjson": "ndjson",
}
_ANY = {"*/*": "application/json", "application/*": "application/json", "text/*": "text/csv"}
_DESCRIPTION = f"""
One SELECT over the tables of `/tables`, in DuckDB's dialect; `DESCRIBE table` works, too.

The `Accept` header picks the format: `application/json` (default; rows as objects with a typed
column list), `application/vnd.apache.arrow.stream`, `text/csv` or `application/x-ndjson`. An answer
holds up to {DEFAULT_ROWS["json"]:,} rows in JSON and {MAX_ROWS:,} in the others, or `limit`, and
64 MiB. Whether rows were left out is said in `truncated` and in the header `Fleetmark-Truncated`.

Times are ISO 8601 in UTC. In the text formats whole numbers beyond ±(2^53 - 1), which JavaScript
would round, and decimals of more than 15 digits are strings of digits; Arrow keeps every type.
"""
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {media: {} for media in MEDIA_TYPES}, "description": "the rows"},
    **{
        status: {"description": text, "content": {"application/problem+json": {}}}
        for status, text in {
            400: "the SQL cannot be run; `position`, `line` and `column` say where",
            403: "the SQL asks for what is not offered",
            422: "over a limit of time, memory or size, or a malformed request",
            503: "all workers busy, or the store cannot be read",
        }.items()
    },
}


class SqlRequest(BaseModel):
    """A statement with values for its `$1` or `$name` parameters."""

    sql: str = Field(max_length=MAX_SQL_CHARS)
    params: list[Any] | dict[str, Any] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] | None = None


@router.post("/query", description=_DESCRIPTION, responses=_RESPONSES, response_class=Response)
def post_query(request: Request, body: SqlRequest) -> Response:
    """SQL with parameters in the body."""
    return _run(request, body)


@router.get("/query", description=_DESCRIPTION, responses=_RESPONSES, response_class=Response)
def get_query(
    request: Request,
    sql: Annotated[str, Query(max_length=MAX_SQL_CHARS)],
    limit: Annotated[int | None, Query(ge=1, le=MAX_ROWS)] = None,
) -> Response:
    """SQL in the address: for dashboards and links."""
    return _run(request, SqlRequest(sql=sql, limit=limit))


def _run(request: Request, asked: SqlRequest) -> Response:
    pool: Pool = request.app.state.pool
    lake: Lake = request.app.state.lake
    media = accepted(request.headers.get("accept", "*/*"))
    form = MEDIA_TYPES[media]
    principal = principal_of(request)
    note(request, sql=asked.sql)
    if not principal.may_ask_sql:
        raise Problem(403, "No SQL for this role", "SQL needs the role planner, security or admin")
    snapshot = lake.seen_by(principal)
    started = time.monotonic()
    try:
        answer = pool.query(
            asked.sql,
            snapshot,
            params=asked.params,
            limit=asked.limit or DEFAULT_ROWS[form],
            form=form,
        )
    except QueryError as error:
        return query_problem(error, asked.sql)
    note(request, row_count=answer.row_count)
    elapsed_ms = round((time.monotonic() - started) * 1000, 1)
    content = _envelope(answer, snapshot, elapsed_ms) if form == "json" else answer.body
    headers = {
        "Fleetmark-Row-Count": str(answer.row_count),
        "Fleetmark-Truncated": str(answer.truncated).lower(),
        "Fleetmark-Snapshot": str(snapshot.id),
        "Vary": "Accept",
        "Cache-Control": "no-store",
    }
    return Response(content, headers=headers, media_type=media)


def _envelope(answer: Answer, snapshot: Snapshot, elapsed_ms: float) -> bytes:
    head = json.dumps(
        {
            "columns": answer.columns,
            "row_count": answer.row_count,
            "truncated": answer.truncated,
            "snapshot": snapshot.id,
            "elapsed_ms": elapsed_ms,
        }
    )
    return head[:-1].encode() + b', "rows": ' + answer.body + b"}"


def accepted(header: str) -> str:
    """The offered media type that an Accept header prefers. Raises Problem 406 when there is none."""
    ranked: list[tuple[float, str]] = []
    for item in header.split(","):
        media, *parts = (part.strip().lower() for part in item.split(";"))
        weights = [part[2:] for part in parts if part.startswith("q=")]
        try:
            weight = float(weights[0]) if weights else 1.0
        except ValueError:
            weight = 0.0
        ranked.append((weight, _ANY.get(media, media)))
    # sorted() keeps the client's order among equals
    for weight, media in sorted(ranked, key=lambda pair: -pair[0]):
        if weight > 0 and media in MEDIA_TYPES:
            return media
    raise Problem(406, "No such format", f"answers come as {', '.join(MEDIA_TYPES)}")
