"""Jobs: who asks for what, where it runs, how it ends. No GPU ever holds two jobs at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from .fleet import (
    BACKUP,
    DAY_S,
    ETL,
    EVAL,
    FINETUNE,
    HOUR_S,
    SERVE,
    START_S,
    TRAIN,
    Fleet,
    Gpu,
    User,
    stream,
)

FIRST_JOB_ID = 41_000
REQUEUE_DELAY_S = 121  # Slurm holds a requeued job for two minutes (BeginTime)

# Final states of GPU jobs of a production A100 cluster (Kalos): 54.1 % completed, 6.2 % cancelled,
# 39.7 % failed (Hu et al., "Characterization of Large Language Model Development in the
# Datacenter", NSDI 2024, figure bar_job_state (a)). How failures divide is an assumption.
STATES = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY")
STATE_SHARES = (0.541, 0.062, 0.337, 0.040, 0.020)
EXIT_CODES = {"FAILED": "1:0", "OUT_OF_MEMORY": "0:125", "NODE_FAIL": "0:0"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job: what one line of `sacct -X -D` says.

    start_s and end_s are None while it has not started or not ended; times are epoch seconds.
    `ip` is the first node's address (or the submit host's, before it starts).
    """

    job_id: int
    attempt: int
    name: str
    user: User
    kind: str
    submit_s: int
    timelimit_s: int
    gpus_asked: int
    cpus: int
    eligible_s: int = 0
    start_s: int | None = None
    end_s: int | None = None
    state: str = "PENDING"
    node_names: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    array_id: str = ""

    @property
    def begin_s(self) -> int:
        """The start of an attempt that has started."""
        if self.start_s is None:
            raise ValueError(f"job {self.job_id} has not started")
        return self.start_s

    @property
    def exit_code(self) -> str:
        return EXIT_CODES.get(self.state, "0:0")


@dataclass(frozen=True, slots=True)
class _Request:
    """A job as submitted, and how long and to what end it would run."""

    submit_s: int
    name: str
    user: User
    kind: str
    gpus: int
    run_s: int
    state: str = "COMPLETED"
    array_task: int = -1


class _Pool:
    """GPUs that are given out first come, first served; a job's GPUs lie in one node."""

    def __init__(self, gpus: tuple[Gpu, ...]) -> None:
        self.free_at: dict[str, dict[Gpu, int]] = {}
        for gpu in gpus:
            self.free_at.setdefault(gpu.node, {})[gpu] = START_S

    def find(self, count: int, ready_s: int) -> tuple[int, tuple[Gpu, ...]] | None:
        """The earliest start from `ready_s` on and the GPUs; None if no node is large enough."""
        best: tuple[int, tuple[Gpu, ...]] | None = None
        for free in self.free_at.values():
            if len(free) < count:
                continue
            chosen = sorted(free, key=lambda gpu: (free[gpu], gpu.index))[:count]
            start_s = max(ready_s, free[chosen[-1]] + 2)
            if best is None or start_s < best[0]:
                best = (start_s, tuple(chosen))
        return best

    def take(self, gpus: tuple[Gpu, ...], until_s: int) -> None:
        for gpu in gpus:
            self.free_at[gpu.node][gpu] = until_s


def training_gpus(fleet: Fleet) -> tuple[Gpu, ...]:
    """The GPUs of the long training job: half of the fleet in whole nodes, 64 at most."""
    if len(fleet.nodes) == 1:
        return fleet.gpus[:4]
    return tuple(g for node in fleet.nodes[: min(8, len(fleet.nodes) // 2)] for g in node.gpus)


def schedule(fleet: Fleet, seed: int) -> tuple[Attempt, ...]:
    """Every attempt of every job, in order of submission."""
    random = stream(seed, "jobs")
    busy = training_gpus(fleet)
    pool = _Pool(tuple(gpu for gpu in fleet.gpus if gpu not in set(busy)))
    attempts: list[Attempt] = []
    array_first: dict[tuple[str, int], int] = {}
    for offset, request in enumerate(sorted(_requests(fleet, random), key=lambda r: r.submit_s)):
        job_id = FIRST_JOB_ID + offset
        first = _attempt_of(request, job_id)
        if request.array_task >= 0:
            parent = array_first.setdefault((request.name, request.submit_s), job_id)
            first = replace(first, array_id=f"{parent}_{request.array_task}")
        if request.kind == "train":
            attempts += _training_runs(fleet, random, first, busy)
        elif request.gpus == 0:
            attempts.append(_cpu_run(fleet, first, request))
        else:
            attempts += _pool_runs(fleet, random, pool, first, request)
    return tuple(sorted(attempts, key=lambda a: (a.submit_s, a.job_id, a.attempt)))


def _attempt_of(request: _Request, job_id: int) -> Attempt:
    over = 1 if request.state == "TIMEOUT" else 2
    return Attempt(
        job_id,
        1,
        request.name,
        request.user,
        request.kind,
        request.submit_s,
        timelimit_s=max(60, -(-request.run_s * over // 60) * 60),
        gpus_asked=request.gpus,
        cpus=max(4, 12 * request.gpus),
        eligible_s=request.submit_s,
    )


def _requests(fleet: Fleet, random: np.random.Generator) -> Iterator[_Request]:
    """What the users of a fleet of this size submit."""
    small_gpus = len(fleet.gpus) - len(training_gpus(fleet))
    yield _Request(START_S + 300, "llm-7b-continue", TRAIN, "train", 0, fleet.days * DAY_S)
    replica_s = fleet.days * DAY_S // 2
    for number in range(2):  # a rollout: the second replica replaces the first
        submit_s = START_S + 400 + number * replica_s
        yield _Request(submit_s, f"serve-llm-70b-v{number + 1}", SERVE, "serve", 2, replica_s - 600)
    for day in range(fleet.days):
        begin_s = START_S + day * DAY_S
        backup_s = int(random.integers(1800, 3600))
        yield _Request(begin_s + 2 * HOUR_S, "backup-checkpoints", BACKUP, "backup", 0, backup_s)
        yield _Request(begin_s + HOUR_S, "prep-tokens", ETL, "prep", 0, backup_s)
        sweep_s = begin_s + int(random.integers(8, 18)) * HOUR_S + int(random.integers(0, 3000))
        for task in range(4 + small_gpus // 2):
            run_s = int(random.integers(600, 2400))
            yield _Request(sweep_s, "eval-sweep", EVAL, "eval", 1, run_s, array_task=task)
        for _ in range(small_gpus):
            yield _interactive(random, begin_s)


def _interactive(random: np.random.Generator, begin_s: int) -> _Request:
    """A fine-tune, a notebook or a debug run, at any time of the day, ending as jobs do."""
    kind = str(random.choice(("finetune", "notebook", "debug"), p=(0.4, 0.25, 0.35)))
    median_s = {"finetune": 3 * HOUR_S, "notebook": 2 * HOUR_S, "debug": 240}[kind]
    state = str(random.choice(STATES, p=STATE_SHARES))
    run_s = int(median_s * np.exp(random.normal(0, 0.6)))
    if state in {"FAILED", "OUT_OF_MEMORY"}:
        run_s = max(5, run_s // 4)
    user = FINETUNE[int(random.integers(len(FINETUNE)))]
    gpus = 2 if kind == "finetune" else 1
    return _Request(begin_s + int(random.integers(DAY_S)), kind, user, kind, gpus, run_s, state)


def _clipped(attempt: Attempt, end_of_window_s: int) -> Attempt:
    """The attempt as it stands when the records are read at the end of the window."""
    if attempt.start_s is not None and attempt.start_s >= end_of_window_s:
        return replace(attempt, start_s=None, end_s=None, state="PENDING", node_names=(), gpus=())
    if attempt.end_s is not None and attempt.end_s >= end_of_window_s:
        return replace(attempt, end_s=None, state="RUNNING")
    return attempt


def _cpu_run(fleet: Fleet, first: Attempt, request: _Request) -> Attempt:
    start_s = first.submit_s + 3
    ran = replace(
        first,
        start_s=start_s,
        end_s=start_s + request.run_s,
        state=request.state,
        node_names=(fleet.nodes[-1].name,),
    )
    return _clipped(ran, fleet.end_s)


def _pool_runs(
    fleet: Fleet, random: np.random.Generator, pool: _Pool, first: Attempt, request: _Request
) -> Iterator[Attempt]:
    """Runs on shared GPUs: now and then cancelled while it waits, or preempted and run again."""
    found = pool.find(request.gpus, first.eligible_s + int(random.integers(1, 20)))
    if found is None:
        return
    start_s, gpus = found
    if request.state == "CANCELLED" and random.random() < 0.3:
        end_s = first.submit_s + int(random.integers(5, 600))
        if end_s < min(start_s, fleet.end_s):
            yield replace(first, end_s=end_s, state="CANCELLED")
            return
    run = replace(first, start_s=start_s, gpus=gpus, node_names=(gpus[0].node,))
    run_s = request.run_s
    if request.kind == "finetune" and random.random() < 0.1:
        cut_s = start_s + max(60, run_s // 3)
        pool.take(gpus, cut_s)
        yield _clipped(replace(run, end_s=cut_s, state="PREEMPTED"), fleet.end_s)
        if cut_s >= fleet.end_s:
            return
        ready_s = cut_s + REQUEUE_DELAY_S
        again = pool.find(request.gpus, ready_s) or (ready_s, gpus)
        run = replace(run, attempt=2, submit_s=cut_s, eligible_s=ready_s, start_s=again[0],
                      gpus=again[1], node_names=(again[1][0].node,))  # fmt: skip
    pool.take(run.gpus, run.begin_s + run_s)
    yield _clipped(replace(run, end_s=run.begin_s + run_s, state=request.state), fleet.end_s)


def _training_runs(
    fleet: Fleet, random: np.random.Generator, first: Attempt, gpus: tuple[Gpu, ...]
) -> Iterator[Attempt]:
    """One job over the whole window, requeued after each failure; the last run goes on."""
    runs = max(2, round(fleet.days / 1.75))
    lengths = random.dirichlet(np.full(runs, 6.0)) * (fleet.days * DAY_S)
    node_names = tuple(sorted({gpu.node for gpu in gpus}))
    submit_s = first.submit_s
    for number, length in enumerate(lengths, start=1):
        eligible_s = submit_s + (REQUEUE_DELAY_S if number > 1 else 0)
        start_s = eligible_s + int(random.integers(4, 40))
        end_s = start_s + int(length) if number < runs else fleet.end_s
        state = str(random.choice(("NODE_FAIL", "REQUEUED")))
        run = replace(first, attempt=number, submit_s=submit_s, eligible_s=eligible_s,
                      timelimit_s=30 * DAY_S, start_s=start_s, end_s=end_s, state=state,
                      gpus=gpus, node_names=node_names, gpus_asked=len(gpus),
                      cpus=12 * len(gpus))  # fmt: skip
        clipped = _clipped(run, fleet.end_s)
        yield clipped
        if clipped.end_s is None:
            return
        submit_s = end_s
