"""Slow ranks: public records (rank_published.py), and simulated sick ranks found, others accused.

Simulated: per seed one training job of eight ranks, one of which is made 6 to 30 percent slow,
evenly spread: the whole range of the aim, not only what is easy to see.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from fleetmark.accuracy import rank_published
from fleetmark.accuracy.interval import Measured, exact, share
from fleetmark.accuracy.rank_published import ACCUSED
from fleetmark.accuracy.scratch import judged, rows

JOBS, NODES, DAYS = 20, 2, 2
SLOWEST, SLOW = 1.30, 1.06


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """What is published, then precision and recall over jobs of the seeds from `seed` on."""
    paths, sick = {}, {}
    for number in range(seed, seed + JOBS):
        name = f"seed-{number}"
        paths[name], sick[name] = _traced(number, folder / name)
    verdicts = _accused(folder / "simulated", paths)
    found = sum(sick[name] in verdicts[name] for name in paths)
    return {
        **rank_published.measured(folder / "published"),
        "recall_sick_rank": share(found, JOBS),
        "precision_sick_rank": share(found, sum(map(len, verdicts.values()))),
        "faults_per_cause": exact(JOBS, JOBS),
    }


def _traced(seed: int, folder: Path) -> tuple[Path, int]:
    """Write the trace of a simulated job with one rank made slow; its path and that rank."""
    simulate = import_module("fleetmark.simulate")
    world = simulate.build_world("week", seed, NODES, DAYS)
    rank = world.traces[0].sick_ranks[0][0]
    ratio = random.Random(seed).uniform(SLOW, SLOWEST)  # noqa: S311 - seeded randomness is the point
    simulate.straggler_trace.write(
        replace(world.traces[0], sick_ranks=((rank, ratio),)), seed, folder
    )
    return next(folder.glob("*.parquet")), rank


def _accused(root: Path, traces: Mapping[str, Path]) -> Mapping[str, set[int]]:
    """Per trace the ranks that any performance finding names; each trace is a cluster of its own."""
    inputs = [("straggler_trace", [path], {"cluster": name}) for name, path in traces.items()]
    accused: dict[str, set[int]] = {name: set() for name in traces}
    with judged(root, inputs, ()) as store:
        for name, rank in rows(store, ACCUSED).iter_rows():
            accused[name].add(rank)
    return accused
