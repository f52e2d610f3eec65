"""`/tables/NAME/rows`: the rows of any table by its contract, without SQL: for every role."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from fleetmark.errors import InputError
from fleetmark.query.process import Answer
from fleetmark.query.selection import Selection, select
from fleetmark.query.snapshot import Snapshot

from .admission import note, principal_of
from .answers import Question, answer
from .lake import Lake
from .media import MEDIA_TYPES, accepted
from .problems import Problem
from .tables import columns_of

# Described table by table in `contract`.
router = APIRouter(tags=["tables"], include_in_schema=False)

PAGE_ROWS, MAX_PAGE_ROWS, MAX_ROWS = 1000, 10_000, 100_000_000


@router.get("/tables/{name}/rows")
async def table_rows(request: Request, name: Annotated[str, Path(max_length=200)]) -> Response:
    """Rows that match the parameters: JSON in pages, other formats as one whole."""
    return await answer(request, await run_in_threadpool(_question, request, name))


def _question(request: Request, name: str) -> Question:
    lake: Lake = request.app.state.lake
    snapshot = lake.seen_by(principal_of(request))
    table = snapshot.tables.get(name)
    if table is None:
        raise Problem(404, "No such table", f"there is no table {name}; /tables lists them")
    media = accepted(request.headers.get("accept", "*/*"))
    form = MEDIA_TYPES[media]
    asked = request.query_params.multi_items()
    try:
        chosen = select(table, asked, paged=form == "json")
        limit = _limit(request.query_params.get("limit"), paged=form == "json")
    except InputError as error:
        raise Problem(422, "The request is malformed", str(error)) from None
    note(request, table=name)
    return Question(
        sql=chosen.sql,
        params=chosen.params,
        limit=limit,
        form=form,
        media=media,
        snapshot=snapshot,
        shape=lambda found, elapsed_ms: _page(chosen, found, snapshot, elapsed_ms),
        own=True,
    )


def _limit(text: str | None, *, paged: bool) -> int:
    most = MAX_PAGE_ROWS if paged else MAX_ROWS
    if text is None:
        return PAGE_ROWS if paged else MAX_ROWS
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= most:
        raise InputError(f"limit: {text[:20]!r} is no whole number from 1 to {most:,}")
    return int(text)


def _page(chosen: Selection, found: Answer, snapshot: Snapshot, elapsed_ms: float) -> bytes:
    rows: list[dict[str, Any]] = json.loads(found.body)
    following = chosen.cursor_after(rows[-1]) if found.truncated else None
    for name in chosen.hidden():
        for row in rows:
            del row[name]
    columns = [c for c in columns_of(chosen.table) if c.name in chosen.columns]
    page = {
        "table": chosen.table.name,
        "snapshot": snapshot.id,
        "elapsed_ms": elapsed_ms,
        "columns": [column.model_dump() for column in columns],
        "row_count": len(rows),
        "next": following,
        "rows": rows,
    }
    return json.dumps(page, ensure_ascii=False).encode()
