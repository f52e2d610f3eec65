"""`kill -9` at any moment of ingest, build or detect loses nothing and repeats nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from fleetmark.store import Store

FLEETMARK = str(Path(sys.executable).with_name("fleetmark"))
SAMPLES = Path(__file__).parent.parent / "samples"
LINES = 70_000
SEED = 20261130


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """Commands from logs to findings: access lines of several commits, and a trace.

    Not more: every round builds all models that rest on them, twice.
    """
    folder = tmp_path_factory.mktemp("logs")
    access = import_module("fleetmark.benchmarks.logs.access_lines").write_lines(
        folder / "access.log", LINES
    )
    traces = SAMPLES / "collectives" / "straggler_whatif"
    trace = traces / "trace-ST.parquet"
    return [
        ["ingest", "auto", str(access), str(trace)],
        ["build"],
        ["detect"],
    ]


def run_all(commands: list[list[str]], store: Path, kill_after_s: float | None = None) -> bool:
    """Run the commands one after the other; True unless they were killed on the way."""
    started = time.monotonic()
    environment = {**os.environ, "FLEETMARK_STORE": str(store)}
    for command in commands:
        process = subprocess.Popen(
            [FLEETMARK, *command], env=environment, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        left = None if kill_after_s is None else kill_after_s - (time.monotonic() - started)
        try:
            _, errors = process.communicate(timeout=None if left is None else max(0.0, left))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return False
        assert process.returncode in (0, 1), errors
        assert "Traceback" not in errors
    return True


def state(store: Path) -> dict[str, tuple[int, str]]:
    ran = subprocess.run(
        [FLEETMARK, "tables", "--json", "--store", str(store)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {t["name"]: (t["row_count"], t["content_hash"]) for t in json.loads(ran.stdout)}


def check_no_half_commit(store: Path) -> None:
    """Whatever was committed before the kill fits together."""
    if not (store / "catalog.sqlite").exists():
        return
    with Store(store, read_only=True) as opened:
        if not opened.has_table("storage_access"):
            return
        rows = opened.connection.execute("SELECT count(*) FROM lake.storage_access").fetchone()
        told = opened.connection.execute(
            "SELECT coalesce(sum(row_count), 0) FROM lake.ingest_file WHERE source = 's3_access'"
        ).fetchone()
        assert rows == told


def kill_rounds(logs: list[list[str]], folder: Path, kills: int) -> None:
    """Interrupt `kills` runs, each at a random moment of a run's length as last seen."""
    started = time.monotonic()
    assert run_all(logs, folder / "once")
    whole_s = time.monotonic() - started
    expected = state(folder / "once")
    assert expected["storage_access"][0] == LINES
    chance = random.Random(SEED)  # noqa: S311 - moments, not secrets
    killed = rounds = 0
    while killed < kills:
        rounds += 1
        assert rounds <= 4 * kills, "runs end before they can be interrupted"
        store = folder / f"round{rounds}"
        started = time.monotonic()
        if run_all(logs, store, kill_after_s=chance.uniform(0, whole_s)):
            whole_s = min(whole_s, time.monotonic() - started)
        else:
            killed += 1
            check_no_half_commit(store)
            assert run_all(logs, store)
        assert state(store) == expected, f"round {rounds}"
        shutil.rmtree(store)


def test_five_kills(logs: list[list[str]], tmp_path: Path) -> None:
    """A round takes a build of all models; test_kafka.py strikes ten times where rounds are short."""
    kill_rounds(logs, tmp_path, 5)


@pytest.mark.long
def test_fifty_kills(logs: list[list[str]], tmp_path: Path) -> None:
    kill_rounds(logs, tmp_path, 50)
