"""Training jobs whose ranks record their steps, some of which fall behind, among all that looks like it.

Jobs of 8 to 128 ranks, layouts and noise as `layout.draw` says. In most attempts one rank (or one whole
node of a large job) is made 3, 6, 10 or 20 % slow for two to twenty hours, a third of them from the
attempt's first step on. All attempts warm up, write checkpoints and evaluate; half of those with a pipeline
have a heavier last stage; three in ten record tokens; a quarter each have uneven sequence lengths or garbage-collection pauses, or a
stretch in which the whole job starves for input, communicates longer, or does more work. Attempts end and
are requeued: the next begins at an earlier step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from .fleet import DAY_S, GPUS_PER_NODE, HOUR_S, START_S, TRAIN, Fleet, Node, build_fleet, stream
from .incidents import Incident
from .jobs import FIRST_JOB_ID, REQUEUE_DELAY_S, Attempt
from .layout import Layout, draw
from .world import RankFault, World

SLOWER = (0.03, 0.06, 0.10, 0.20)  # work takes 1.03, 1.06, 1.10, 1.20 times as long
SICK_ATTEMPTS, FROM_START = 0.8, 0.3
WARM_UP_S = 600
RECORD_TOKENS = 0.3
# What one rank's fault consists of.
CAUSES: Mapping[str, tuple[str, ...]] = {
    "clock_deficit": ("clock_deficit",),
    "power_limit": ("power_limit",),
    "thermal_slowdown": ("thermal_slowdown",),
    "hbm_slow": ("hbm_slow",),
    "row_remapped": ("hbm_slow", "row_remapped"),
    "slow_compute": ("slow_compute",),
    "launch_delay": ("launch_delay",),
    "data_wait": ("data_wait",),
    "sick_node": ("sick_node",),
}
# Nobody's fault; kind: share of the attempts, least and greatest effect, whether it lasts all attempt long.
TWINS: Mapping[str, tuple[float, float, float, bool]] = {
    "sequence_lengths": (0.15, 0.05, 0.20, True),
    "garbage_collection": (0.15, 0.10, 0.60, True),
    "code_change": (0.10, 0.05, 0.30, False),
    "job_slowdown": (0.10, 0.05, 0.30, False),
    "data_stall": (0.15, 0.10, 0.50, False),
}


def world(seed: int, nodes: int, days: int) -> World:
    """All that happens."""
    fleet = build_fleet(seed, nodes, days)
    random = stream(seed, "ranks")
    attempts = tuple(_jobs(fleet, random))
    tokens = stream(seed, "tokens")
    layouts = {
        attempt: draw(len(attempt.gpus), random, records_tokens=tokens.random() < RECORD_TOKENS)
        for attempt in attempts
    }
    faults = tuple(_faults(fleet, layouts, random))
    incidents = (
        *_of_jobs(fleet, layouts, random),
        *(incident for fault in faults for incident in fault.incidents),
    )
    return World(
        fleet, attempts, incidents=incidents, layouts=layouts, rank_faults=faults, every_s=60
    )


def _jobs(fleet: Fleet, random: np.random.Generator) -> Iterator[Attempt]:
    """Every node trains; nodes are dealt out to jobs of one to sixteen for the whole time."""
    number = iter(range(FIRST_JOB_ID, FIRST_JOB_ID + 1_000_000))
    rest = list(fleet.nodes)
    while rest:
        size = min(
            len(rest),
            int(
                random.choice(
                    (1, 1, 1, 2, 2, 4, 8, 16), p=(0.2, 0.1, 0.1, 0.15, 0.15, 0.17, 0.1, 0.03)
                )
            ),
        )
        size = 1 << (size.bit_length() - 1)
        mine, rest = rest[:size], rest[size:]
        yield from _attempts(fleet, random, mine, number)


def _attempts(
    fleet: Fleet, random: np.random.Generator, nodes: list[Node], number: Iterator[int]
) -> Iterator[Attempt]:
    """Attempts of 6 to 24 hours; a third of them are requeued runs of the job before."""
    submit_s = START_S + int(random.integers(60, HOUR_S))
    gpus = tuple(gpu for node in nodes for gpu in node.gpus)
    job_id, attempt = next(number), 1
    while submit_s < fleet.end_s - 2 * HOUR_S:
        start_s = submit_s + int(random.integers(4, 40))
        end_s = start_s + int(random.uniform(6, 24) * HOUR_S)
        runs_on = end_s >= fleet.end_s
        again = bool(random.random() < 1 / 3)
        state = "RUNNING" if runs_on else "NODE_FAIL" if again else "COMPLETED"
        yield Attempt(
            job_id, attempt, f"train-{len(gpus)}", TRAIN, "train", submit_s, 30 * DAY_S, len(gpus),
            12 * len(gpus), submit_s, start_s, None if runs_on else end_s, state,
            tuple(node.name for node in nodes), gpus,
        )  # fmt: skip
        job_id, attempt = (job_id, attempt + 1) if again else (next(number), 1)
        submit_s = end_s + (REQUEUE_DELAY_S if again else int(random.integers(600, 2 * HOUR_S)))


def _of_jobs(
    fleet: Fleet, layouts: Mapping[Attempt, Layout], random: np.random.Generator
) -> Iterator[Incident]:
    """What is nobody's fault."""
    for job, layout in layouts.items():
        start_s, end_s = job.begin_s, float(job.end_s or fleet.end_s)
        yield Incident("warm_up", job.gpus, start_s, start_s + WARM_UP_S, 0.2)
        yield Incident("checkpoint_pause", job.gpus, start_s, end_s)
        if random.random() < 0.5:
            yield Incident("evaluation", job.gpus, start_s, end_s)
        if layout.pp > 1 and random.random() < 0.5:
            last = tuple(
                g for g, s in zip(job.gpus, layout.stage, strict=True) if s == layout.pp - 1
            )
            yield Incident("uneven_stages", last, start_s, end_s, float(random.uniform(0.12, 0.6)))
        for kind, (share, least, greatest, is_lasting) in TWINS.items():
            if random.random() < share:
                from_s = start_s if is_lasting else float(random.uniform(start_s, end_s - HOUR_S))
                lasts_s = float(random.uniform(0.5, 6)) * HOUR_S
                until_s = end_s if is_lasting or kind == "code_change" else from_s + lasts_s
                effect = float(random.uniform(least, greatest))
                yield Incident(kind, job.gpus, from_s, min(end_s, until_s), effect)


def _faults(
    fleet: Fleet, layouts: Mapping[Attempt, Layout], random: np.random.Generator
) -> Iterator[RankFault]:
    """At most one in an attempt; causes and sizes in turn, so that all come equally often.

    A whole node only where it is a quarter of its stage or less: else it is half of its own peers.
    """
    single = [cause for cause in CAUSES if cause != "sick_node"]
    turn = int(random.integers(len(single) * len(SLOWER)))
    for job, layout in layouts.items():
        if random.random() > SICK_ATTEMPTS:
            continue
        end_s = float(job.end_s or fleet.end_s)
        cause, slower = single[turn % len(single)], SLOWER[turn // len(single) % len(SLOWER)]
        is_large = layout.ranks // layout.pp >= 4 * GPUS_PER_NODE
        if is_large and random.random() < 0.75:
            cause = "sick_node"
        else:
            turn += 1
        from_s = (
            job.begin_s
            if random.random() < FROM_START
            else random.uniform(job.begin_s, end_s - 2 * HOUR_S)
        )
        until_s = min(end_s, from_s + float(random.uniform(2, 20)) * HOUR_S)
        gpu = job.gpus[int(random.integers(len(job.gpus)))]
        hurt = fleet.node(gpu.node).gpus if cause == "sick_node" else (gpu,)
        effect = slower / (1 + slower)
        incidents = tuple(Incident(kind, hurt, from_s, until_s, effect) for kind in CAUSES[cause])
        yield RankFault(cause, job, slower, incidents)
