"""From a question to its answer: known already, whole, or in pieces.

- A client that names the ETag it has (`If-None-Match`) gets 304 while the tables that were read are the same;
  small answers are kept for as long, so that many viewers of one dashboard cost one query, also while other tables
  are written to.
- Up to 4 MiB an answer is whole before its first byte leaves: errors are problem documents, and the headers
  say how many rows there are. A larger one leaves in pieces while the query runs, in bounded memory; when it
  fails on the way the connection breaks off before the last piece, which every client notices.
- When the client leaves, its query is ended.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.to_thread import run_sync
from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fleetmark.errors import QueryError
from fleetmark.query.formats import Format
from fleetmark.query.pool import Pool, Ticket
from fleetmark.query.process import Answer, Stream
from fleetmark.query.snapshot import Snapshot

from .admission import note
from .problems import query_problem

_WHOLE_BYTES = 4 << 20
_KEPT_BYTES, _KEPT_EACH_BYTES = 64 << 20, 1 << 20
_STATEMENTS = 1000
# Threads that wait for workers, apart from those that judge callers.
_WAITING = 128
# What these say changes while the store does not.
_CHANGING = re.compile(
    r"now|current|today|random|uuid|timestamp|setseed|txid|age|sleep", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Question:
    """SQL over what the caller may see, and the form of its answer.

    `shape` makes the JSON document of an answer and the milliseconds it took; other forms leave as they
    are. `own`: the SQL is the API's, so that it is the same whenever the store is.
    """

    sql: str
    params: Any
    limit: int
    form: Format
    media: str
    snapshot: Snapshot
    shape: Callable[[Answer, float], bytes]
    own: bool = False

    def etag(self, tables: Sequence[str] | None) -> str | None:
        """Names the answer over `tables` (None: not known yet, it may be all); None when it may change while
        they do not.
        """
        if not self.own and _CHANGING.search(self.sql):
            return None
        seen = self.snapshot
        state = (
            [seen.id, str(seen.created_at), seen.scope] if tables is None else seen.state(tables)
        )
        parts = [self.sql, self.params, self.limit, self.form, state]
        return '"' + hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32] + '"'


class BrokenOffError(Exception):
    """An answer failed after its first pieces were sent: the server closes the connection on this."""


class Kept:
    """Small answers by ETag, the oldest given up first. Safe to use from several threads.

    `awaited` are the questions that are being answered: who asks the same meanwhile waits for that. It
    belongs to the event loop. Which tables a statement reads is known once it was answered.
    """

    def __init__(self) -> None:
        self.awaited: dict[str, anyio.Event] = {}
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._tables: OrderedDict[tuple[str, str], tuple[str, ...]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def tables(self, question: Question) -> tuple[str, ...] | None:
        with self._lock:
            return self._tables.get((question.snapshot.scope, question.sql))

    def learn(self, question: Question, tables: tuple[str, ...]) -> None:
        """Callers who may see different tables ask different questions with the same words."""
        with self._lock:
            self._tables[question.snapshot.scope, question.sql] = tables
            while len(self._tables) > _STATEMENTS:
                self._tables.popitem(last=False)

    def get(self, etag: str | None) -> Answer | None:
        with self._lock:
            return None if etag is None else self._answers.get(etag)

    def put(self, etag: str | None, answer: Answer) -> None:
        if etag is None or len(answer.body) > _KEPT_EACH_BYTES:
            return
        with self._lock:
            if etag not in self._answers:
                self._answers[etag] = answer
                self._size += len(answer.body)
            while self._size > _KEPT_BYTES:
                _, oldest = self._answers.popitem(last=False)
                self._size -= len(oldest.body)


class _Running:
    """A query and what has come of it so far."""

    def __init__(self, pool: Pool, question: Question) -> None:
        self._pool = pool
        self._question = question
        self._open = ExitStack()
        self.ticket = Ticket()
        self.first: list[bytes] = []
        self.whole = False

    def begin(self) -> None:
        """Take what comes until it is whole, or too large to be held."""
        asked = self._question
        try:
            self.stream: Stream = self._open.enter_context(
                self._pool.stream(
                    asked.sql, asked.snapshot, params=asked.params, limit=asked.limit,
                    form=asked.form, ticket=self.ticket,
                )
            )  # fmt: skip
            self._pieces: Iterator[bytes] = iter(self.stream)
            size = 0
            for piece in self._pieces:
                self.first.append(piece)
                size += len(piece)
                if size > _WHOLE_BYTES and asked.form != "json":
                    self.stream.extend(self._pool.limits.stream_s)
                    return
            self.whole = True
        except BaseException:
            self.close()
            raise
        self.close()

    def next_piece(self) -> bytes | None:
        return next(self._pieces, None)

    def close(self) -> None:
        self._open.close()

    def answer(self) -> Answer:
        stream = self.stream
        return Answer(b"".join(self.first), stream.columns, stream.row_count, stream.truncated)


async def answer(request: Request, question: Question) -> Response:
    """The response to `question`, by the rules above."""
    kept: Kept = request.app.state.kept
    etag = question.etag(kept.tables(question))
    known = request.headers.get("if-none-match", "")
    if etag is not None and (etag in known or known.strip() == "*"):
        return Response(status_code=304, headers=_headers(question, etag))
    began = time.monotonic()
    try:
        found = await _found(request, question, etag)
    except QueryError as error:
        return query_problem(error, question.sql)
    if isinstance(found, Response):
        return found
    note(request, row_count=found.row_count)
    elapsed_ms = round((time.monotonic() - began) * 1000, 1)
    body = question.shape(found, elapsed_ms) if question.form == "json" else found.body
    etag = question.etag(kept.tables(question))
    headers = {
        **_headers(question, etag),
        "Fleetmark-Row-Count": str(found.row_count),
        "Fleetmark-Truncated": str(found.truncated).lower(),
    }
    return Response(body, headers=headers, media_type=question.media)


async def _found(request: Request, question: Question, etag: str | None) -> Answer | Response:
    """The answer that is known, or that somebody waits for already, or is made now; large: a response."""
    kept: Kept = request.app.state.kept
    while etag is not None:
        if (known := kept.get(etag)) is not None:
            return known
        if (other := kept.awaited.get(etag)) is None:
            break
        await other.wait()  # it may have failed, or be too large to be kept: then look anew
    mine = anyio.Event()
    if etag is not None:
        kept.awaited[etag] = mine
    try:
        running = _Running(request.app.state.pool, question)
        await _begin(request, running)
        if not running.whole:
            return _Pieces(request, running, _headers(question, etag), question.media)
        answered = running.answer()
        kept.learn(question, running.stream.tables)
        kept.put(question.etag(running.stream.tables), answered)
        return answered
    finally:
        if etag is not None:
            kept.awaited.pop(etag, None)
        mine.set()


def _headers(question: Question, etag: str | None) -> dict[str, str]:
    return {
        "Fleetmark-Snapshot": str(question.snapshot.id),
        "Vary": "Accept, Authorization",
        "Cache-Control": "no-store" if etag is None else "private, no-cache",
        **({} if etag is None else {"ETag": etag}),
    }


async def _begin(request: Request, running: _Running) -> None:
    """Begin the query; end it when the client leaves meanwhile."""
    async with anyio.create_task_group() as group:

        async def watch() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            running.ticket.call_off()

        group.start_soon(watch)
        failure: QueryError | None = None
        try:
            await run_sync(running.begin, limiter=request.app.state.waiting)
        except QueryError as error:  # a task group would wrap it
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


class _Pieces(StreamingResponse):
    """An answer that leaves while its query runs. However it ends, the query ends with it.

    Not left to the generator: one that waits while its piece is sent is closed by the garbage collector.
    """

    def __init__(
        self, request: Request, running: _Running, headers: dict[str, str], media: str
    ) -> None:
        super().__init__(self._each(request), headers=headers, media_type=media)
        self._running = running
        self._limiter: anyio.CapacityLimiter = request.app.state.waiting

    async def _each(self, request: Request) -> AsyncIterator[bytes]:
        running = self._running
        try:
            while running.first:
                yield running.first.pop(0)
            while following := await run_sync(running.next_piece, limiter=self._limiter):
                yield following
            note(request, row_count=running.stream.row_count)
        except QueryError as error:
            raise BrokenOffError(str(error)) from None

    async def listen_for_disconnect(self, receive: Receive) -> None:
        await super().listen_for_disconnect(receive)
        self._running.ticket.call_off()  # the thread that waits for the next piece returns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if not self._running.stream.ended:
                self._running.ticket.call_off()
            with anyio.CancelScope(shield=True):
                await run_sync(self._running.close, limiter=self._limiter)


def waiting() -> anyio.CapacityLimiter:
    """Threads that may wait for workers; made once per application, inside its event loop."""
    return anyio.CapacityLimiter(_WAITING)
