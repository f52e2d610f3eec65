"""The loops that the parts run, each in a process of its own."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime

import uvicorn

from fleetmark.catalog import Catalog
from fleetmark.contracts.check import check
from fleetmark.errors import InputError
from fleetmark.live.compute import Computation
from fleetmark.live.consume import Consumer
from fleetmark.live.follow import Outcome, follower_of
from fleetmark.live.inputs import Input, Kafka, Run, Webhook
from fleetmark.live.looks import look_of
from fleetmark.live.receive import receiver
from fleetmark.live.status import PASSING, Looked, Status, save
from fleetmark.settings import Settings
from fleetmark.store import Store

Clock = Callable[[], datetime]
Log = Callable[..., None]
# While an input fails, it is looked at ever more rarely, up to this.
SLOWEST_RETRY_S = 60.0
FASTEST_RETRY_S = 0.5
# Inputs whose time has nearly come join a round.
TOGETHER_S = 0.5
REASONS = "SELECT reason, count(*) FROM reject GROUP BY reason"


class Pause:
    """How long an input rests: its interval, or after n failures 2^n times half a second."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._failures = 0

    def after(self, *, failed: bool) -> float:
        self._failures = self._failures + 1 if failed else 0
        if not failed:
            return self._interval_s
        return min(SLOWEST_RETRY_S, FASTEST_RETRY_S * 2.0**self._failures)


def follow(
    store: Store, inputs: Sequence[Input], catalog: Catalog, settings: Settings, clock: Clock,
    stop: threading.Event, log: Log,
) -> None:  # fmt: skip
    """Files and spooled bodies, those whose time has come together, until `stop`."""
    follower = follower_of(inputs, catalog, settings)
    _look(store, inputs, follower, follower.behind, settings, clock, stop, log)


def pull(
    store: Store, one: Input, catalog: Catalog, settings: Settings, clock: Clock,
    stop: threading.Event, log: Log,
) -> None:  # fmt: skip
    """One service or object store, until `stop`."""
    look = look_of(one, catalog, settings)

    def alone(store: Store, _: Sequence[str], now: datetime) -> dict[str, Outcome]:
        try:
            return {one.name: look(store, now)}
        except PASSING as error:
            return {one.name: error}

    _look(store, [one], alone, lambda _: False, settings, clock, stop, log)


def _look(
    store: Store, inputs: Sequence[Input],
    look: Callable[[Store, Sequence[str], datetime], dict[str, Outcome]],
    behind: Callable[[str], bool], settings: Settings, clock: Clock, stop: threading.Event, log: Log,
) -> None:  # fmt: skip
    """Look at the inputs whose time has come, until `stop`; a failing one delays no other."""
    pauses = {one.name: Pause(one.interval_s) for one in inputs}
    states = {one.name: _status(one.name, one.kind, clock()) for one in inputs}
    due = dict.fromkeys(states, 0.0)
    while not stop.is_set() and due:
        if stop.wait(max(0.0, min(due.values()) - time.monotonic())):
            return
        began = time.monotonic()
        ready = [name for name, at in due.items() if at <= began + TOGETHER_S]
        for name, outcome in look(store, ready, clock()).items():
            status = states[name]
            _note(status, outcome, clock(), log)
            status.busy_s = round(time.monotonic() - began, 3)
            save(settings.store, status)
            wait_s = pauses[name].after(failed=bool(status.error))
            rests = status.error or not behind(name)
            due[name] = time.monotonic() + (wait_s if rests else 0.0)


def _note(status: Status, outcome: Outcome, now: datetime, log: Log) -> None:
    if not isinstance(outcome, Looked):
        _failed(status, outcome, log)
        return
    status.succeeded(now, outcome.rows, outcome.rejects)
    if outcome.rejects and not outcome.rows:
        log("nothing could be read", input=status.name, refused=outcome.rejects, reasons=REASONS)
    if outcome.problem:
        status.failed(outcome.problem)


def consume(
    store: Store, one: Kafka, catalog: Catalog, settings: Settings, clock: Clock,
    stop: threading.Event, log: Log,
) -> None:  # fmt: skip
    """Batch after batch of one Kafka input until `stop`; a lost broker is waited for."""
    status, pause = _status(one.name, one.kind, clock()), Pause(0.0)
    save(settings.store, status)
    while not stop.is_set():
        try:
            with Consumer(one, catalog.sources[one.source], store, clock, settings) as consumer:
                while not stop.is_set():
                    began = time.monotonic()
                    got = consumer.batch()
                    status.succeeded(clock(), got.rows)
                    status.lag_count = got.lag
                    status.busy_s = round(time.monotonic() - began, 3)
                    save(settings.store, status)
                    pause.after(failed=False)
        except PASSING as error:
            _failed(status, error, log)
            save(settings.store, status)
            stop.wait(pause.after(failed=True))


def compute(
    store: Store, catalog: Catalog, settings: Settings, run: Run, clock: Clock,
    stop: threading.Event, log: Log,
) -> None:  # fmt: skip
    """Models, detectors and alerts until `stop`."""
    status, pause = _status("compute", "compute", clock()), Pause(run.compute_interval_s)
    work = Computation(catalog, settings, run)
    save(settings.store, status)
    while not stop.is_set():
        began = time.monotonic()
        try:
            status.succeeded(clock(), work(store, clock(), status))
        except PASSING as error:
            _failed(status, error, log)
        status.busy_s = round(time.monotonic() - began, 3)
        save(settings.store, status)
        stop.wait(pause.after(failed=bool(status.error)))


def judge(store: Store, catalog: Catalog, settings: Settings, clock: Clock, log: Log) -> None:
    """The data contracts of the hours that closed since the last time, once; then the process may end.

    It takes a process of its own: Great Expectations and its pandas would stay in memory all hour.
    """
    status = _status("contracts", "contracts", clock())
    began = time.monotonic()
    try:
        failed = check(store, catalog, [], "hour", None, clock()).failed["severity"]
        status.succeeded(clock())
        status.unmet_counts = {s: int((failed == s).sum()) for s in ("error", "warning")}
        log("contracts judged", **status.unmet_counts)
    except PASSING as error:
        _failed(status, error, log)
    status.busy_s = round(time.monotonic() - began, 3)
    save(settings.store, status)


def receive(
    settings: Settings, hooks: list[Webhook], run: Run, clock: Clock, stop: threading.Event
) -> None:
    """Serve webhooks and metrics until `stop`. Raises InputError for an address that is taken."""
    host, port = run.address
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family)
    except OSError as error:
        raise InputError(f"[run] listen {run.listen}: {error.strerror}") from None
    config = uvicorn.Config(
        receiver(settings, hooks, run, clock), log_level="warning", access_log=False
    )
    server = uvicorn.Server(config)

    def end() -> None:
        stop.wait()
        server.should_exit = True

    threading.Thread(target=end, daemon=True).start()
    server.run(sockets=[listener])


def _status(name: str, kind: str, now: datetime) -> Status:
    return Status(name, kind, started_at=now.isoformat())


def _failed(status: Status, error: Exception, log: Log) -> None:
    """Once for each kind of failure: an hour without a broker is one line, not a thousand."""
    if status.error != str(error):
        log("input failed", input=status.name, error=str(error))
    status.failed(str(error))
