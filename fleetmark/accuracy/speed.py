"""Speed: figures of the benchmarks, measured now, and whether a line is lost."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from fleetmark.accuracy.interval import Measured, between, exact, nothing
from fleetmark.catalog import load_catalog
from fleetmark.testing import parse_file

SCALE = 0.25
LINES = 200_000
# figure of docs/aims.toml: workload of benchmarks/ and which of its goals
FIGURES = {
    "s3_access_ref": ("s3_access", "x REF"),
    "exposition_ref": ("exposition_ingest", "x REF"),
    "exposition_stable_labels_ref": ("exposition", "x REF"),
    "sacct_ref": ("sacct", "x REF"),
}


def measured(_seed: int, folder: Path) -> Mapping[str, Measured]:
    """Paired ratios at a quarter of the full input. Nothing here depends on a seed."""
    compare = import_module("fleetmark.benchmarks.rounds").compare
    workloads = import_module("fleetmark.benchmarks.workload").find()
    found = {"s3_access_lost_lines": _lost_lines(folder)}
    results = {
        name: compare(workloads[name], workloads, folder / name, SCALE)
        for name in dict.fromkeys(workload for workload, _ in FIGURES.values())
    }
    for figure, (name, goal) in FIGURES.items():
        reached = next(one for one in results[name].goals if one.figure == goal)
        found[figure] = (
            nothing(reached.why)
            if reached.value is None
            else between(reached.value, results[name].rounds, reached.low, reached.high)
        )
    return found


def _lost_lines(folder: Path) -> Measured:
    """Real access lines, 3 of 10 awkward, all of them valid: each must become a row."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lost"
    import_module("fleetmark.benchmarks.access_lines").write_lines(path, LINES)
    parsed = parse_file(load_catalog().sources["s3_access"], path)
    rows = parsed.tables["storage_access"].lazy().collect().height
    return exact(LINES - rows, LINES)
