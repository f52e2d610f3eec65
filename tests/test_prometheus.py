"""Asking a Prometheus: selectors, refusals, answers that are too large."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError, ServiceError, ServiceUnreachableError
from fleetmark.pipeline import prometheus, pull
from fleetmark.pipeline.prometheus import Matcher, Prometheus, matchers_of
from fleetmark.pipeline.pull import Pull, gaps, pull_prometheus
from fleetmark.store import Store
from fleetmark.testing import EPOCH

CATALOG = load_catalog()
messages: Any = import_module("fleetmark.benchmarks.logs.remote_read")


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


class Prepared(Prometheus):
    """A server with one scrape of one GPU; its labels name a serial number, one series an NVLink."""

    def metric_names(self, selector: str, start: datetime, end: datetime) -> list[str]:
        raise AssertionError(f"{selector} from {start} to {end}: says nothing that read does not")

    def read(
        self, matchers: Sequence[Matcher], start: datetime, end: datetime, limit_bytes: int
    ) -> bytes:
        assert matchers
        assert start < end
        assert limit_bytes
        gpu = {"gpu": "0", "UUID": "GPU-1", "Hostname": "h", "DCGM_FI_DEV_SERIAL": "123"}
        scrape = [(41.0, prometheus.epoch_ms(at(1)))]
        names = (
            "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FAN_SPEED", "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0",
        )  # fmt: skip
        series = (messages.time_series({"__name__": name, **gpu}, scrape) for name in names)
        return bytes(messages.answer(*series))


def test_from_after_to_is_refused_before_anything_is_asked(
    new_store: Callable[[str], Store],
) -> None:
    with new_store("s") as store, pytest.raises(InputError, match="--from must be before --to"):
        list(pull_prometheus(store, CATALOG, Pull(Prepared("http://h")), at(2), at(2), EPOCH))


def test_rows_and_the_time_they_were_pulled_for_stand_or_fall_together(
    new_store: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ("gpu_sample", "gpu_sample_extra", "gpu_identity", "gpu_link_sample", "ingest_file")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Prepared, "metric_names", lambda *_: [])
    with new_store("s") as store:

        def counts() -> list[int]:
            rows = [store.connection.execute(
                f"SELECT count(*) FROM lake.{name} WHERE NOT starts_with(source, 'xid') "
                if name == "ingest_file" else f"SELECT count(*) FROM lake.{name}"
            ).fetchone() for name in (*tables, "pull_range")]  # fmt: skip
            return [row[0] for row in rows if row]

        def pulled() -> list[pull.SliceReport]:
            asked = Pull(Prepared("http://h"))
            return list(pull_prometheus(store, CATALOG, asked, at(0), at(2), EPOCH))

        before = counts()
        with monkeypatch.context() as during:
            during.setattr(pull, "note", killed)
            with pytest.raises(KeyboardInterrupt):
                pulled()
        packaged = counts()
        assert packaged[:4] == before[:4] == [0, 0, 0, 0]
        assert packaged[-1] == 0
        (report,) = pulled()
        assert report.fine
        after = counts()
        assert after[:4] == [1, 1, 1, 1]
        assert after[-1] == 1
        assert after[4] == packaged[4] + 1
        assert pulled() == []
