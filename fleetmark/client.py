"""A client of the API for programs and notebooks: SQL and tables as Polars frames or Arrow.

    fleet = fleetmark.connect("http://127.0.0.1:8321", key="fmk_…")
    fleet.sql("SELECT * FROM goodput_day WHERE cluster = $c", c="h100-a")
    fleet.table("mfu_day", since="2026-11-01", cluster="h100-a", columns=["day_ts", "mfu_ratio"])

Answers travel as Arrow; types are those of the tables' contracts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import polars as pl
import pyarrow as pa
import requests

from fleetmark.errors import (
    InputError,
    QueryBusyError,
    QueryError,
    ServiceError,
    ServiceUnreachableError,
)

_ARROW = "application/vnd.apache.arrow.stream"
_MAX_ROWS = 100_000_000
_TIMEOUT_S = (10, 900)


class Fleet:
    """What an API shows to one key, or token, or to anybody where it asks for none. Use from one thread; a context manager where that helps.

    Every method raises QueryError (with `position` in the SQL), ServiceError (the key is refused, the
    answer broke off) or ServiceUnreachableError.
    """

    def __init__(self, url: str, key: str | None = None) -> None:
        if not url.startswith(("http://", "https://")):
            raise InputError(f"{url}: an API's address begins with http:// or https://")
        self._url = url.rstrip("/")
        self._session = requests.Session()
        if key is not None:
            self._session.headers["Authorization"] = f"Bearer {key}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._session.close()

    def sql(self, sql: str, /, limit: int = _MAX_ROWS, **params: Any) -> pl.DataFrame:  # noqa: ANN401 - values of any SQL type
        """The rows of one SELECT; `$name` in it is bound to the argument of that name."""
        return _frame(self.arrow(sql, limit=limit, **params))

    def arrow(self, sql: str, /, limit: int = _MAX_ROWS, **params: Any) -> pa.Table:  # noqa: ANN401 - see sql
        """The same as an Arrow table."""
        with self._reader("POST", "/query", json=_body(sql, limit, params)) as reader:
            return reader.read_all()

    def batches(
        self,
        sql: str,
        /,
        limit: int = _MAX_ROWS,
        **params: Any,  # noqa: ANN401 - see sql
    ) -> Iterator[pa.RecordBatch]:
        """The same in batches, as they come: for answers larger than memory."""
        with self._reader("POST", "/query", json=_body(sql, limit, params)) as reader:
            yield from reader

    def table(
        self,
        name: str,
        *,
        since: object = None,
        until: object = None,
        columns: Sequence[str] | None = None,
        sort: str | None = None,
        limit: int | None = None,
        **filters: object,
    ) -> pl.DataFrame:
        """Rows of a table, without SQL: for every role. A filter may be a list: any of its values."""
        asked = {"since": since, "until": until, "sort": sort, "limit": limit, **filters,
                 "columns": ",".join(columns) if columns else None}  # fmt: skip
        with self._reader("GET", f"/tables/{name}/rows", params=asked) as reader:
            return _frame(reader.read_all())

    def tables(self) -> pl.DataFrame:
        """What there is to ask: every table with what one row is and how much stands in it."""
        names = ("name", "doc", "row_count", "first_ts", "last_ts")
        listed = self._json("/tables", {})["tables"]
        return pl.DataFrame([{name: table[name] for name in names} for table in listed])

    def findings(self, **filters: object) -> list[dict[str, Any]]:
        """All findings that match (`domain`, `severity`, `detector`, `since`, `until`), worst first."""
        found: list[dict[str, Any]] = []
        cursor: object = None
        while True:
            page = self._json("/findings", {**filters, "limit": 1000, "cursor": cursor})
            found += page["items"]
            cursor = page["next"]
            if cursor is None:
                return found

    def _json(self, path: str, params: Mapping[str, Any]) -> dict[str, Any]:
        with self._answer("GET", path, accept="application/json", params=params) as answer:
            return dict(answer.json())

    @contextmanager
    def _reader(self, method: str, path: str, **sent: Any) -> Iterator[pa.RecordBatchStreamReader]:  # noqa: ANN401 - as requests takes it
        with self._answer(method, path, accept=_ARROW, **sent) as answer:
            try:
                answer.raw.decode_content = True
                with pa.ipc.open_stream(answer.raw) as reader:
                    yield reader
            except (OSError, pa.ArrowException, requests.exceptions.RequestException) as error:
                raise ServiceError(f"the answer broke off: {error}") from None
            except Exception as error:
                # urllib3's errors reach here through Arrow as they are; requests exports none of them.
                if type(error).__module__.startswith("urllib3"):
                    raise ServiceError(f"the answer broke off: {error}") from None
                raise

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        accept: str,
        **sent: Any,  # noqa: ANN401 - as requests takes it
    ) -> Iterator[requests.Response]:
        try:
            answer = self._session.request(
                method, self._url + path, headers={"Accept": accept}, stream=True,
                timeout=_TIMEOUT_S, **sent,
            )  # fmt: skip
        except requests.exceptions.RequestException as error:
            raise ServiceUnreachableError(f"{self._url} does not answer: {error}") from None
        with answer:
            if not answer.ok:
                raise _refusal(answer)
            yield answer


def _body(sql: str, limit: int, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"sql": sql, "limit": limit, "params": dict(params) or None}


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    return frame if isinstance(frame, pl.DataFrame) else frame.to_frame()


def _refusal(answer: requests.Response) -> Exception:
    try:
        problem = answer.json()
        detail = f"{problem['title']}: {problem['detail']}"
    except (ValueError, KeyError, TypeError):
        return ServiceError(f"{answer.url} answers {answer.status_code} {answer.reason}")
    if answer.status_code == 503 and "workers" in problem["title"]:
        return QueryBusyError(detail)
    if "SQL" in problem["title"] or "query" in problem["title"]:
        reason = {400: "invalid", 403: "refused"}.get(answer.status_code, "limit")
        return QueryError(detail, reason=reason, position=problem.get("position"))
    return ServiceError(detail)
