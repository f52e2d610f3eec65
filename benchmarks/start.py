"""Start-up of the command line."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from .lake import command
from .workload import Goal, Workload, cpu_each

TIMES = 5


def prepare(folder: Path, _scale: float) -> Path:
    """Nothing to read."""
    return folder


def starts(_folder: Path, *, arguments: tuple[str, ...]) -> int:
    """Run the command `TIMES` times."""
    for _ in range(TIMES):
        command(*arguments)
    return TIMES


HELP = Workload(
    name="cli_start",
    doc="`fleetmark --help`, five times",
    unit="starts",
    prepare=prepare,
    run=partial(starts, arguments=("--help",)),
    goals=(Goal("CPU s a start", 0.3, 0.3, of=cpu_each, at_most=True),),
    grows=False,
)
CATALOG = Workload(
    name="catalog_start",
    doc="`fleetmark tables storage_access`, five times: every definition is read, and all SQL parsed",
    unit="starts",
    prepare=prepare,
    run=partial(starts, arguments=("tables", "storage_access")),
    goals=(Goal("CPU s a start", of=cpu_each, at_most=True),),
    grows=False,
)
