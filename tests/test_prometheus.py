"""Prometheus as a source: what its remote read gives, decoded and pulled, against a real server."""

from __future__ import annotations

import math
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from shutil import which
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError, ServiceError, ServiceUnreachableError
from fleetmark.pipeline import prometheus, pull
from fleetmark.pipeline.prometheus import Matcher, Prometheus, matchers_of
from fleetmark.pipeline.pull import Pull, SliceReport, gaps, pull_prometheus
from fleetmark.pipeline.run import ingest
from fleetmark.source import Context, Parsed
from fleetmark.store import Store
from fleetmark.summary import summarise
from fleetmark.testing import EPOCH

remote_read: Any = import_module("fleetmark.ingest._remote_read")
CATALOG = load_catalog()
SAMPLES = files("fleetmark.samples") / "telemetry"
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
needs_prometheus = pytest.mark.skipif(
    which("prometheus") is None or which("promtool") is None,
    reason="Debian package prometheus is not installed",
)


# -- a real server, and answers as it writes them ------------------------------------------------


def fill(folder: Path, openmetrics: str) -> None:
    """Write blocks from OpenMetrics text (times in seconds, families together, last line # EOF)."""
    text = folder / "history.om"
    text.write_text(openmetrics, encoding="utf-8")
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "openmetrics", "-q", "--max-block-duration=24h",
         str(text), str(folder / "data")],
        check=True, capture_output=True,
    )  # fmt: skip


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """Run the server over `folder`/data; its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1h}\n", encoding="utf-8")
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}", "--web.enable-remote-write-receiver",
         "--storage.tsdb.retention.time=100y", "--log.level=error", *options],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _await(url, server)
        yield url
    finally:
        server.terminate()
        server.wait(10)


def _await(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        assert server.poll() is None, "prometheus ended"
        try:
            if requests.get(f"{url}/-/ready", timeout=1).ok:
                return
        except requests.ConnectionError:
            pass
        time.sleep(0.1)
    raise AssertionError("prometheus is not ready after 30 s")


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _sized(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def series(labels: Mapping[str, str], samples: Sequence[tuple[float, int]]) -> bytes:
    """prompb.TimeSeries; samples are (value, time in ms). As Go writes it, 0 is left out."""
    head = b"".join(
        _sized(1, _sized(1, k.encode()) + _sized(2, v.encode())) for k, v in sorted(labels.items())
    )
    points = (
        _sized(2, (b"\x09" + struct.pack("<d", v) if v != 0 else b"") + b"\x10" + _varint(t))
        for v, t in samples
    )
    return head + b"".join(points)


def answer(*several: bytes) -> bytes:
    """prompb.ReadResponse of series, in a snappy block."""
    body = _sized(1, b"".join(_sized(1, one) for one in several))
    return bytes(pa.Codec("snappy").compress(body, asbytes=True))


def remote_write(url: str, *several: bytes) -> None:
    """Store series (prompb.WriteRequest)."""
    body = pa.Codec("snappy").compress(b"".join(_sized(1, one) for one in several), asbytes=True)
    headers = {"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}
    requests.post(f"{url}/api/v1/write", data=body, headers=headers, timeout=10).raise_for_status()


# -- decoding ------------------------------------------------------------------------------------

T0 = 1_774_008_000_000
GPU = {"gpu": "0", "UUID": "GPU-1", "Hostname": "h", "instance": "10.0.0.7:9400", "job": "dcgm"}
VALUES = st.one_of(
    st.sampled_from([0.0, 1.0, math.inf, -math.inf, STALE]),
    st.floats(width=64, allow_nan=False),
    # Second halves that look like first halves or whole samples of 9 bytes.
    st.sampled_from([b"\0\0\0\0\0\0\x12\x10", b"\0\0\0\0\0\0\x12\x07"]).map(
        lambda raw: struct.unpack("<d", raw)[0]
    ),
)
TIMES = st.one_of(st.integers(T0, T0 + 10**6), st.sampled_from([0, 1, 2**35 - 1, 2**42, 2**62]))
POINTS = st.lists(st.tuples(VALUES, TIMES), max_size=6)


@settings(deadline=None, max_examples=60)
@given(st.lists(POINTS, max_size=5))
def test_every_sample_comes_out_bit_for_bit(several: list[list[tuple[float, int]]]) -> None:
    found = remote_read.read_answer(
        answer(*(series({"__name__": f"m{n}"}, points) for n, points in enumerate(several)))
    )
    want = [
        (n, struct.pack("<d", value or 0.0), time)
        for n, points in enumerate(several) for value, time in points
    ]  # fmt: skip
    got = zip(found.series, found.value, found.time_ms, strict=True)
    assert [(int(n), struct.pack("<d", v), int(t)) for n, v, t in got] == want
    assert [dict(labels)["__name__"] for labels in found.labels] == [
        f"m{n}" for n in range(len(several))
    ]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 400), st.integers(0, 255))
def test_a_damaged_answer_is_refused_not_raised(at: int, byte: int) -> None:
    whole = answer(series({"__name__": "DCGM_FI_DEV_GPU_TEMP", **GPU}, [(40.0, T0), (0.0, T0 + 1)]))
    damaged = bytearray(whole)
    damaged[at % len(whole)] = byte
    for content in (bytes(damaged), whole[: at % len(whole)]):
        parsed = read(content)
        assert set(parsed.tables) <= {"gpu_sample", "gpu_sample_extra"}
        assert parsed.tables or parsed.rejects["reason"][0].startswith("not a remote-read answer")


def read(content: bytes, **options: str) -> Parsed:
    chosen = {"cluster": "c", "node_label": ""} | options
    return CATALOG.sources["prometheus_read"].parse(content, Context("x", chosen))  # type: ignore[arg-type]  # a document


def rows(parsed: Parsed, table: str = "gpu_sample") -> pl.DataFrame:
    return parsed.tables[table].lazy().collect()


def test_staleness_markers_are_never_values() -> None:
    def one(name: str, points: list[tuple[float, int]], **labels: str) -> bytes:
        return series({"__name__": f"DCGM_FI_DEV_{name}", **GPU, **labels}, points)

    parsed = read(answer(
        one("GPU_TEMP", [(40, T0), (STALE, T0 + 15_000)]),
        # The pod left: its series ends where the one without pod begins.
        one("POWER_USAGE", [(300, T0), (STALE, T0 + 15_000)], pod="p"),
        one("POWER_USAGE", [(310, T0 + 15_000), (STALE, T0 + 30_000)]),
        one("OF_TOMORROW", [(7, T0), (STALE, T0 + 30_000)]),
    ))  # fmt: skip
    found = rows(parsed).select("ts", "gpu_temp_c", "power_w", "quality")
    assert [row[1:] for row in found.rows()] == [
        (40, 300.0, []),
        (None, 310.0, ["gpu_temp_c:stale"]),
    ]
    assert rows(parsed, "gpu_sample_extra")["value"].to_list() == [7.0]
    assert parsed.skipped == 2


def test_series_that_cannot_be_placed_are_rejected_with_the_remedy() -> None:
    name = "DCGM_FI_DEV_GPU_TEMP"
    no_host = {k: v for k, v in GPU.items() if k != "Hostname"}
    content = answer(
        series({"__name__": name, **no_host}, [(40, T0), (41, T0 + 15_000)]),
        series({"__name__": name, "Hostname": "h", "gpu": "0"}, [(40, T0)]),
        series({"__name__": name, **GPU}, [(40, 12)]),
    )
    parsed = read(content)
    assert rows(parsed).is_empty()
    assert parsed.rejects["line_no"].to_list() == [1, 3, 4]
    for sign, reason in zip(("node_label", "UUID", "2100"), parsed.rejects["reason"], strict=True):
        assert sign in reason
    assert rows(read(content, node_label="instance"))["node"].to_list() == ["10.0.0.7"] * 2


# -- asking --------------------------------------------------------------------------------------


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
    large = answer(series({"__name__": "m"}, [(1.5, T0 + n) for n in range(1000)]))
    with answering(200, large) as url, Prometheus(url) as server:
        with pytest.raises(prometheus.AnswerTooLargeError):
            server.read([], at(0), at(1), 18_000)
        assert server.read([], at(0), at(1), 20_000) == large


# -- the real server -----------------------------------------------------------------------------


def history() -> str:
    """The L4's real page and a twin with odd values, 90 scrapes at 15 s, as OpenMetrics."""
    page = (SAMPLES / "dcgm_exporter_l4_1774009423.prom").read_text(encoding="utf-8")
    out = []
    for line in page.splitlines():
        if line.startswith("# TYPE"):
            out.append(line.replace(" counter", " gauge"))
        if line.startswith("#"):
            continue
        name, _, value = line.rpartition(" ")
        twin = name.replace("GPU-c2f7", "GPU-d2f7").replace('gpu="0"', 'gpu="1"')
        times = [T0 // 1000 + 15 * step for step in range(90)]
        out += [f"{name} {float(value) + step} {ts}" for step, ts in enumerate(times)]
        odd = {3: "NaN", 5: "2147483634", 7: "140737488355328", 9: "+Inf"}
        out += [
            f"{twin} {odd.get(step, value)} {ts}.25" for step, ts in enumerate(times) if step != 20
        ]
    return "\n".join([*out, "# EOF", ""])


START = datetime(2026, 3, 20, 12)  # noqa: DTZ001 - UTC without zone; T0
END = START + timedelta(minutes=30)
Server = tuple[str, Path]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Its URL, and the text that fills it."""
    folder = tmp_path_factory.mktemp("prometheus")
    fill(folder, history())
    with serving(folder) as url:
        yield url, folder / "history.om"


def hashes(store: Store) -> dict[str, str]:
    names = ["gpu_sample", "gpu_sample_extra", "reject"]
    return {s.name: s.content_hash for s in summarise(store, [CATALOG.tables[n] for n in names])}


def pull_all(
    store: Store, url: str, start: datetime, end: datetime, *, again: bool = False
) -> list[SliceReport]:
    with Prometheus(url) as asked:
        return list(pull_prometheus(store, CATALOG, Pull(asked), start, end, EPOCH, again=again))


@pytest.mark.services
@needs_prometheus
def test_what_comes_out_of_prometheus_is_what_went_in(
    server: Server, new_store: Callable[[str], Store]
) -> None:
    url, text = server
    with new_store("read") as store:
        (report,) = ingest(store, CATALOG, "dcgm_exporter", [text], {}, {}, EPOCH)
        assert (report.row_count, report.reject_count) == (179, 0)
        want = hashes(store)
    with new_store("pulled") as store:
        reports = pull_all(store, url, START, END)
        assert sum(r.row_count for r in reports) == 179
        assert all(r.fine for r in reports)
        assert hashes(store) == want
        power = store.connection.execute(
            "SELECT power_w, quality FROM lake.gpu_sample WHERE ts = '2026-03-20 12:01:15.25'"
        ).fetchall()
        assert power[0][0] is None
        assert "power_w:not_supported" in power[0][1]


@pytest.mark.services
@needs_prometheus
def test_pulling_twice_and_overlapping_changes_nothing(
    server: Server, new_store: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _ = server
    # Small answers: slices are halved, and one GPU's scrape is never cut in two.
    monkeypatch.setattr(pull, "ANSWER_BYTES", 20_000)
    middle = START + timedelta(minutes=5)
    with new_store("pulled") as store:
        reports = pull_all(store, url, START, middle)
        assert len(reports) > 1
        monkeypatch.setattr(pull, "ANSWER_BYTES", 1 << 20)
        reports += pull_all(store, url, middle - timedelta(minutes=1), END)
        assert sum(r.row_count for r in reports) == 179
        once = hashes(store)
        assert pull_all(store, url, START, END) == []
        repeated = pull_all(store, url, START, END, again=True)
        assert sum(r.row_count for r in repeated) == 0
        assert sum(r.repeat_count for r in repeated) == 179
        assert hashes(store) == once
        monkeypatch.setattr(pull, "ANSWER_BYTES", 1000)
        monkeypatch.setattr(pull, "SHORTEST_SLICE", timedelta(hours=1))
        (failed,) = pull_all(store, url, START, middle, again=True)
        assert "narrow the selector" in failed.message
        found = store.connection.execute("SELECT status, start_ts, end_ts FROM lake.pull_range")
        assert sorted(found.fetchall()) == [
            ("failed", START, middle), ("pulled", START, END),
        ]  # fmt: skip


@pytest.mark.services
@needs_prometheus
def test_a_series_that_ended_is_no_value(server: Server) -> None:
    url, _ = server
    now_ms = int(time.time()) * 1000
    now = datetime.fromtimestamp(now_ms / 1000, UTC).replace(tzinfo=None)
    name = "DCGM_FI_DEV_GPU_TEMP"
    remote_write(url, series({"__name__": name, **GPU}, [(41.0, now_ms - 20_000), (STALE, now_ms)]))
    with Prometheus(url) as asked:
        assert asked.metric_names(name, now - timedelta(minutes=1), now) == [name]
        content = asked.read(
            matchers_of(name), now - timedelta(minutes=1), now + timedelta(seconds=1), 1 << 20
        )
    parsed = read(content)
    assert (rows(parsed)["gpu_temp_c"].to_list(), parsed.skipped) == ([41], 1)
