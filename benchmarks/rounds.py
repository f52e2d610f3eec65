"""A workload measured in rounds: the reference, the workload, and what it is compared with, in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import log
from pathlib import Path
from shutil import which
from statistics import median

import click

from .workload import REFERENCE, Goal, Run, Workload

# A workload is also run at 1/16 and 1/4 of its size.
STEP = 4
TELLING = 1 / 3


@dataclass(frozen=True, slots=True)
class Reached:
    """A goal and what was measured: the median of the rounds, the smallest and the largest.

    `value` is None, and `why` says so, where a peer is not here.
    """

    figure: str
    value: float | None
    low: float | None
    high: float | None
    required: float | None
    aim: float | None
    at_most: bool
    met: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the rounds; `smaller` holds a run each at a sixteenth and a quarter, of which `growth` finds `exponent`."""

    workload: str
    doc: str
    unit: str
    units: int
    scale: float
    rounds: int
    rate_per_cpu_s: float
    cpu_s: float
    wall_s: float
    peak_bytes: int
    peak_limit_bytes: int | None
    exponent: float | None
    smaller: tuple[Run, ...]
    figures: Mapping[str, float]
    goals: tuple[Reached, ...]

    @property
    def met(self) -> bool:
        """Whether nothing required is missed, memory included."""
        fits = self.peak_limit_bytes is None or self.peak_bytes < self.peak_limit_bytes
        return fits and all(goal.met != "missed" for goal in self.goals)


def fresh(workload: Workload, path: Path, peer_dir: Path | None = None) -> Run:
    """One run in a process of its own, which finds packages of `peer_dir` too if it is a peer."""
    command = [sys.executable, "-m", f"{__package__}.workload", workload.module, workload.name]
    environment = dict(os.environ)
    # Modules stay compiled, as pip leaves them: start-up must not compile anew in every run.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if peer_dir and workload.peer:
        environment["PYTHONPATH"] = str(peer_dir)
    done = subprocess.run(
        [*command, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode != 0:
        raise click.ClickException(
            f"{workload.name}: the measured process ended with code {done.returncode}; "
            f"run it alone: {' '.join(command[1:])} {path}"
        )
    return Run(**json.loads(done.stdout.splitlines()[-1]))


def present(workload: Workload, peer_dir: Path | None) -> bool:
    """Whether the module or program that a peer is is installed, or lies in `peer_dir`."""
    if workload.peer is None or find_spec(workload.peer) or which(workload.peer):
        return True
    return peer_dir is not None and any(peer_dir.glob(f"{workload.peer}*"))


def compare(
    workload: Workload,
    found: Mapping[str, Workload],
    folder: Path,
    scale: float,
    peer_dir: Path | None = None,
) -> Result:
    """Measure a workload and everything that its goals compare it with. Inputs lie in `folder`."""
    besides = dict.fromkeys([REFERENCE, *(goal.beside for goal in workload.goals)])
    others = [found[name] for name in besides if present(found[name], peer_dir)]
    path = _prepared(workload, folder, scale)
    given = {other.name: _prepared(other, folder, scale) for other in others}
    full, beside = [], []
    for _ in range(workload.rounds):
        first, *rest = others
        around = {first.name: fresh(first, given[first.name])}
        full.append(fresh(workload, path))
        around |= {other.name: fresh(other, given[other.name], peer_dir) for other in rest}
        beside.append(around)
    parts = (scale / STEP**2, scale / STEP) if workload.grows else ()
    smaller = tuple(fresh(workload, _prepared(workload, folder, part)) for part in parts)
    cpu_s = median(run.cpu_s for run in full)
    return Result(
        workload=workload.name,
        doc=workload.doc,
        unit=workload.unit,
        units=full[0].units,
        scale=scale,
        rounds=workload.rounds,
        rate_per_cpu_s=round(median(run.rate for run in full)),
        cpu_s=round(cpu_s, 2),
        wall_s=round(median(run.wall_s for run in full), 2),
        peak_bytes=max(run.peak_bytes for run in full),
        peak_limit_bytes=workload.peak_limit_bytes,
        exponent=growth([run.cpu_s for run in smaller] + [cpu_s]) if smaller else None,
        smaller=smaller,
        figures={name: median(r.figures[name] for r in full) for name in full[0].figures},
        goals=tuple(_reached(goal, full, beside) for goal in workload.goals or (Goal("x REF"),)),
    )


def _prepared(workload: Workload, folder: Path, scale: float) -> Path:
    own = folder / f"{scale:g}"
    own.mkdir(parents=True, exist_ok=True)
    return workload.prepare(own, scale)


def growth(cpu_s: Sequence[float]) -> float | None:
    """The exponent k of CPU = a + b n^k from three sizes, each `STEP` times the one before.

    (c3 - c2) / (c2 - c1) = STEP^k whatever the constant part a is, so start-up cancels. None where less than
    `TELLING` of the largest is work: the differences would be noise.
    """
    one, four, sixteen = cpu_s
    if four <= one or sixteen - one < TELLING * sixteen:
        return None
    return round(log((sixteen - four) / (four - one), STEP), 2)


def _reached(goal: Goal, own: list[Run], beside: list[dict[str, Run]]) -> Reached:
    bounds = (goal.required, goal.aim, goal.at_most)
    if goal.beside not in beside[0]:
        return Reached(
            goal.figure, None, None, None, *bounds, "-", "the peer is not installed here"
        )
    values = [goal.of(run, around[goal.beside]) for run, around in zip(own, beside, strict=True)]
    value, low, high = (float(f"{end:.4g}") for end in (median(values), min(values), max(values)))
    return Reached(goal.figure, value, low, high, *bounds, goal.reached(value))
