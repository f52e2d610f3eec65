"""Speed: figures of the benchmarks, measured now (a quarter of an hour), and whether a line is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from fleetmark.accuracy.interval import Measured, between, exact, nothing
from fleetmark.catalog import load_catalog
from fleetmark.testing import parse_file

SCALE = 0.25
LINES = 200_000
REF = "x REF"
# What peers that cannot run here did, in multiples of REF (the workloads' own docs say how that was measured).
AZUMA_REF, STRAGGLER_ANALYSIS_REF, TRACE_ANALYSIS_REF, GOODPUT_REF = 0.023, 0.19, 0.124, 0.20


@dataclass(frozen=True, slots=True)
class Source:
    """Where a figure comes from: a goal of a workload at a share of its full size, and what is made of the value."""

    workload: str
    goal: str = REF
    scale: float = SCALE
    made: Callable[[float], float] = lambda value: value


FIGURES = {
    "s3_access_ref": Source("s3_access"),
    "exposition_ref": Source("exposition_ingest"),
    "exposition_stable_labels_ref": Source("exposition"),
    "bytes_per_sample": Source("storage", "bytes a sample"),
    "cloudtrail_ref": Source("cloudtrail"),
    "rules_over_cloudtrail": Source("rules", made=lambda ref: ref / AZUMA_REF),
    "sacct_ref": Source("sacct"),
    "query_range": Source("remote_read", "x MetricRangeDataFrame"),
    "two_signal_query": Source("q2", "of q0's CPU"),
    "what_if_cpu": Source("what_if", made=lambda ref: STRAGGLER_ANALYSIS_REF / ref),
    "kineto_cpu": Source("kineto", made=lambda ref: TRACE_ANALYSIS_REF / ref),
    "goodput_cpu": Source("goodput", made=lambda ref: GOODPUT_REF / ref),
    "principal_score": Source("principals", "x IsolationForest"),
    "two_processes": Source("two_processes", "x one process, wall"),
    "unchanged_rerun": Source("unchanged", "of the first run's CPU"),
    "whole_day": Source("day", "of the peers' CPU"),
    "contract_overhead": Source("contracts", "of the ingest's CPU", scale=1),
    "panel_p95_ms": Source("dashboards", "ms at the 95th percentile", scale=1),
    "cli_start_s": Source("cli_start", "CPU s a start"),
}  # fmt: skip


def measured(_seed: int, folder: Path) -> Mapping[str, Measured]:
    """Figures of runs at a quarter of the full input, or the whole where the aim says so. Nothing here depends on a seed."""
    rounds = import_module("fleetmark.benchmarks.rounds")
    workloads = import_module("fleetmark.benchmarks.workload").find()
    found = {"s3_access_lost_lines": _lost_lines(folder)}
    exponents = []
    for figure, source in FIGURES.items():
        result = rounds.compare(
            workloads[source.workload], workloads, folder / figure, source.scale
        )
        found[figure] = _reached(result, source)
        exponents += [] if result.exponent is None else [result.exponent]
    peak = rounds.compare(workloads["large_file"], workloads, folder / "large", SCALE).peak_bytes
    found["peak_memory_gib"] = exact(peak / 2**30, 1)
    if exponents:
        found["scaling_exponent"] = exact(max(exponents), len(exponents))
    return found


def _reached(result: Any, source: Source) -> Measured:  # noqa: ANN401 - a result of the benchmarks, which the core does not import
    reached = next(one for one in result.goals if one.figure == source.goal)
    if reached.value is None:
        return nothing(reached.why)
    low, high = sorted(source.made(end) for end in (reached.low, reached.high))
    return between(source.made(reached.value), result.rounds, low, high)


def _lost_lines(folder: Path) -> Measured:
    """Real access lines, 3 of 10 awkward, all of them valid: each must become a row."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "lost"
    import_module("fleetmark.benchmarks.logs.access_lines").write_lines(path, LINES)
    parsed = parse_file(load_catalog().sources["s3_access"], path)
    rows = parsed.tables["storage_access"].lazy().collect().height
    return exact(LINES - rows, LINES)
