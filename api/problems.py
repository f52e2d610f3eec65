"""Errors as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from fleetmark.errors import FleetmarkError, QueryBusyError, QueryError

from .unchanged import UnchangedError

_STATUS = {"invalid": 400, "refused": 403, "limit": 422}
_TITLES = {
    "invalid": "The SQL cannot be run",
    "refused": "The SQL asks for what is not offered",
    "limit": "The query needs more than it may have",
}


class Problem(Exception):  # noqa: N818 - the name of the RFC
    """Raised in an endpoint, sent as problem+json."""

    def __init__(self, status: int, title: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.title = title
        self.detail = detail


def problem(status: int, title: str, detail: str, **more: object) -> JSONResponse:
    """A problem document; `more` are its extension members."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **more}
    headers = {"Retry-After": "1"} if status == 503 else None
    return JSONResponse(body, status, headers, media_type="application/problem+json")


def query_problem(error: QueryError, sql: str) -> JSONResponse:
    """A QueryError with the place in the SQL it is about, where that is known."""
    if isinstance(error, QueryBusyError):
        return problem(503, "All query workers are busy", str(error))
    where: dict[str, int] = {}
    if error.position is not None:
        before = sql[: error.position]
        where = {
            "position": error.position,
            "line": before.count("\n") + 1,
            "column": error.position - (before.rfind("\n") + 1) + 1,
        }
    return problem(_STATUS[error.reason], _TITLES[error.reason], str(error), **where)


def install(app: FastAPI) -> None:
    """Make every error of `app` a problem document."""

    @app.exception_handler(Problem)
    def _problem(_: Request, error: Problem) -> JSONResponse:
        return problem(error.status, error.title, error.detail)

    @app.exception_handler(UnchangedError)
    def _unchanged(_: Request, known: UnchangedError) -> Response:
        return Response(status_code=304, headers=known.headers)

    @app.exception_handler(FleetmarkError)
    def _store(_: Request, error: FleetmarkError) -> JSONResponse:
        return problem(503, "The store cannot be read", str(error))

    @app.exception_handler(HTTPException)
    def _http(_: Request, error: HTTPException) -> JSONResponse:
        return problem(error.status_code, str(error.detail), str(error.detail))

    @app.exception_handler(Exception)
    def _unexpected(_: Request, error: Exception) -> JSONResponse:
        # The server's log has the traceback: it is raised again after the answer.
        return problem(
            500, "A fault of Fleetmark's", f"unexpected {type(error).__name__}: see the log"
        )

    @app.exception_handler(RequestValidationError)
    def _validation(_: Request, error: RequestValidationError) -> JSONResponse:
        return problem(422, "The request is malformed", _sentence(error.errors()))


def _sentence(errors: Sequence[Any]) -> str:
    return "; ".join(
        f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in errors
    )
