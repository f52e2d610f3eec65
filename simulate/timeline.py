"""Training jobs second by second, with the true owner of each: what a goodput ledger is judged by.

A job runs in attempts until the window ends. Each starts up (a later one loads the last checkpoint), steps,
evaluates and saves, is slowed for hours by one cause or another, and ends: completed, preempted, forgotten
(its GPUs idle), or failed, which somebody notices minutes later. The next one begins again at the last
checkpoint. Lengths and rates are stated beside their constants.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from .fleet import DAY_S, GPUS_PER_NODE, HOUR_S, START_S, stream

# Least and most of what is drawn, log-uniform, in s. Steps of public logs take 2 to 107 s (AR, ST,
# BLOOM); MLPerf's runs start up in 150 to 470 s and evaluate in 7 to 30 s; Slurm notices a lost node
# after SlurmdTimeout (300 s).
STEP_S, INIT_S, LOAD_S, SAVE_S, EVAL_S, HANG_S = (
    (3, 60),
    (60, 600),
    (20, 240),
    (5, 60),
    (10, 180),
    (60, 900),
)
SAVE_EVERY_S, EVAL_EVERY_S, ATTEMPT_S = (900, 3_600), (1_800, 7_200), (3 * HOUR_S, 18 * HOUR_S)
NOISE = (0.005, 0.03)  # of a job's steps: the traces' 0.7 to 2.5 % and a little beyond
RANK_NOISE, COMPILE, PREEMPT_S, CLOSING_S = 0.004, (2.0, 12.0), 30.0, 3.0
# How much longer steps take, and for how long.
SLOW = {
    "data_stall": ((0.2, 1.0), (600, 3_600)),
    "communication_stall": ((0.1, 0.4), (1_200, 5_400)),
    "straggler": ((0.06, 0.3), (HOUR_S, 4 * HOUR_S)),
    "throttle": ((0.08, 0.25), (HOUR_S, 3 * HOUR_S)),
    "silent_degradation": ((0.06, 0.15), (2 * HOUR_S, 5 * HOUR_S)),
}
ENDS = ("NODE_FAIL", "FAILED", "PREEMPTED", "COMPLETED", "IDLE")
END_SHARES = (0.35, 0.2, 0.2, 0.15, 0.1)


@dataclass(frozen=True, slots=True)
class Slowdown:
    """What makes steps longer by `ratio` from start_s to end_s; `rank` is the one it hits."""

    cause: str
    start_s: float
    end_s: float
    ratio: float
    rank: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step: how long it took, of which ideal_s is its ideal part and `slow` owns the rest."""

    number: int
    start_s: float
    length_s: float
    ideal_s: float
    slow: Slowdown | None


@dataclass(slots=True)
class Run:
    """One attempt. `phases` holds what is no step: owner, start, end. `state` as the scheduler says."""

    attempt: int
    start_s: float
    number: int
    end_s: float = 0.0
    state: str = "RUNNING"
    steps: list[Step] = field(default_factory=list)
    phases: list[tuple[str, float, float]] = field(default_factory=list)
    slowdowns: list[Slowdown] = field(default_factory=list)
    saved: list[tuple[float, int]] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """A job on its nodes, with its runs. `log_every`: its log prints the mean of so many steps."""

    job_id: str
    nodes: tuple[str, ...]
    step_s: float
    noise: float
    log_every: int
    runs: list[Run] = field(default_factory=list)

    @property
    def ranks(self) -> int:
        return GPUS_PER_NODE * len(self.nodes)


def jobs(seed: int, count: int, days: int) -> list[Job]:
    """`count` jobs of 8 to 32 GPUs over `days`."""
    random = stream(seed, "timeline")
    found = []
    for number in range(count):
        size = int(random.choice((1, 2, 4)))
        nodes = tuple(f"t{number:02d}{node}" for node in range(size))
        job = Job(f"{9_000 + number}", nodes, _draw(random, STEP_S), _draw(random, NOISE),
                  int(random.choice((1, 1, 10))))  # fmt: skip
        _live(job, random, START_S + days * DAY_S)
        found.append(job)
    return found


def _draw(random: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(np.exp(random.uniform(*np.log(bounds))))


def _live(job: Job, random: np.random.Generator, until_s: float) -> None:
    """Attempts until the window's end; the last one runs on."""
    start_s, resume = START_S + float(random.uniform(60, 3_600)), 0
    while start_s < until_s - HOUR_S:
        run = Run(int(start_s) - 5, float(int(start_s)), len(job.runs))
        job.runs.append(run)
        _attempt(job, run, random, resume, until_s)
        resume = run.saved[-1][1] if run.saved else resume
        if run.state in {"RUNNING", "COMPLETED"}:
            return
        start_s = run.end_s + float(random.uniform(5, 600))


def _attempt(job: Job, run: Run, random: np.random.Generator, resume: int, until_s: float) -> None:
    """One attempt from its start to its end."""
    at_s = _start_up(run, random)
    stop_s = min(until_s, run.start_s + _draw(random, ATTEMPT_S))
    _slowdowns(job, run, random, at_s + 1_800, stop_s)
    save_s, eval_s = _draw(random, SAVE_EVERY_S), _draw(random, EVAL_EVERY_S)
    save_at, eval_at, number = at_s + save_s, at_s + eval_s, resume
    compile_ratio = _draw(random, COMPILE)
    while at_s < stop_s:
        step = _step(job, run, random, number, at_s, compile_ratio)
        run.steps.append(step)
        at_s, number = at_s + step.length_s, number + 1
        if at_s >= eval_at:
            at_s = _phase(run, "evaluation", at_s, _draw(random, EVAL_S))
            eval_at = at_s + eval_s
        if at_s >= save_at:
            at_s = _phase(run, "checkpoint_save", at_s, _draw(random, SAVE_S))
            run.saved.append((at_s, number))
            save_at = at_s + save_s
    _end(run, random, at_s, until_s)


def _phase(run: Run, owner: str, start_s: float, lasts_s: float) -> float:
    run.phases.append((owner, start_s, start_s + lasts_s))
    return start_s + lasts_s


def _start_up(run: Run, random: np.random.Generator) -> float:
    owner = "restart" if run.number else "init"
    at_s = _phase(run, owner, run.start_s, _draw(random, INIT_S))
    return _phase(run, "checkpoint_load", at_s, _draw(random, LOAD_S)) if run.number else at_s


def _slowdowns(
    job: Job, run: Run, random: np.random.Generator, from_s: float, until_s: float
) -> None:
    """One cause after the other, with an hour or more between them."""
    at_s = from_s + float(random.uniform(0, 2 * HOUR_S))
    while at_s < until_s - HOUR_S:
        cause = str(random.choice(tuple(SLOW)))
        ratio, lasts_s = (_draw(random, bounds) for bounds in SLOW[cause])
        end_s = min(until_s, at_s + lasts_s)
        run.slowdowns.append(Slowdown(cause, at_s, end_s, ratio, int(random.integers(job.ranks))))
        at_s = end_s + float(random.uniform(HOUR_S, 5 * HOUR_S))


def _step(
    job: Job, run: Run, random: np.random.Generator, number: int, at_s: float, compile_ratio: float
) -> Step:
    slow = next((s for s in run.slowdowns if s.start_s <= at_s < s.end_s), None)
    ideal_s = job.step_s * (1 + job.noise * float(random.standard_normal()))
    ratio = slow.ratio if slow else 0.0 if run.steps else compile_ratio
    return Step(number, at_s, ideal_s * (1 + ratio), ideal_s, slow)


def _end(run: Run, random: np.random.Generator, at_s: float, until_s: float) -> None:
    """How it ends; what is not over by the window's end goes on."""
    if at_s >= until_s:
        run.end_s = at_s
        return
    end = str(random.choice(ENDS, p=END_SHARES))
    owner, lasts_s = {
        "PREEMPTED": ("preemption", PREEMPT_S),
        "COMPLETED": ("unexplained", CLOSING_S),
        "IDLE": ("idle", float(random.uniform(1, 4)) * HOUR_S),
    }.get(end, ("hang_detection", _draw(random, HANG_S)))
    end_s = float(np.ceil(at_s + lasts_s))
    if end_s <= until_s:
        run.state = "COMPLETED" if end == "IDLE" else end
    run.end_s = min(end_s, until_s)
    run.phases.append((owner, at_s, run.end_s))


def owners(job: Job) -> dict[int, dict[str, float]]:
    """True seconds per attempt and owner. `slow` holds what in productive steps is beyond the ideal.

    Lost are steps that a later run did again, and of a last run that ended badly what no checkpoint holds.
    """
    found: dict[int, dict[str, float]] = {}
    saved = 0
    for run, later in zip(job.runs, [*job.runs[1:], None], strict=True):
        saved = run.saved[-1][1] if run.saved else saved
        goes_on = later is None and run.state in {"RUNNING", "COMPLETED"}
        own: dict[str, float] = defaultdict(float)
        for owner, start_s, end_s in run.phases:
            own[owner] += end_s - start_s
        for step in run.steps:
            excess_s = step.length_s - step.ideal_s
            if not goes_on and step.number >= saved:
                own["lost_work"] += step.length_s
                continue
            own["productive"] += step.ideal_s
            first = "restart" if run.number else "init"
            own[step.slow.cause if step.slow else first] += excess_s
            own["slow"] += excess_s if step.slow else 0.0
        found[run.attempt] = own
    return found
