"""Speed: ratios to REF, measured by the benchmarks in the same run, and whether a line is lost."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from fleetmark.accuracy.interval import Measured, between, exact
from fleetmark.catalog import load_catalog
from fleetmark.testing import parse_file

SCALE = 0.25
LINES = 200_000
# workload of benchmarks/, figures of docs/aims.toml
WORKLOADS = {
    "s3_access": ("s3_access_ref",),
    "exposition": ("exposition_ref", "exposition_stable_labels_ref"),
}


def measured(_seed: int, folder: Path) -> Mapping[str, Measured]:
    """Paired ratios at a quarter of the full input. Nothing here depends on a seed."""
    folder.mkdir(parents=True, exist_ok=True)
    benchmarks = import_module("fleetmark.benchmarks.__main__")
    workloads = import_module("fleetmark.benchmarks.workload").find()
    found = {"s3_access_lost_lines": _lost_lines(folder)}
    for name, figures in WORKLOADS.items():
        result = benchmarks.compare(workloads[name], folder, SCALE)
        ratio = between(result.ratio, result.pairs, result.low, result.high)
        found |= dict.fromkeys(figures, ratio)
    return found


def _lost_lines(folder: Path) -> Measured:
    """Real access lines, 3 of 10 awkward, all of them valid: each must become a row."""
    path = folder / "lost"
    import_module("fleetmark.benchmarks.access_lines").write_lines(path, LINES)
    parsed = parse_file(load_catalog().sources["s3_access"], path)
    rows = parsed.tables["storage_access"].lazy().collect().height
    return exact(LINES - rows, LINES)
