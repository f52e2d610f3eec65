"""Slow ranks: the public traces' verdicts, and simulated sick ranks found and others accused.

Public traces: ByteDance-Seed/StragglerAnalysis@data. Their published verdicts are one slow worker,
rank 0, in AR and none in ST (its last stage is overloaded, which is nobody's illness).
Simulated: per seed one training job of eight ranks, one of which is made 6 to 30 percent slow,
evenly spread: the whole range of the aim, not only what is easy to see.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from fleetmark.accuracy.interval import Measured, exact, share
from fleetmark.accuracy.scratch import judged, rows

JOBS, NODES, DAYS = 20, 2, 2
SLOWEST, SLOW = 1.30, 1.06
PUBLISHED = {"AR": {0}, "ST": set[int]()}
ACCUSED = """
SELECT DISTINCT unnest(cluster) AS name, unnest(rank) AS rank
FROM lake.finding WHERE domain = 'performance'
"""


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """The published verdicts, then precision and recall over jobs of the seeds from `seed` on."""
    traces = Path(str(files("fleetmark.samples"))) / "collectives" / "straggler_whatif"
    public = _accused(
        folder / "public", {name: traces / f"trace-{name}.parquet" for name in PUBLISHED}
    )
    equal = sum(public[name] == truth for name, truth in PUBLISHED.items())
    paths, sick = {}, {}
    for number in range(seed, seed + JOBS):
        name = f"seed-{number}"
        paths[name], sick[name] = _traced(number, folder / name)
    verdicts = _accused(folder / "simulated", paths)
    found = sum(sick[name] in verdicts[name] for name in paths)
    return {
        "published_verdicts": exact(equal / len(PUBLISHED), len(PUBLISHED)),
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
