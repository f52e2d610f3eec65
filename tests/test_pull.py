"""Pulling from a real Prometheus: what comes out is what went in, however often it is asked."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import requests
from click.testing import CliRunner

from fleetmark.catalog import load_catalog
from fleetmark.cli import main
from fleetmark.pipeline import pull
from fleetmark.pipeline.prometheus import Prometheus, matchers_of
from fleetmark.pipeline.pull import Pull, SliceReport, pull_prometheus
from fleetmark.pipeline.run import ingest
from fleetmark.source import Context
from fleetmark.store import Store
from fleetmark.summary import summarise
from fleetmark.testing import EPOCH

messages: Any = import_module("fleetmark.benchmarks.logs.remote_read")
CATALOG = load_catalog()
SAMPLES = files("fleetmark.samples") / "telemetry"
pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(
        which("prometheus") is None or which("promtool") is None,
        reason="Debian package prometheus is not installed",
    ),
]
T0 = 1_774_008_000_000


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
def serving(folder: Path) -> Iterator[str]:
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
         "--storage.tsdb.retention.time=100y", "--log.level=error"],
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
    names = ["gpu_sample", "gpu_sample_extra", "gpu_identity", "gpu_link_sample", "reject"]
    return {s.name: s.content_hash for s in summarise(store, [CATALOG.tables[n] for n in names])}


def pull_all(
    store: Store, url: str, start: datetime, end: datetime, *, again: bool = False
) -> list[SliceReport]:
    with Prometheus(url) as asked:
        return list(pull_prometheus(store, CATALOG, Pull(asked), start, end, EPOCH, again=again))


def test_what_comes_out_of_prometheus_is_what_went_in(
    server: Server, new_store: Callable[[str], Store]
) -> None:
    url, text = server
    with new_store("read") as store:
        (report,) = ingest(store, CATALOG, "dcgm_exporter", [text], {}, {}, EPOCH)
        assert (report.row_count, report.reject_count) == (181, 0)
        want = hashes(store)
    with new_store("pulled") as store:
        reports = pull_all(store, url, START, END)
        assert sum(r.row_count for r in reports) == 181
        assert all(r.fine for r in reports)
        assert hashes(store) == want
        power = store.connection.execute(
            "SELECT power_w, quality FROM lake.gpu_sample WHERE ts = '2026-03-20 12:01:15.25'"
        ).fetchall()
        assert power[0][0] is None
        assert "power_w:not_supported" in power[0][1]


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
        assert sum(r.row_count for r in reports) == 181
        once = hashes(store)
        assert pull_all(store, url, START, END) == []
        repeated = pull_all(store, url, START, END, again=True)
        assert sum(r.row_count for r in repeated) == 0
        # Each of the three slices that hold samples says again who the two GPUs are.
        assert sum(r.repeat_count for r in repeated) == 179 + 3 * 2
        assert hashes(store) == once
        monkeypatch.setattr(pull, "ANSWER_BYTES", 1000)
        monkeypatch.setattr(pull, "SHORTEST_SLICE", timedelta(hours=1))
        (failed,) = pull_all(store, url, START, middle, again=True)
        assert "narrow the selector" in failed.message
        found = store.connection.execute("SELECT status, start_ts, end_ts FROM lake.pull_range")
        assert sorted(found.fetchall()) == [
            ("failed", START, middle), ("pulled", START, END),
        ]  # fmt: skip


def test_the_command_goes_on_where_it_ended(server: Server, tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        command = ["pull", "prometheus", server[0], "--store", str(tmp_path / "store"), "--json"]
        done = CliRunner().invoke(main, [*command, *arguments])
        return done.exit_code, done.output

    assert "--from" in run()[1]
    assert run("--from", "2026-03-20", "--set", "nodes=x")[0] == 2
    code, output = run("--from", "2026-03-20T12:00", "--to", "2026-03-20T12:05", "--header", "A=b")
    assert (code, json.loads(output)[0]["row_count"]) == (0, 42)
    code, output = run("--to", "2026-03-20T12:10Z")
    assert (code, json.loads(output)[0]["start_ts"]) == (0, "2026-03-20T12:05:00Z")


def test_a_series_that_ended_is_no_value(server: Server) -> None:
    url, _ = server
    now_ms = int(time.time()) * 1000
    now = datetime.fromtimestamp(now_ms / 1000, UTC).replace(tzinfo=None)
    name = "DCGM_FI_DEV_GPU_TEMP"
    stale = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
    labels = {"__name__": name, "gpu": "0", "UUID": "GPU-1", "Hostname": "h"}
    points = [(41.0, now_ms - 20_000), (stale, now_ms)]
    written = requests.post(
        f"{url}/api/v1/write", data=messages.snappy(messages.time_series(labels, points)),
        headers={"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"}, timeout=10,
    )  # fmt: skip
    written.raise_for_status()
    with Prometheus(url) as asked:
        assert asked.metric_names(name, now - timedelta(minutes=1), now) == [name]
        content = asked.read(
            matchers_of(name), now - timedelta(minutes=1), now + timedelta(seconds=1), 1 << 20
        )
    context = Context("x", {"cluster": "c", "node_label": ""})
    parsed = CATALOG.sources["prometheus_read"].parse(content, context)  # type: ignore[arg-type]  # document
    found = parsed.tables["gpu_sample"].lazy().collect()
    assert (found["gpu_temp_c"].to_list(), parsed.skipped) == ([41], 1)
