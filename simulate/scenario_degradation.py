"""GPUs that fall behind their peers without a bit set, among everything that looks like it.

Jobs of one to many nodes, half of them with step records; training jobs have pipeline stages; a
serving node; a node that small jobs share. Per week and 128 GPUs (in proportion for other sizes):
FAULTS of each kind that slows one GPU, effects 5, 8, 12 and 20 %, three hours to a day long, each
beginning in a running job of at least four GPUs with three hours to go; and the others of OTHERS and SHARED.
Every attempt warms up, training pauses for checkpoints; half of the training jobs have one stage with
6 to 15 % more work; in a fifth of the other jobs work moves between GPUs by 2 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from .fleet import (
    DAY_S,
    FINETUNE,
    GPUS_PER_NODE,
    HOUR_S,
    SERVE,
    START_S,
    TRAIN,
    Fleet,
    Gpu,
    Node,
    User,
    build_fleet,
    stream,
)
from .incidents import Incident
from .jobs import FIRST_JOB_ID, Attempt
from .world import World

REFERENCE_GPU_DAYS = 128 * 7
EFFECTS = (0.05, 0.08, 0.12, 0.20)
FAULTS = {"clock_deficit": 4, "power_limit": 4, "hbm_slow": 4, "slow_compute": 4,
          "thermal_slowdown": 4}  # fmt: skip
Rates = Mapping[str, tuple[int, float, float, float, float, str]]
# kind: incidents, shortest and longest in hours, least and greatest effect, whom it hits
OTHERS: Rates = {
    "fleet_cap": (1, 3, 12, 0.10, 0.25, "fleet"),
    "rack_inlet": (4, 4, 24, 0.03, 0.10, "rack"),
    "job_slowdown": (4, 2, 12, 0.05, 0.40, "job"),
    "data_stall": (6, 0.2, 2, 0.30, 0.90, "job"),
    "driver_reload": (2, 0.1, 0.3, 0, 0, "node"),
    "missed_scrapes": (4, 0.1, 2, 0, 0, "node"),
    "frozen_exporter": (2, 0.5, 6, 0, 0, "node"),
    "gpu_lost": (1, 2, 24, 0, 0, "gpu"),
    "sentinels": (6, 1, 24, 0, 0, "gpu"),
    "counter_reset": (3, 1, 1, 0, 0, "gpu"),
}
# The same for GPUs that tenants share, never one that is sick at the time. Nobody publishes how many are.
SHARED: Rates = {
    "mig_partitioned": (2, 6, 48, 0.3, 0.7, "gpu"),
    "time_sliced": (2, 6, 48, 0.2, 0.6, "serve"),
}
SYNCHRONOUS = ("train", "finetune")
WARM_UP_S = 600


def world(seed: int, nodes: int, days: int) -> World:
    """All that happens."""
    fleet = build_fleet(seed, nodes, days)
    random = stream(seed, "degradation")
    attempts = tuple(_jobs(fleet, random))
    stages = {a: _stages(a, random) for a in attempts if a.kind in SYNCHRONOUS}
    incidents = (
        *_of_jobs(fleet, attempts, stages, random),
        *_others(OTHERS, fleet, attempts, random),
        *(faults := tuple(_faults(fleet, attempts, random))),
        *_well(_others(SHARED, fleet, attempts, stream(seed, "sharing")), faults),
    )
    recorded = {a: stage for a, stage in stages.items() if random.random() < 0.5}
    return World(fleet, attempts, incidents=incidents, stages=recorded, every_s=60)


def _jobs(fleet: Fleet, random: np.random.Generator) -> Iterator[Attempt]:
    """Half of the nodes train one job after the other; the rest hold jobs of one to four nodes."""
    number = iter(range(FIRST_JOB_ID, FIRST_JOB_ID + 1_000_000))
    nodes = list(fleet.nodes)
    shared, serving = (nodes.pop(), nodes.pop()) if len(nodes) > 3 else (None, None)
    half = max(1, len(nodes) // 2)
    yield from _one_after_another(fleet, random, nodes[:half], "train", TRAIN, number, (20, 72))
    rest = nodes[half:]
    while rest:
        size = min(len(rest), int(random.choice((1, 1, 2, 4))))
        mine, rest = rest[:size], rest[size:]
        user = FINETUNE[int(random.integers(len(FINETUNE)))]
        yield from _one_after_another(fleet, random, mine, "finetune", user, number, (6, 48))
    if serving is not None:
        yield from _one_after_another(fleet, random, [serving], "serve", SERVE, number, (24, 96))
    if shared is not None:
        for index in range(0, GPUS_PER_NODE, 2):
            user = FINETUNE[index % len(FINETUNE)]
            yield from _one_after_another(
                fleet, random, [shared], "finetune", user, number, (1, 12), shared.gpus[index : index + 2]
            )  # fmt: skip


def _one_after_another(
    fleet: Fleet,
    random: np.random.Generator,
    nodes: list[Node],
    kind: str,
    user: User,
    number: Iterator[int],
    hours: tuple[int, int],
    gpus: tuple[Gpu, ...] | None = None,
) -> Iterator[Attempt]:
    """Jobs on the same GPUs with gaps of ten minutes to two hours between; the last one runs on."""
    start_s = START_S + int(random.integers(60, HOUR_S))
    held = gpus or tuple(gpu for node in nodes for gpu in node.gpus)
    while start_s < fleet.end_s - HOUR_S:
        end_s = start_s + int(random.uniform(*hours) * HOUR_S)
        runs_on = end_s >= fleet.end_s
        yield Attempt(
            job_id=next(number),
            attempt=1,
            name=f"{kind}-{len(held)}",
            user=user,
            kind=kind,
            submit_s=start_s - 30,
            timelimit_s=30 * DAY_S,
            gpus_asked=len(held),
            cpus=12 * len(held),
            eligible_s=start_s - 30,
            start_s=start_s,
            end_s=None if runs_on else end_s,
            state="RUNNING" if runs_on else "COMPLETED",
            node_names=tuple(sorted({gpu.node for gpu in held})),
            gpus=held,
        )
        start_s = end_s + int(random.integers(600, 2 * HOUR_S))


def _stages(attempt: Attempt, random: np.random.Generator) -> tuple[int, ...]:
    """The pipeline stage of each GPU: training has two, four or eight stages of whole nodes."""
    nodes = len(attempt.node_names)
    choices = [pp for pp in (2, 4, 8) if nodes % pp == 0 and attempt.kind == "train"] or [1]
    pp = int(random.choice(choices))
    return tuple(rank * pp // len(attempt.gpus) for rank in range(len(attempt.gpus)))


def _of_jobs(
    fleet: Fleet,
    attempts: tuple[Attempt, ...],
    stages: dict[Attempt, tuple[int, ...]],
    random: np.random.Generator,
) -> Iterator[Incident]:
    """What every job has (warm-up, checkpoints) and some have (uneven work)."""
    for attempt in attempts:
        start_s, end_s = attempt.begin_s, attempt.end_s or fleet.end_s
        yield Incident("warm_up", attempt.gpus, start_s, start_s + WARM_UP_S, 0.8)
        if attempt.kind == "train":
            yield Incident("checkpoint_pause", attempt.gpus, start_s, end_s)
        if attempt.kind == "train" and random.random() < 0.5:
            last = max(stages[attempt])
            heavy = tuple(
                g for g, s in zip(attempt.gpus, stages[attempt], strict=True) if s == last
            )
            effect = float(random.uniform(0.06, 0.15))
            yield Incident("uneven_stages", heavy, start_s, end_s, effect)
        if attempt.kind == "finetune" and random.random() < 0.2:
            yield Incident("uneven_work", attempt.gpus, start_s, end_s, 0.02)


def _number(fleet: Fleet, per_reference: int, random: np.random.Generator) -> int:
    """How many of something for a fleet of this size: the whole part, and one more by chance."""
    expected = per_reference * len(fleet.gpus) * fleet.days / REFERENCE_GPU_DAYS
    return int(expected) + int(random.random() < expected % 1)


def _others(
    rates: Rates, fleet: Fleet, attempts: tuple[Attempt, ...], random: np.random.Generator
) -> Iterator[Incident]:
    """Benign twins, and faults that slow nobody."""
    for kind, (count, shortest, longest, least, greatest, whom) in rates.items():
        for _ in range(_number(fleet, count, random)):
            lasts_s = float(random.uniform(shortest, longest)) * HOUR_S
            start_s = float(random.uniform(START_S, fleet.end_s - lasts_s))
            effect = float(random.uniform(least, greatest))
            gpus = _whom(whom, fleet, attempts, random)
            yield Incident(kind, gpus, start_s, start_s + lasts_s, effect)


def _whom(
    whom: str, fleet: Fleet, attempts: tuple[Attempt, ...], random: np.random.Generator
) -> tuple[Gpu, ...]:
    node = fleet.nodes[int(random.integers(len(fleet.nodes)))]
    rack = tuple(g for other in fleet.nodes if other.rack == node.rack for g in other.gpus)
    job = attempts[int(random.integers(len(attempts)))].gpus
    gpu = node.gpus[int(random.integers(len(node.gpus)))]
    serves = [a.gpus[gpu.index] for a in attempts if a.kind == "serve"][:1]
    return {"fleet": fleet.gpus, "rack": rack, "job": job, "node": node.gpus, "gpu": (gpu,),
            "serve": tuple(serves)}[whom]  # fmt: skip


def _well(shared: Iterator[Incident], faults: tuple[Incident, ...]) -> Iterator[Incident]:
    """Without those whose GPU has a fault at the time."""
    for one in shared:
        if not any(f.gpus == one.gpus and f.start_s < one.end_s and one.start_s < f.end_s
                   for f in faults):  # fmt: skip
            yield one


def _faults(
    fleet: Fleet, attempts: tuple[Attempt, ...], random: np.random.Generator
) -> Iterator[Incident]:
    """Each begins in a running synchronous job of four or more GPUs; no GPU has two on one day."""
    fit = [a for a in attempts if len(a.gpus) >= 4 and a.kind in SYNCHRONOUS
           and (a.end_s or fleet.end_s) - a.begin_s > 4 * HOUR_S]  # fmt: skip
    room = np.array([len(a.gpus) * ((a.end_s or fleet.end_s) - a.begin_s - 3 * HOUR_S) for a in fit], dtype=float)  # fmt: skip
    taken: set[tuple[str, int]] = set()
    for kind, count in FAULTS.items():
        for turn in range(_number(fleet, count, random)):
            attempt = fit[int(random.choice(len(fit), p=room / room.sum()))]
            gpu = attempt.gpus[int(random.integers(len(attempt.gpus)))]
            latest_s = (attempt.end_s or fleet.end_s) - 3 * HOUR_S
            start_s = float(random.uniform(attempt.begin_s, latest_s))
            end_s = min(fleet.end_s, start_s + float(random.uniform(3, 24)) * HOUR_S)
            days = {
                (gpu.uuid, int(s // DAY_S))
                for s in (start_s - 2 * HOUR_S, start_s, end_s, end_s + 2 * HOUR_S)
            }
            if days & taken:
                continue
            taken |= days
            yield Incident(kind, (gpu,), start_s, end_s, EFFECTS[turn % len(EFFECTS)])
