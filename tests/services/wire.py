"""A network path that can be cut: a port of this machine whose connections go on to another port."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self

HOST = "127.0.0.1"


class Wire:
    """Connections to `port` reach `target`, until they are cut. A context manager, restored at its port.

    A silent path takes what is sent and delivers nothing, and closes nothing either; a cut one closes every
    connection with what was on its way, and refuses new ones.
    """

    def __init__(self, target: int, port: int) -> None:
        self.port = port
        self._target = target
        self._flows = threading.Event()
        self._listener: socket.socket | None = None
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def restore(self) -> None:
        self._flows.set()
        self._listener = socket.create_server((HOST, self.port))
        self._begin(self._accept, self._listener)

    def silence(self) -> None:
        self._flows.clear()

    def cut(self) -> None:
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        _close(listener)
        for end in self._ends:
            _close(end)
        self._flows.set()  # what was held back meets closed connections
        for thread in self._threads:
            thread.join(10)
        self._ends, self._threads = [], []

    def _begin(self, work: object, *ends: socket.socket) -> None:
        thread = threading.Thread(target=work, args=ends, daemon=True)  # type: ignore[arg-type]  # bound methods
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while self._listener is listener:
            try:
                near, _ = listener.accept()
            except OSError:
                return
            far = socket.socket()
            self._ends += [near, far]
            try:
                far.connect((HOST, self._target))
            except OSError:  # what lies behind is down
                _close(near)
                _close(far)
                continue
            self._begin(self._carry, near, far)
            self._begin(self._carry, far, near)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._flows.wait()
                sink.sendall(data)
        for end in (source, sink):
            _close(end)

    def __enter__(self) -> Self:
        self.restore()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()


def _close(end: socket.socket) -> None:
    """Whoever waits on it wakes up."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
