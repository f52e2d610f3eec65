"""Speed: ratios to REF, measured by the benchmarks in the same run."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from fleetmark.accuracy.interval import Measured, between

SCALE = 0.25
# figure of docs/aims.toml, workload of benchmarks/
WORKLOADS = {"s3_access_ref": "s3_access", "exposition_ref": "exposition"}


def measured(_seed: int, folder: Path) -> Mapping[str, Measured]:
    """Paired ratios at a quarter of the full input. Nothing here depends on a seed."""
    main = import_module("fleetmark.benchmarks.__main__")
    workloads = import_module("fleetmark.benchmarks.workload").find()
    found = {}
    for figure, name in WORKLOADS.items():
        if name in workloads:
            result = main.compare(workloads[name], folder, SCALE)
            found[figure] = between(result.ratio, result.pairs, result.low, result.high)
    return found
