"""`fleetmark serve` in a process of its own, what it costs to start, and what a stream of Arrow costs."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import requests

from fleetmark.catalog import load_catalog
from fleetmark.store import Store

from .lake import started
from .workload import Goal, Work, Workload, cpu_each

ROWS, TIMES = 1_000_000, 5
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
ROW_SQL = """
INSERT INTO lake.gpu_sample BY NAME
SELECT '2026-03-02'::TIMESTAMP + to_seconds(i // 64 * 15) AS ts, 'bench' AS cluster, 'node-' || i % 64 // 8 AS node,
    'GPU-' || i % 64 AS gpu_uuid, '' AS mig_instance, (i % 101) / 100 AS gpu_busy_ratio, 40 + i % 30 AS gpu_temp_c,
    'bench' AS file_id, i AS line_no
FROM range($1) AS t(i)
"""
QUERY = "SELECT ts, node, gpu_uuid, gpu_busy_ratio, gpu_temp_c FROM gpu_sample"


class Server:
    """A running server: its CPU seconds so far, with all of its processes."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def cpu_s(self) -> float:
        """Of the process and all below it, living or ended, in ticks of 10 ms."""
        return sum(_cpu_s(pid) for pid in _tree(self.pid))


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat after the name: state, parent, ...; empty for a process that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _cpu_s(pid: int) -> float:
    return sum(map(int, _stat(pid)[11:15])) * _TICK_S


def _tree(root: int) -> list[int]:
    parents = {int(p.name): _stat(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit()}
    found = [root]
    for pid in found:
        found += [child for child, stat in parents.items() if stat and int(stat[1]) == pid]
    return found


@contextmanager
def served(store: Path) -> Iterator[tuple[str, Server]]:
    """`fleetmark serve` over the store, from its first answer on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = started("serve", "--store", str(store), "--port", str(port))
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                requests.get(f"{address}/healthz", timeout=30)
                break
            except requests.RequestException:
                time.sleep(0.1)
        yield address, Server(process.pid)
    finally:
        process.terminate()
        process.wait()


def prepare(folder: Path, scale: float) -> Path:
    """A store with a million rows of telemetry at scale 1; left alone when it exists."""
    root = folder / "served"
    if not root.exists():
        with Store(root) as store:
            store.ensure(load_catalog().tables.values())
            count = max(64, round(ROWS * scale))
            store.commit(lambda: store.connection.execute(ROW_SQL, [count]))
    return root


def start(root: Path) -> int:
    """Start the API, wait for its first answer, and end it."""
    with served(root):
        return 1


def stream(root: Path) -> Work:
    """All rows as an Arrow stream, `TIMES` times, and the server's CPU. Raises RuntimeError when one is missing."""
    with Store(root, read_only=True) as store:
        found = store.connection.execute("SELECT count(*) FROM lake.gpu_sample").fetchone()
    wanted = int(found[0]) if found else 0
    asked = {"Accept": "application/vnd.apache.arrow.stream"}
    with served(root) as (address, server):
        before = server.cpu_s()
        for _ in range(TIMES):
            answer = requests.get(f"{address}/query", params={"sql": QUERY}, headers=asked, timeout=120)  # fmt: skip
            rows = pa.ipc.open_stream(answer.content).read_all().num_rows if answer.ok else 0
            if rows != wanted:
                raise RuntimeError(f"{rows} rows of {wanted}: {answer.text[:200]}")
        spent = server.cpu_s() - before
    return Work(wanted * TIMES, {"bytes a row": len(answer.content) / wanted}, spent)


API_START = Workload(
    name="api_start",
    doc="`fleetmark serve` over a small store until its first answer",
    unit="starts",
    prepare=prepare,
    run=start,
    goals=(Goal("CPU s a start", aim=1.5, of=cpu_each, at_most=True),),
    grows=False,
)
ARROW = Workload(
    name="arrow_stream",
    doc="a million rows of five columns at scale 1 as an Arrow stream out of `/query`, five times; CPU of the server and its workers",
    unit="rows",
    prepare=prepare,
    run=stream,
    goals=(Goal("x REF"),),
)
