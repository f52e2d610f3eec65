"""The supervisor starts parts again, ends them together, and none outlives it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.live import parts
from fleetmark.live.inputs import Slurm
from fleetmark.live.parts import Pause
from fleetmark.live.status import Looked
from fleetmark.live.supervise import Supervisor
from fleetmark.settings import Settings

NOW = datetime(2026, 3, 1, tzinfo=UTC)
# Writes its start, and ends when its standard input closes.
PART = "import os,sys; open(sys.argv[1],'a').write('started\\n'); os.read(0,1)"


def wait_for(path: Path, text: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_text() == text:
            return
        time.sleep(0.05)
    raise AssertionError(path.read_text() if path.exists() else f"no {path.name}")


def test_a_part_that_ends_is_started_again(tmp_path: Path) -> None:
    events: list[tuple[str, dict[str, object]]] = []
    stop = threading.Event()
    commands = {
        "steady": [sys.executable, "-c", PART, str(tmp_path / "steady")],
        "failing": [sys.executable, "-c", "raise SystemExit(3)"],
        "hourly": [sys.executable, "-c", ""],
    }
    supervisor = Supervisor(
        commands, lambda event, **f: events.append((event, f)), stop, {"hourly": 3600}
    )
    running = threading.Thread(target=supervisor.run)
    running.start()
    wait_for(tmp_path / "steady", "started\n")
    while sum(event == "part ended" for event, _ in events) < 2:
        time.sleep(0.05)
    stop.set()
    running.join(60)
    assert not running.is_alive()
    ended = [f for event, f in events if event == "part ended"]
    assert [(f["part"], f["code"], f["failures"]) for f in ended[:2]] == [
        ("failing", 3, 1), ("failing", 3, 2)
    ]  # fmt: skip
    assert (tmp_path / "steady").read_text() == "started\n"
    began = [f["part"] for event, f in events if event == "part started"]
    assert began.count("hourly") == 1  # it has done its work, and waits for its hour


def test_parts_end_with_a_killed_supervisor(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        "import sys, threading\n"
        "from fleetmark.live.supervise import Supervisor\n"
        f"part = [sys.executable, '-c', \"import os; open({str(pid)!r},'w').write(str(os.getpid())+chr(10)); os.read(0,1)\"]\n"
        "Supervisor({'part': part}, lambda *_, **__: None, threading.Event()).run()\n"
    )
    supervisor = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().endswith("\n")) and time.monotonic() < deadline:
        time.sleep(0.05)
    supervisor.kill()
    supervisor.wait()
    part = Path("/proc") / pid.read_text().strip()
    while part.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not part.exists()


def test_an_input_that_fails_is_looked_at_ever_more_rarely() -> None:
    pause = Pause(5.0)
    assert [pause.after(failed=failed) for failed in (False, True, True, True)] == [
        5.0,
        1.0,
        2.0,
        4.0,
    ]
    assert [pause.after(failed=True) for _ in range(5)][-1] == 60.0
    assert pause.after(failed=False) == 5.0


def test_an_input_whose_lines_are_all_refused_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, told = threading.Event(), []
    looks = [Looked(3, 1), Looked(0, 0), Looked(0, 19)]

    def look(*_: object) -> Looked:
        if len(looks) == 1:
            stop.set()
        return looks.pop(0)

    def log(event: str, **facts: Any) -> None:
        told.append((event, facts["input"], facts["refused"]))

    monkeypatch.setattr(parts, "look_of", lambda *_: look)
    monkeypatch.setattr(parts, "save", lambda *_: None)
    one = Slurm(name="jobs", interval_s=0)
    parts.pull(None, one, load_catalog(), Settings(store=tmp_path), lambda: NOW, stop, log)  # type: ignore[arg-type]  # no look asks the store
    assert told == [("nothing could be read", "jobs", 19)]
