"""Query workers, seen from outside: start, feed, kill at the deadline, replace."""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fleetmark.errors import QueryBusyError, QueryError, StoreError
from fleetmark.query.answer import Format
from fleetmark.query.snapshot import Snapshot

Params = Sequence[Any] | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use.

    deadline_s     wall time; then the worker is killed
    wait_s         how long a query waits for a free worker
    memory_mb      DuckDB's own limit; address_bytes is the kernel's, for what DuckDB does not count
    cpu_s          processor time, in case the parent is gone
    answer_bytes   largest answer that is built
    """

    deadline_s: float = 10.0
    wait_s: float = 5.0
    start_s: float = 30.0
    memory_mb: int = 1024
    address_bytes: int = 3 << 30
    cpu_s: float = 40.0
    threads: int = 2
    answer_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class Answer:
    """A result set in the format asked for. `columns` have name and SQL type."""

    body: bytes
    columns: list[dict[str, str]]
    row_count: int
    truncated: bool


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
        reply, _ = self._ask({"op": "tables", "sql": sql, "tables": list(tables)})
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
        """Run `sql` over `tables` of `snapshot` without asking the allow-list."""
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
        reply, body = self._ask(request)
        return Answer(body, reply["columns"], reply["row_count"], reply["truncated"])

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

    def _ask(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        """Send one request; kill the process when no whole answer came by the deadline."""
        self._wait_ready()
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        timer = threading.Timer(self._limits.deadline_s, end)
        timer.start()
        try:
            self._channel.send_bytes(json.dumps(request).encode())
            reply = json.loads(self._channel.recv_bytes())
            body = self._channel.recv_bytes() if "columns" in reply else b""
        except (EOFError, OSError, ValueError):
            self.kill()
            raise self._lost(late.is_set()) from None
        finally:
            timer.cancel()
        if late.is_set() or reply.get("retire"):
            self.kill()
        if "error" in reply:
            raise QueryError(reply["error"], reason=reply["reason"], position=reply["position"])
        return reply, body

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


class Pool:
    """A few workers that share the work. Use as a context manager; safe to use from threads."""

    def __init__(self, root: Path, *, size: int = 2, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._root = root
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        self._size = size

    def __enter__(self) -> Self:
        for _ in range(self._size):
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
        """Run one SELECT over the tables of `snapshot`.

        Raises QueryError (refused, invalid, over a limit) or QueryBusyError.
        """
        try:
            worker = self._idle.get(timeout=self.limits.wait_s)
        except queue.Empty:
            raise QueryBusyError("all query workers are busy: try again") from None
        if not worker.alive:  # ended from outside while it was idle
            worker.kill()
            worker = Worker(self._root, self.limits)
        try:
            tables = worker.tables_read(sql, list(snapshot.tables))
            return worker.run(sql, snapshot, tables, params=params, limit=limit, form=form)
        except BaseException as error:
            if not isinstance(error, QueryError):
                worker.kill()  # what it is doing is unknown
            raise
        finally:
            self._idle.put(worker if worker.alive else Worker(self._root, self.limits))
