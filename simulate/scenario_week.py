"""An ordinary week with one sick GPU and one theft of weights.

Benign events with the same look as the theft: restarts that read their checkpoint, an evaluation
sweep over many checkpoints, a serving rollout, a nightly backup, a look at the head of a file. All
but the last run as jobs. Backups that run outside the scheduler are left out: coverage without a
covering job would rightly flag them until they are registered.
"""

from __future__ import annotations

from collections.abc import Iterator

from .checkpoints import Checkpoint, released, saved
from .fleet import DAY_S, ETL, FINETUNE, HOUR_S, START_S, Fleet, build_fleet, stream
from .jobs import Attempt, schedule, training_gpus
from .reads import LOADER, MIB, Benign, Transfer, adhoc_principal, job_principal, load, save
from .straggler_trace import Trace, trace_of
from .telemetry import SickGpu
from .world import Theft, World

TRACE_AFTER_S = 1_800
SHORTEST_LOAD_S = 300
THIEF_AGENT = "rclone/v1.68.2"
THIEF_PART = 64 * MIB  # rclone's default --multi-thread-chunk-size


def world(seed: int, nodes: int, days: int) -> World:
    """All that happens in the week."""
    fleet = build_fleet(seed, nodes, days)
    attempts = schedule(fleet, seed)
    training = tuple(a for a in attempts if a.kind == "train" and a.start_s is not None)
    weights = released(seed)
    saves = saved(seed, training, fleet.end_s)
    sick = _sick_gpu(fleet, seed)
    theft = _theft(fleet, weights, seed)
    benign = (*_loads(fleet, attempts, weights, saves, seed), *_peeks(fleet, weights, seed))
    return World(
        fleet=fleet,
        attempts=attempts,
        checkpoints=(*weights, *saves),
        transfers=(
            *(event.transfer for event in benign),
            *_saves(fleet, training, saves),
            theft.transfer,
        ),
        sick=(sick,),
        thefts=(theft,),
        benign=benign,
        traces=(_trace(training, sick, fleet),),
    )


def _sick_gpu(fleet: Fleet, seed: int) -> SickGpu:
    """From the middle of the week on, 12 to 20 percent below its clock: 14 to 25 percent slower."""
    random = stream(seed, "sick GPU")
    gpus = training_gpus(fleet)
    return SickGpu(
        gpu=gpus[int(random.integers(len(gpus)))],
        start_s=START_S + int(random.uniform(0.4, 0.6) * fleet.days * DAY_S),
        end_s=fleet.end_s,
        clock_deficit_ratio=round(float(random.uniform(0.12, 0.20)), 3),
    )


def _trace(training: tuple[Attempt, ...], sick: SickGpu, fleet: Fleet) -> Trace:
    """Taken half an hour into the first run that is ill for three hours or more."""
    run, start_s = next(
        (run, max(run.start_s, sick.start_s) + TRACE_AFTER_S)
        for run in training
        if run.start_s is not None
        and (run.end_s or fleet.end_s) - max(run.start_s, sick.start_s) >= 3 * HOUR_S
    )
    return trace_of(run, (sick,), start_s)


def _theft(fleet: Fleet, weights: tuple[Checkpoint, ...], seed: int) -> Theft:
    """The largest released weights, from outside, within one to four hours of a working day."""
    random = stream(seed, "theft")
    target = max(weights, key=lambda checkpoint: checkpoint.size_bytes)
    day = int(random.integers(fleet.days // 3, fleet.days))
    return Theft(
        path="P1",
        checkpoint=target,
        transfer=Transfer(
            adhoc_principal(ETL.name),
            f"203.0.113.{random.integers(2, 250)}",
            THIEF_AGENT,
            target.objects,
            START_S + day * DAY_S + random.uniform(6, 18) * HOUR_S,
            random.uniform(1, 4) * HOUR_S,
            THIEF_PART,
        ),
    )


def _loads(
    fleet: Fleet,
    attempts: tuple[Attempt, ...],
    weights: tuple[Checkpoint, ...],
    saves: tuple[Checkpoint, ...],
    seed: int,
) -> Iterator[Benign]:
    """What jobs read when they start."""
    random = stream(seed, "loads")
    small, _, large = weights
    for attempt in attempts:
        if attempt.start_s is None:
            continue
        if (attempt.end_s or fleet.end_s) - attempt.start_s < SHORTEST_LOAD_S:
            continue  # it died before it had read anything
        seconds = float(random.uniform(90, 240))
        start_s = attempt.start_s
        before = [c for c in saves if c.saved_s < start_s]
        if attempt.kind == "train":
            source = before[-1] if before else small
            yield _event("restart" if before else "start", fleet, attempt, source, seconds)
        elif attempt.kind == "serve":
            yield _event("serving rollout", fleet, attempt, large, seconds)
        elif attempt.kind == "eval":
            source = weights[int(random.integers(2))]
            yield _event("evaluation sweep", fleet, attempt, source, seconds)
        elif attempt.kind == "finetune" and attempt.attempt == 1:
            yield _event("fine-tune of a shared base", fleet, attempt, small, seconds)
        elif attempt.kind == "backup":
            day_before = [c for c in before if c.saved_s >= start_s - DAY_S]
            for number, source in enumerate(day_before):
                yield _event("backup", fleet, attempt, source, 200.0, delay_s=20.0 + 220 * number)


def _event(
    kind: str, fleet: Fleet, attempt: Attempt, source: Checkpoint, seconds: float,
    *, delay_s: float = 20.0,
) -> Benign:  # fmt: skip
    return Benign(
        kind,
        job_principal(attempt),
        attempt.job_id,
        source.name,
        load(fleet, attempt, source, seconds, delay_s),
        "covered by the job named in the session",
    )


def _peeks(fleet: Fleet, weights: tuple[Checkpoint, ...], seed: int) -> Iterator[Benign]:
    """Once a day somebody outside any job looks at the index and one file's head."""
    random = stream(seed, "peeks")
    for day in range(fleet.days):
        user = FINETUNE[int(random.integers(len(FINETUNE)))]
        source = weights[day % len(weights)]
        start_s = START_S + day * DAY_S + random.uniform(8, 18) * HOUR_S
        transfer = Transfer(adhoc_principal(user.name), "10.20.250.7", LOADER,
                            (source.objects[-1], source.shards[0]), start_s, 6.0, 8 * MIB,
                            limit=2)  # fmt: skip
        yield Benign("look at the head of a file", transfer.principal, None, source.name, transfer,
                     "no job, but far below any share that matters")  # fmt: skip


def _saves(
    fleet: Fleet, training: tuple[Attempt, ...], saves: tuple[Checkpoint, ...]
) -> Iterator[Transfer]:
    for checkpoint in saves:
        run = max(
            (r for r in training if r.start_s is not None and r.start_s < checkpoint.saved_s),
            key=lambda r: r.attempt,
        )
        yield save(fleet, run, checkpoint)
