"""What a workload and a goal are, where workloads are found, and one measured run of one."""

from __future__ import annotations

import importlib
import json
import pkgutil
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from fleetmark.spared import spare_pandas

REFERENCE = "reference"


@dataclass(frozen=True, slots=True)
class Work:
    """What a run did: units, and figures of its own, such as bytes that a sample takes.

    `cpu_s`, where it is given, counts in place of the process's own: that of a server which goes on.
    """

    units: int
    figures: Mapping[str, float] = field(default_factory=dict)
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a workload in a process of its own."""

    units: int
    cpu_s: float
    wall_s: float
    peak_bytes: int
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Units per CPU second."""
        return self.units / self.cpu_s


def speed(own: Run, other: Run) -> float:
    """How many times as fast as the other, by units per CPU second."""
    return own.rate / other.rate


def cpu_share(own: Run, other: Run) -> float:
    """CPU seconds as a part of the other's, whatever the units."""
    return own.cpu_s / other.cpu_s


def cpu_each(own: Run, _other: Run) -> float:
    """CPU seconds a unit."""
    return own.cpu_s / own.units


def own(figure: str) -> Callable[[Run, Run], float]:
    """A figure of the workload's own, whatever runs beside it."""
    return lambda run, _other: run.figures[figure]


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure that a workload has to reach; fields are explained in the package's docstring."""

    figure: str
    required: float | None = None
    aim: float | None = None
    of: Callable[[Run, Run], float] = speed
    beside: str = REFERENCE
    at_most: bool = False

    def reached(self, value: float | None) -> str:
        """What holds: stretch, required, missed, or - where nothing was measured or asked."""
        bounds = (("stretch", self.aim), ("required", self.required))
        if value is None or all(bound is None for _, bound in bounds):
            return "-"
        for word, bound in bounds:
            if bound is not None and (value <= bound if self.at_most else value >= bound):
                return word
        return "missed"


@dataclass(frozen=True, slots=True)
class Workload:
    """Work worth measuring; the fields are explained in the package's docstring."""

    name: str
    doc: str
    unit: str
    prepare: Callable[[Path, float], Path]
    run: Callable[[Any], int | Work]
    load: Callable[[Path], Any] = lambda path: path
    goals: tuple[Goal, ...] = ()
    peak_limit_bytes: int | None = None
    rounds: int = 3
    grows: bool = True
    peer: str | None = None
    module: str = ""


def find() -> dict[str, Workload]:
    """Every workload of this folder and its subjects by name, in the order of files."""
    found: dict[str, Workload] = {}
    for module in pkgutil.walk_packages([str(Path(__file__).parent)], f"{__package__}."):
        if not module.name.endswith("__main__"):
            for workload in _of(module.name):
                found.setdefault(workload.name, workload)
    return found


def _of(module: str) -> list[Workload]:
    found = []
    for value in vars(importlib.import_module(module)).values():
        held = value if isinstance(value, list) else [value]
        found += [replace(one, module=module) for one in held if isinstance(one, Workload)]
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
    done = workload.run(given)
    cpu, wall = cpu_s() - cpu, time.perf_counter() - wall
    work = done if isinstance(done, Work) else Work(done)
    spent = cpu if work.cpu_s is None else work.cpu_s
    return Run(work.units, spent, wall, peak_bytes(), work.figures)


if __name__ == "__main__":
    # The measured process: `python -m fleetmark.benchmarks.workload MODULE NAME INPUT`.
    home, name, given_path = sys.argv[1:]
    # The module named __main__ is a second copy of this file: take its parts from the first.
    first = importlib.import_module("fleetmark.benchmarks.workload")
    chosen = next(w for w in first._of(home) if w.name == name)  # noqa: SLF001 - this very file
    if chosen.peer is None:
        spare_pandas()  # as every process of Fleetmark does
    print(json.dumps(asdict(first.measure(chosen, Path(given_path)))))
