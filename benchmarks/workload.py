"""What a workload is, where workloads are found, and one measured run of one."""

from __future__ import annotations

import importlib
import json
import pkgutil
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Workload:
    """Work worth measuring; the fields are explained in the package's docstring."""

    name: str
    doc: str
    unit: str
    prepare: Callable[[Path, float], Path]
    run: Callable[[Any], int]
    load: Callable[[Path], Any] = lambda path: path
    required: float | None = None
    aim: float | None = None
    peak_limit_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workload in a process of its own."""

    units: int
    cpu_s: float
    wall_s: float
    peak_bytes: int

    @property
    def rate(self) -> float:
        """Units per CPU second."""
        return self.units / self.cpu_s


def find() -> dict[str, Workload]:
    """Every workload of this folder by name, in the order of files."""
    found: dict[str, Workload] = {}
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("_"):
            continue
        for value in vars(importlib.import_module(f".{module.name}", __package__)).values():
            if isinstance(value, Workload):
                found[value.name] = value
    return found


def cpu_s() -> float:
    """User and system time of this process, its threads and its finished children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def peak_bytes() -> int:
    """Largest resident set so far of this process or of one of its finished children.

    This process's own comes from VmHWM where the kernel shows it: `ru_maxrss` of a process also
    holds what its parent had mapped at the fork.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    status = Path("/proc/self/status")
    if not status.exists():
        return max(children, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    line = next(x for x in status.read_text(encoding="ascii").splitlines() if "VmHWM" in x)
    return max(children, int(line.split()[1]) * 1024)


def measure(workload: Workload, path: Path) -> Run:
    """Run a workload here and now, once."""
    given = workload.load(path)
    cpu, wall = cpu_s(), time.perf_counter()
    units = workload.run(given)
    return Run(units, cpu_s() - cpu, time.perf_counter() - wall, peak_bytes())


if __name__ == "__main__":
    # The measured process: `python -m fleetmark.benchmarks.workload NAME INPUT`.
    name, given_path = sys.argv[1:]
    # The module named __main__ is a second copy of this file: take both parts from the first.
    first = importlib.import_module("fleetmark.benchmarks.workload")
    print(json.dumps(asdict(first.measure(first.find()[name], Path(given_path)))))
