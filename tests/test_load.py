"""Fifty people look at dashboards while a writer commits: no error, and how long one in twenty waits."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import requests

from fleetmark.store import Store

USERS, SECONDS, REFRESH_S = 50, 60, 5.0
PATHS = (
    "/findings?limit=20",
    "/tables/goodput_day/rows?sort=-day_ts&limit=30",
    "/query?sql=SELECT cluster, day_ts, goodput_lower_ratio FROM goodput_day ORDER BY ALL LIMIT 100",
    "/query?sql=SELECT node, count(*) AS n FROM step_straggler WHERE verdict = 'slow' GROUP BY ALL",
    "/query?sql=SELECT cluster, avg(coverage_ratio) AS c FROM coverage_gpu_day GROUP BY ALL",
    "/metrics",
)


@contextmanager
def served(root: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "fleetmark.cli", "serve", "--port", "0", "--store", str(root)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://\S+?:\d+", process.stderr.readline())
        assert found is not None
        try:
            yield found[0]
        finally:
            process.terminate()


@contextmanager
def written_to(root: Path) -> Iterator[None]:
    """A commit a second, as an ingest of small files makes them."""
    stop = threading.Event()

    def write() -> None:
        with Store(root, memory_mb=512) as store:
            number = 0
            while not stop.wait(1):
                number += 1
                fill = ("INSERT INTO lake.goodput_day BY NAME SELECT 'load' AS cluster, "
                        f"TIMESTAMP '2020-01-01' + INTERVAL {number} DAY AS day_ts, 0.5 AS coverage_ratio")  # fmt: skip
                store.commit(lambda fill=fill: store.connection.execute(fill))  # type: ignore[misc]  # bound per turn

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.long
def test_fifty_users_while_rows_arrive(fleet: Path, tmp_path: Path) -> None:
    """The aim is 500 ms for 95 of 100 answers; it is printed, since it depends on the machine."""
    root = tmp_path / "store"
    shutil.copytree(fleet, root)
    with served(root) as url, written_to(root):
        end = time.monotonic() + SECONDS

        def look(user: int) -> list[tuple[int, float]]:
            seen = []
            time.sleep(REFRESH_S * user / USERS)
            with requests.Session() as session:
                while time.monotonic() < end:
                    turn = time.monotonic()
                    for path in PATHS:
                        began = time.monotonic()
                        answer = session.get(url + path, timeout=60)
                        seen.append((answer.status_code, time.monotonic() - began))
                    time.sleep(max(0.0, REFRESH_S - (time.monotonic() - turn)))
            return seen

        with ThreadPoolExecutor(USERS) as pool:
            answers = [answer for seen in pool.map(look, range(USERS)) for answer in seen]
    waits = np.array([seconds for _, seconds in answers]) * 1000
    p50, p95, p99 = np.percentile(waits, [50, 95, 99])
    print(f"{len(answers)} answers, p50 {p50:.0f} ms, p95 {p95:.0f} ms, p99 {p99:.0f} ms")  # noqa: T201 - the figure that is asked for
    assert [status for status, _ in answers if status != 200] == []
    assert len(answers) > USERS * len(PATHS)
