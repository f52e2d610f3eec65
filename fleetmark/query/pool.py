"""Query workers that share the work: hand one out, take it back, replace it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from fleetmark.errors import QueryBusyError, QueryError
from fleetmark.query.formats import Format
from fleetmark.query.process import Answer, Limits, Params, Stream, Worker
from fleetmark.query.snapshot import Snapshot


class Ticket:
    """Lets another thread call a query off."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: Worker | None = None
        self._off = False

    def begin(self, worker: Worker) -> None:
        """Raises QueryError when it was called off before it began."""
        with self._lock:
            if self._off:
                raise QueryError("the query was called off", reason="limit")
            self._worker = worker

    def finish(self) -> None:
        with self._lock:
            self._worker = None

    def call_off(self) -> None:
        with self._lock:
            self._off = True
            if self._worker is not None:
                self._worker.interrupt()


class Pool:
    """A few workers that share the work: one from the start, the others when they are first needed.

    Use as a context manager; safe to use from threads.
    """

    def __init__(self, root: Path, *, size: int = 2, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._root = root
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        self._unstarted = size
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._unstarted:
            self._unstarted -= 1
            self._idle.put(Worker(self._root, self.limits))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while not self._idle.empty():
            self._idle.get().kill()

    def query(
        self,
        sql: str,
        snapshot: Snapshot,
        *,
        params: Params = None,
        limit: int = 10_000,
        form: Format = "json",
    ) -> Answer:
        """Run one SELECT over the tables of `snapshot`; the whole answer.

        Raises QueryError (refused, invalid, over a limit) or QueryBusyError.
        """
        with self.stream(sql, snapshot, params=params, limit=limit, form=form) as stream:
            body = b"".join(stream)
        return Answer(body, stream.columns, stream.row_count, stream.truncated)

    @contextmanager
    def stream(
        self,
        sql: str,
        snapshot: Snapshot,
        *,
        params: Params = None,
        limit: int,
        form: Format,
        ticket: Ticket | None = None,
    ) -> Iterator[Stream]:
        """The same, piece by piece; `ticket` may call it off. Leaving early ends the query."""
        with self._worker(ticket or Ticket()) as worker:
            tables = worker.tables_read(sql, list(snapshot.tables))
            with worker.open(
                sql, snapshot, tables, params=params, limit=limit, form=form
            ) as stream:
                stream.tables = tuple(tables)
                yield stream

    def _next(self) -> Worker:
        """An idle worker, or one more, or the first that is done."""
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            pass
        with self._lock:
            if self._unstarted:
                worker = Worker(self._root, self.limits)
                self._unstarted -= 1  # not before it runs: one that cannot start is tried again
                return worker
        try:
            return self._idle.get(timeout=self.limits.wait_s)
        except queue.Empty:
            raise QueryBusyError("all query workers are busy: try again") from None

    @contextmanager
    def _worker(self, ticket: Ticket) -> Iterator[Worker]:
        worker = self._next()
        try:
            if not worker.alive:  # ended from outside while it was idle
                worker.kill()
                worker = Worker(self._root, self.limits)
            ticket.begin(worker)
            yield worker
        except BaseException as error:
            if not isinstance(error, QueryError):
                worker.kill()  # what it is doing is unknown
            raise
        finally:
            ticket.finish()
            self._idle.put(worker if worker.alive else Worker(self._root, self.limits))
