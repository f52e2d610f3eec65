"""Two ingests at the same time into one lake, beside one that reads both files."""

from __future__ import annotations

import shutil
from pathlib import Path

from fleetmark.catalog import load_catalog
from fleetmark.store import Store

from .lake import command, started
from .logs.access_lines import write_lines
from .workload import Goal, Run, Workload

LINES = 2_000_000


def prepare(folder: Path, scale: float) -> Path:
    """Two files of a million access lines each at scale 1, what differs in them being their length, and a new lake."""
    target = folder / "two"
    target.mkdir(exist_ok=True)
    for number in range(2):
        write_lines(target / f"{number}.log", max(100, round(LINES * scale / 2)) - number)
    with Store(_new(target)) as store:
        store.ensure(load_catalog().tables.values())
    return target


def _new(folder: Path) -> Path:
    return folder.with_name("two-new")


def _lake(folder: Path) -> Path:
    return folder.with_name("two-lake")


def _begin(folder: Path) -> None:
    """A lake with all tables and no rows: making one costs as much as reading 200,000 lines."""
    shutil.rmtree(_lake(folder), ignore_errors=True)
    shutil.copytree(_new(folder), _lake(folder))


def _command(folder: Path, *names: str) -> tuple[str, ...]:
    paths = [str(folder / name) for name in names]
    return ("ingest", "s3_access", *paths, "--set", "cluster=bench", "--store", str(_lake(folder)))


def one(folder: Path) -> int:
    """Both files by one command: files."""
    _begin(folder)
    command(*_command(folder, "0.log", "1.log"))
    return 2


def two(folder: Path) -> int:
    """A command a file, at the same time. Raises RuntimeError when one fails."""
    _begin(folder)
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
    doc="two files of access lines, 2 M lines at scale 1, by one `fleetmark ingest` into a lake without rows",
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
