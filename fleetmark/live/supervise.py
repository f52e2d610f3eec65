"""The supervisor: one process per part, started again when it ends, all of them ended together.

A part with an interval does its work and ends; it is started again when the interval is over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# A part that keeps ending is started ever later, up to this; one that ran this long starts afresh.
LONGEST_WAIT_S = 60.0
STEADY_S = 120.0
# How long a part may take to end by itself.
GRACE_S = 20.0
TICK_S = 0.5


@dataclass
class _Part:
    name: str
    command: Sequence[str]
    interval_s: float = 0.0
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    failures: int = 0
    wait_until: float = 0.0


@dataclass
class Supervisor:
    """Runs `command(part)` for each part until `stop` is set; those of `intervals_s` from time to time."""

    commands: Mapping[str, Sequence[str]]
    log: Callable[..., None]
    stop: threading.Event = field(default_factory=threading.Event)
    intervals_s: Mapping[str, float] = field(default_factory=dict)

    def run(self) -> None:
        parts = [
            _Part(name, command, self.intervals_s.get(name, 0.0))
            for name, command in self.commands.items()
        ]
        try:
            while not self.stop.is_set():
                for part in parts:
                    self._attend(part)
                self.stop.wait(TICK_S)
        finally:
            self._end(parts)

    def _attend(self, part: _Part) -> None:
        now = time.monotonic()
        if part.process is not None:
            code = part.process.poll()
            if code is None:
                return
            _close(part.process)
            part.process = None
            if code == 0 and part.interval_s:
                part.failures, part.wait_until = 0, part.started + part.interval_s
                return
            steady = now - part.started > STEADY_S
            part.failures = 1 if steady else part.failures + 1
            part.wait_until = now + min(LONGEST_WAIT_S, 0.5 * 2.0**part.failures)
            self.log("part ended", part=part.name, code=code, failures=part.failures)
        if now >= part.wait_until:
            # A part ends when this pipe closes: it never outlives a supervisor that is killed.
            part.process = subprocess.Popen(list(part.command), stdin=subprocess.PIPE)  # noqa: S603 - our own command
            part.started = now
            self.log("part started", part=part.name, pid=part.process.pid)

    def _end(self, parts: Sequence[_Part]) -> None:
        running = [p.process for p in parts if p.process is not None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        for process in running:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                # Nothing is lost by it: positions move only with the rows.
                process.kill()
                process.wait()
            _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()


def end_with_stdin(stop: threading.Event) -> None:
    """Set `stop` when whoever holds the other end of standard input is gone."""

    def watch() -> None:
        # Not sys.stdin: its lock, held here, would abort the interpreter's shutdown.
        while os.read(0, 1):
            continue
        stop.set()

    threading.Thread(target=watch, daemon=True).start()


def on_signal(stop: threading.Event) -> None:
    """SIGTERM and SIGINT end a part between two commits."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
