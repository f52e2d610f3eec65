"""Prometheus on the series of storage.py: bytes of its block, and CPU of its server for the same questions.

`promtool tsdb create-blocks-from openmetrics` writes the block; a server over it answers `query_range`. Windows differ by a
sample: up to 2.x Prometheus takes both ends of five minutes. Measured where its programs are installed (Debian: prometheus).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import requests

from . import storage
from .served import Server
from .workload import Work, Workload

START_S = 1_772_409_600  # storage.py's first scrape
STEP_S = 300
END_S = START_S + storage.HOURS * 3600
TIMES = 10
QUERIES = {
    "q1": "max by (node)(quantile_over_time(0.99, power_w[5m]))",
    "q2": "avg by (node)(avg_over_time(gpu_busy_ratio[5m]))",
}


def prepare_text(folder: Path, scale: float) -> Path:
    """The series as OpenMetrics text, metric by metric; left alone when it exists."""
    path = folder / "series.om"
    if path.exists():
        return path
    grids = storage.values(max(storage.PER_NODE, round(storage.GPUS * scale)))
    # The exporter prints a percentage, whose whole numbers pack better than ratios.
    grids["gpu_busy_ratio"] = np.round(grids["gpu_busy_ratio"] * 100)
    times = [START_S + 15 * scrape for scrape in range(storage.HOURS * storage.SCRAPES)]
    with path.open("w", encoding="utf-8") as out:
        for name, grid in grids.items():
            out.write(f"# TYPE {name} gauge\n")
            for gpu, series in enumerate(grid.tolist()):
                labels = f'{name}{{node="gpu-node-{gpu // storage.PER_NODE}",gpu_uuid="GPU-{gpu}"}}'
                out.writelines(f"{labels} {v} {t}\n" for v, t in zip(series, times, strict=True))
        out.write("# EOF\n")
    return path


def few(folder: Path, _scale: float) -> Path:
    """An eighth of the GPUs: what a sample takes does not depend on how many series there are."""
    return prepare_text(folder, 1 / 8)


def write_block(text: Path) -> Work:
    """The block: samples, and bytes of a sample with its index. Raises CalledProcessError when promtool fails."""
    data = text.with_name("tsdb")
    shutil.rmtree(data, ignore_errors=True)
    subprocess.run(
        ["promtool", "tsdb", "create-blocks-from", "--max-block-duration=24h", "openmetrics", str(text), str(data)],
        check=True, capture_output=True,
    )  # fmt: skip
    with text.open(encoding="utf-8") as lines:
        count = sum(not line.startswith("#") for line in lines)
    size = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    return Work(count, {storage.BYTES: size / count})


def prepare_block(folder: Path, scale: float) -> Path:
    """The data folder of a server; left alone when it exists."""
    text = prepare_text(folder, scale)
    if not text.with_name("tsdb").exists():
        write_block(text)
    return text.with_name("tsdb")


@contextmanager
def serving(data: Path) -> Iterator[tuple[str, Server]]:
    """A server over the block, from its first answer on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = data.with_name("prometheus.yml")
    config.write_text("global: {}\n", encoding="utf-8")
    process = subprocess.Popen(
        ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={data}",
         "--storage.tsdb.retention.time=100y", f"--web.listen-address=127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        for _ in range(600):
            try:
                if requests.get(f"http://127.0.0.1:{port}/-/ready", timeout=30).ok:
                    break
            except requests.RequestException:
                pass
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", Server(process.pid)
    finally:
        process.terminate()
        process.wait()


def ask(data: Path, *, query: str) -> Work:
    """Ask `TIMES` times after once to warm up. Raises RuntimeError for an answer without series."""
    given: dict[str, Any] = {
        "query": query,
        "start": START_S + STEP_S,
        "end": END_S - 15,
        "step": STEP_S,
    }
    with serving(data) as (address, server):
        before = 0.0
        for turn in range(TIMES + 1):
            if turn == 1:
                before = server.cpu_s()
            found = requests.get(f"{address}/api/v1/query_range", params=given, timeout=60).json()
            if not found.get("data", {}).get("result"):
                raise RuntimeError(f"{query}: {found}")
        return Work(TIMES, cpu_s=server.cpu_s() - before)


BLOCK = Workload(
    name="prometheus_block",
    doc="an eighth of the series of storage as a block of Prometheus",
    unit="samples",
    prepare=few,
    run=write_block,
    peer="prometheus",
)
ASKED = [
    Workload(
        name=f"prometheus_{name}",
        doc=f"`{query}` over six hours, ten times; CPU of the server",
        unit="queries",
        prepare=prepare_block,
        run=partial(ask, query=query),
        peer="prometheus",
    )
    for name, query in QUERIES.items()
]
