"""Slow ranks: the public traces' verdicts, and simulated sick ranks found and others accused.

Public traces: ByteDance-Seed/StragglerAnalysis@data. Their published verdicts are one slow worker,
rank 0, in AR and none in ST (its last stage is overloaded, which is nobody's illness).
Simulated: per seed one training job in which one rank is 14 to 25 percent slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from fleetmark.accuracy.interval import Measured, exact, share
from fleetmark.accuracy.scratch import judged, rows, simulated

SOURCE = "straggler_trace"
FLEETS, NODES, DAYS = 20, 2, 2
PUBLISHED = {"AR": {0}, "ST": set[int]()}
ACCUSED = "SELECT DISTINCT unnest(rank) AS rank FROM lake.finding WHERE domain = 'performance'"


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """The published verdicts, then precision and recall over seeds `seed`, `seed + 1`, …"""
    traces = Path(str(files("fleetmark.samples"))) / "collectives" / "straggler_whatif"
    equal = sum(
        _accused(folder / name, traces / f"trace-{name}.parquet") == truth
        for name, truth in PUBLISHED.items()
    )
    found = accused = 0
    for number in range(seed, seed + FLEETS):
        out = folder / str(number)
        world = simulated(out, number, NODES, DAYS, ("trace",))
        trace = world.traces[0]
        verdict = _accused(out, out / "raw" / "trace" / f"trace-{trace.job.job_id}.parquet")
        sick = {rank for rank, _ in trace.sick_ranks}
        found += len(sick & verdict)
        accused += len(verdict)
    return {
        "published_verdicts": exact(equal / len(PUBLISHED), len(PUBLISHED)),
        "recall_sick_rank": share(found, FLEETS),
        "precision_sick_rank": share(found, accused),
        "faults_per_cause": exact(FLEETS, FLEETS),
    }


def _accused(folder: Path, trace: Path) -> set[int]:
    """The ranks that any performance finding names, from this trace alone."""
    with judged(folder / "store", [(SOURCE, [trace], {})], ()) as store:
        return set(rows(store, ACCUSED)["rank"])
