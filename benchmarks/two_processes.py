"""Two ingests at the same time into one lake, beside one that reads both files."""

from __future__ import annotations

import shutil
from pathlib import Path

from .lake import command, started
from .logs.access_lines import write_lines
from .workload import Goal, Run, Workload

LINES = 2_000_000


def prepare(folder: Path, scale: float) -> Path:
    """Two files of a million access lines each at scale 1; what differs in them is their length."""
    target = folder / "two"
    target.mkdir(exist_ok=True)
    for number in range(2):
        write_lines(target / f"{number}.log", max(100, round(LINES * scale / 2)) - number)
    return target


def _command(folder: Path, *names: str) -> tuple[str, ...]:
    paths = [str(folder / name) for name in names]
    store = str(folder.with_name("two-lake"))
    return ("ingest", "s3_access", *paths, "--set", "cluster=bench", "--store", store)


def one(folder: Path) -> int:
    """Both files by one command: files."""
    shutil.rmtree(folder.with_name("two-lake"), ignore_errors=True)
    command(*_command(folder, "0.log", "1.log"))
    return 2


def two(folder: Path) -> int:
    """A command a file, at the same time. Raises RuntimeError when one fails."""
    shutil.rmtree(folder.with_name("two-lake"), ignore_errors=True)
    running = [started(*_command(folder, name)) for name in ("0.log", "1.log")]
    codes = [process.wait() for process in running]
    if any(codes):
        raise RuntimeError("an ingest failed")
    return 2


def wall_gain(own: Run, other: Run) -> float:
    """How many times as soon done, by the clock on the wall."""
    return other.wall_s / own.wall_s


ONE = Workload(
    name="one_process",
    doc="two files of access lines, 2 M lines at scale 1, by one `fleetmark ingest`",
    unit="files",
    prepare=prepare,
    run=one,
)
TWO = Workload(
    name="two_processes",
    doc="the same two files by two commands at the same time into one lake; by the clock on the wall, so only a quiet "
    "machine of two cores and more shows it",
    unit="files",
    prepare=prepare,
    run=two,
    goals=(Goal("x one process, wall", 1.6, 1.85, of=wall_gain, beside=ONE.name),),
)
