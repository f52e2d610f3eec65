"""Asking a Prometheus: selectors, refusals, answers that are too large."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import pytest

from fleetmark.errors import InputError, ServiceError, ServiceUnreachableError
from fleetmark.pipeline import prometheus
from fleetmark.pipeline.prometheus import Matcher, Prometheus, matchers_of
from fleetmark.pipeline.pull_range import gaps
from fleetmark.testing import EPOCH

messages: Any = import_module("fleetmark.benchmarks.remote_read")


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        ("up", [Matcher("__name__", "=", "up")]),
        ('{__name__=~"DCGM_.+", cluster!="a,b}" ,}',
         [Matcher("__name__", "=~", "DCGM_.+"), Matcher("cluster", "!=", "a,b}")]),
        ('m{a!~"x\\\\.y"}', [Matcher("__name__", "=", "m"), Matcher("a", "!~", "x\\.y")]),
    ],
)  # fmt: skip
def test_selectors(selector: str, want: list[Matcher]) -> None:
    assert matchers_of(selector) == want


@pytest.mark.parametrize("selector", ["", "{}", "rate(up[5m])", "{a=b}", '{a="b"', '{a="\\d"}'])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(InputError, match="selector"):
        matchers_of(selector)


def at(minute: int) -> datetime:
    return EPOCH + timedelta(minutes=minute)


def test_gaps() -> None:
    known = [(at(2), at(4)), (at(6), at(8))]
    assert gaps(known, at(0), at(9)) == [(at(0), at(2)), (at(4), at(6)), (at(8), at(9))]
    assert gaps(known, at(3), at(7)) == [(at(4), at(6))]
    assert gaps(known, at(2), at(4)) == []


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - http.server's name

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (401, b"", ServiceError, "--token-file"),
        (404, b"", ServiceError, "remote read is switched on"),
        (200, b"<html>", ServiceError, "check the address"),
        (503, b"starting", ServiceUnreachableError, "503"),
    ],
)
def test_refusals_say_what_to_do(
    status: int, body: bytes, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "RETRIES", 1)
    with (
        answering(status, body) as url,
        Prometheus(url) as server,
        pytest.raises(error, match=words),
    ):
        server.metric_names("up", at(0), at(1))
    with pytest.raises(InputError, match=r"\.netrc"):
        Prometheus("http://user:secret@localhost:9090")
    with Prometheus("http://127.0.0.1:9") as server, pytest.raises(ServiceUnreachableError):
        server.read([], at(0), at(1), 1)


def test_an_answer_that_is_too_large_is_not_fetched() -> None:
    large = messages.snappy(bytes(19_000))
    with answering(200, large) as url, Prometheus(url) as server:
        with pytest.raises(prometheus.AnswerTooLargeError):
            server.read([], at(0), at(1), 18_000)
        assert server.read([], at(0), at(1), 20_000) == large
