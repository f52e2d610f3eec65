"""One query worker, seen from outside: start it, feed it, take its answer in pieces, end it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from fleetmark.errors import QueryError, StoreError
from fleetmark.query.formats import Format
from fleetmark.query.snapshot import Snapshot

Params = Sequence[Any] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use.

    deadline_s     wall time; then the worker is killed
    wait_s         how long a query waits for a free worker
    memory_mb      DuckDB's own limit; address_bytes is the kernel's, for what DuckDB does not count
    cpu_s          processor time, in case the parent is gone
    answer_bytes   largest answer that is gathered whole
    stream_bytes   largest answer that is passed on in pieces, and stream_s how long that may take
    """

    deadline_s: float = 10.0
    wait_s: float = 20.0
    start_s: float = 30.0
    memory_mb: int = 1024
    address_bytes: int = 3 << 30
    cpu_s: float = 40.0
    threads: int = 2
    answer_bytes: int = 64 << 20
    stream_bytes: int = 4 << 30
    stream_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A result set in the format asked for. `columns` have name and SQL type."""

    body: bytes
    columns: list[dict[str, str]]
    row_count: int
    truncated: bool


class Deadline:
    """Calls `end` when its time has come, unless it is set anew or cancelled."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._timer: threading.Timer | None = None
        self.passed = False

    def set(self, seconds: float) -> None:
        self.cancel()
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _pass(self) -> None:
        self.passed = True
        self._end()


class Stream:
    """An answer in pieces, over `tables`. `row_count` and `truncated` are known at its end."""

    def __init__(self, worker: Worker, deadline: Deadline, columns: list[dict[str, str]]) -> None:
        self._worker = worker
        self._deadline = deadline
        self.columns = columns
        self.tables: tuple[str, ...] = ()
        self.row_count = 0
        self.truncated = False
        self.ended = False

    def __iter__(self) -> Iterator[bytes]:
        """Raises QueryError, also in the middle."""
        while piece := self._worker.receive(self._deadline):
            yield piece
        self.ended = True
        last = self._worker.reply(self._deadline)
        self.row_count, self.truncated = last["row_count"], last["truncated"]

    def extend(self, seconds: float) -> None:
        """Give the rest of the answer this long from now."""
        self._deadline.set(seconds)


class Worker:
    """One confined process. It runs one statement at a time, until it is no longer `alive`."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self._limits = limits
        self._root = root
        ours, theirs = socket.socketpair()
        settings = {
            "root": str(root),
            "address_bytes": limits.address_bytes,
            "memory_mb": limits.memory_mb,
            "cpu_s": limits.cpu_s,
            "threads": limits.threads,
            "answer_bytes": limits.answer_bytes,
            "stream_bytes": limits.stream_bytes,
        }
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [sys.executable, "-I", "-B", "-m", "fleetmark.query.worker", json.dumps(settings)],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
            )
        self._channel = Connection(ours.detach())
        self._jail: Path | None = None
        self._ready = False
        self._spent = False

    @property
    def alive(self) -> bool:
        return not self._spent and self._process.poll() is None

    def tables_read(self, sql: str, tables: Sequence[str]) -> list[str]:
        """The allow-list's verdict, reached in the worker: the parser sees hostile text, too."""
        self._wait_ready()
        with self._within(self._limits.deadline_s) as deadline:
            reply = self._exchange({"op": "tables", "sql": sql, "tables": list(tables)}, deadline)
        return list(reply["tables"])

    def run(
        self,
        sql: str,
        snapshot: Snapshot,
        tables: Sequence[str],
        *,
        params: Params = None,
        limit: int,
        form: Format,
    ) -> Answer:
        """Run `sql` over `tables` of `snapshot` without asking the allow-list; the whole answer."""
        with self.open(sql, snapshot, tables, params=params, limit=limit, form=form) as stream:
            body = b"".join(stream)
        return Answer(body, stream.columns, stream.row_count, stream.truncated)

    @contextmanager
    def open(
        self,
        sql: str,
        snapshot: Snapshot,
        tables: Sequence[str],
        *,
        params: Params = None,
        limit: int,
        form: Format,
    ) -> Iterator[Stream]:
        """The same, piece by piece. Left before its end, the worker is ended."""
        self._wait_ready()
        views = {name: snapshot.view(name, below=self._jail) for name in tables}
        request = {
            "op": "run",
            "sql": sql,
            "params": params,
            "limit": limit,
            "format": form,
            "views": {n: {"sql": view.sql, "held": view.held} for n, view in views.items()},
            "paths": [p for view in views.values() if not view.held for p in view.paths],
        }
        with self._within(self._limits.deadline_s) as deadline:
            reply = self._exchange(request, deadline)
            stream = Stream(self, deadline, reply["columns"])
            try:
                yield stream
            finally:
                if not stream.ended:
                    self.kill()

    def _wait_ready(self) -> None:
        if self._ready:
            return
        if not self._channel.poll(self._limits.start_s):
            self.kill()
            raise StoreError("a query worker did not start in time")
        try:
            hello = json.loads(self._channel.recv_bytes())
        except (EOFError, OSError):
            self.kill()
            raise StoreError(
                f"a query worker ended at its start (exit {self._process.returncode}): is the "
                f"address space limit of {self._limits.address_bytes:,} bytes too small?"
            ) from None
        self._jail = self._root if hello["jailed"] else None
        self._ready = True

    @contextmanager
    def _within(self, seconds: float) -> Iterator[Deadline]:
        deadline = Deadline(self._process.kill)
        deadline.set(seconds)
        try:
            yield deadline
        finally:
            deadline.cancel()

    def _exchange(self, request: dict[str, Any], deadline: Deadline) -> dict[str, Any]:
        try:
            self._channel.send_bytes(json.dumps(request).encode())
        except OSError:
            self.kill()
            raise self._lost(deadline.passed) from None
        return self.reply(deadline)

    def reply(self, deadline: Deadline) -> dict[str, Any]:
        """The next reply. Raises QueryError when it is an error or does not come."""
        try:
            reply = json.loads(self.receive(deadline))
        except ValueError:
            self.kill()
            raise self._lost(deadline.passed) from None
        if reply.get("retire"):
            self.kill()
        if "error" in reply:
            raise QueryError(reply["error"], reason=reply["reason"], position=reply["position"])
        return dict(reply)

    def receive(self, deadline: Deadline) -> bytes:
        """The next message. Raises QueryError when the process ended first."""
        try:
            return self._channel.recv_bytes()
        except (EOFError, OSError):
            self.kill()
            raise self._lost(deadline.passed) from None

    def interrupt(self) -> None:
        """End the process from another thread; the one that waits for it finds out."""
        self._process.kill()

    def _lost(self, late: bool) -> QueryError:
        if late:
            message = f"the query was stopped after {self._limits.deadline_s:g} s: read less"
        else:
            message = "the query ended its worker by using up memory or processor time: read less"
        return QueryError(message, reason="limit")

    def kill(self) -> None:
        self._spent = True
        self._process.kill()
        self._process.wait()
        self._channel.close()
