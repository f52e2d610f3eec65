"""`/query`: read-only SQL over the tables, run by a confined worker."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from fleetmark.query.guard import MAX_SQL_CHARS
from fleetmark.query.process import Answer
from fleetmark.query.snapshot import Snapshot

from .admission import note, principal_of
from .answers import Question, answer
from .lake import Lake
from .media import MEDIA_TYPES, accepted
from .problems import Problem

router = APIRouter(tags=["query"])

# JSON is for pages and dashboards; the others carry whole tables.
DEFAULT_ROWS = {"json": 10_000, "ndjson": 1_000_000, "csv": 1_000_000, "arrow": 1_000_000,
                "parquet": 1_000_000}  # fmt: skip
MAX_ROWS = 100_000_000
_NOTED_CHARS = 10_000
_DESCRIPTION = f"""
One SELECT over the tables of `/tables`, in DuckDB's dialect; `DESCRIBE table` works, too.

The `Accept` header picks the format: `application/json` (default; rows as objects with a typed
column list), `application/vnd.apache.arrow.stream`, `application/vnd.apache.parquet`, `text/csv` or
`application/x-ndjson`. An answer holds up to {DEFAULT_ROWS["json"]:,} rows in JSON and
{DEFAULT_ROWS["arrow"]:,} in the others, or `limit`; JSON up to 64 MiB, the others 4 GiB, which beyond
4 MiB are sent while the query runs. Whether rows were left out is said in `truncated` and, of answers
up to 4 MiB, in the header `Fleetmark-Truncated`. `ETag` and `If-None-Match` work as usual.

Times are ISO 8601 in UTC. In the text formats whole numbers beyond ±(2^53 - 1), which JavaScript
would round, and decimals of more than 15 digits are strings of digits; Arrow keeps every type.

Needs the role planner, security or admin.
"""
_EXAMPLE = "SELECT day_ts, goodput_ratio, coverage_ratio FROM goodput_day ORDER BY day_ts"
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            **{media: {} for media in MEDIA_TYPES},
            "application/json": {
                "example": {
                    "columns": [{"name": "one", "type": "INTEGER"}],
                    "row_count": 1, "truncated": False, "snapshot": 7, "elapsed_ms": 12.3,
                    "rows": [{"one": 1}],
                }
            },
        },
        "description": "the rows",
    },
    304: {"description": "the answer that `If-None-Match` names still holds"},
    **{
        status: {"description": text, "content": {"application/problem+json": {}}}
        for status, text in {
            400: "the SQL cannot be run; `position`, `line` and `column` say where",
            401: "the caller is unknown",
            403: "the SQL asks for what is not offered, or the role may not ask SQL",
            406: "no such format",
            413: "the request is too large",
            422: "over a limit of time, memory or size, or a malformed request",
            429: "too many requests; `Retry-After` says when to come back",
            503: "all workers busy, or the store cannot be read",
        }.items()
    },
}  # fmt: skip


class SqlRequest(BaseModel):
    """A statement with values for its `$1` or `$name` parameters."""

    sql: str = Field(max_length=MAX_SQL_CHARS)
    params: list[Any] | dict[str, Any] | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_ROWS)] | None = None


@router.post("/query", description=_DESCRIPTION, responses=_RESPONSES, response_class=Response)
async def post_query(
    request: Request,
    body: Annotated[
        SqlRequest,
        Body(
            openapi_examples={
                "plain": {"value": {"sql": _EXAMPLE}},
                "with parameters": {
                    "value": {
                        "sql": "SELECT * FROM goodput_day WHERE cluster = $cluster",
                        "params": {"cluster": "h100-a"},
                        "limit": 100,
                    }
                },
            }
        ),
    ],
) -> Response:
    """SQL with parameters in the body."""
    return await answer(request, await run_in_threadpool(_question, request, body))


@router.get("/query", description=_DESCRIPTION, responses=_RESPONSES, response_class=Response)
async def get_query(
    request: Request,
    sql: Annotated[
        str, Query(max_length=MAX_SQL_CHARS, openapi_examples={"plain": {"value": _EXAMPLE}})
    ],
    limit: Annotated[int | None, Query(ge=1, le=MAX_ROWS)] = None,
) -> Response:
    """SQL in the address: for dashboards and links."""
    asked = SqlRequest(sql=sql, limit=limit)
    return await answer(request, await run_in_threadpool(_question, request, asked))


def _question(request: Request, asked: SqlRequest) -> Question:
    lake: Lake = request.app.state.lake
    principal = principal_of(request)
    note(request, sql=asked.sql)
    if asked.params:
        note(request, params=json.dumps(asked.params)[:_NOTED_CHARS])
    if not principal.may_ask_sql:
        raise Problem(403, "No SQL for this role", "SQL needs the role planner, security or admin")
    media = accepted(request.headers.get("accept", "*/*"))
    form = MEDIA_TYPES[media]
    snapshot = lake.seen_by(principal)
    return Question(
        sql=asked.sql,
        params=asked.params,
        limit=asked.limit or DEFAULT_ROWS[form],
        form=form,
        media=media,
        snapshot=snapshot,
        shape=lambda found, elapsed_ms: _envelope(found, snapshot, elapsed_ms),
    )


def _envelope(found: Answer, snapshot: Snapshot, elapsed_ms: float) -> bytes:
    head = json.dumps(
        {
            "columns": found.columns,
            "row_count": found.row_count,
            "truncated": found.truncated,
            "snapshot": snapshot.id,
            "elapsed_ms": elapsed_ms,
        }
    )
    return head[:-1].encode() + b', "rows": ' + found.body + b"}"
