"""The goodput ledger of simulated jobs against their true owners, at every level of evidence.

Per seed some training jobs of two days (simulate/timeline.py states rates and lengths), as the tables that
their logs become. The shipped models run on them as they are: with the scheduler's records alone, with
telemetry, with the jobs' own logs of steps, and with records of single ranks. What a running attempt does
after the window's end is no part of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

import polars as pl

from fleetmark.accuracy.frames import judged
from fleetmark.accuracy.interval import Measured, exact, share
from fleetmark.accuracy.processes import each
from fleetmark.catalog import load_catalog
from fleetmark.pipeline.thresholds import resolved

JOBS, DAYS = 6, 2
# Tables by the level of evidence that they make.
LEVELS = {
    "scheduler": ("job_attempt",),
    "telemetry": ("gpu_minute",),
    "steps": ("train_step", "train_event"),
    "collectives": ("step_sample",),
}
# Seconds, the same for every GPU of a job.
LEDGER = """
SELECT job_id, class, sum(epoch(end_ts - start_ts) * gpu_count) AS gpu_s,
    sum(epoch(end_ts - start_ts) * gpu_count) FILTER (in_step) AS in_step_gpu_s
FROM goodput_segment GROUP BY ALL
"""
BOUNDS = """
SELECT job_id, sum(allocated_gpu_s) AS allocated, sum(library_lower_gpu_s) AS library_lower,
    sum(library_upper_gpu_s) AS library_upper, sum(strict_lower_gpu_s) AS strict_lower, sum(strict_upper_gpu_s) AS strict_upper
FROM job_goodput GROUP BY ALL
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Per job: how far goodput and the worst class are off with all evidence, what stays unexplained (all
    of the allocation); and of the levels with less how many intervals hold the truth.
    """

    goodput_errors: Sequence[float]
    class_errors: Sequence[float]
    unexplained: Sequence[float]
    held: int
    intervals: int


def figures(seed: int, clusters: int) -> Mapping[str, Measured]:
    """The figures over the seeds from `seed` on; errors are those of the worst job."""
    outcomes = each(outcome, range(seed, seed + clusters))
    jobs = sum(len(o.goodput_errors) for o in outcomes)
    return {
        "goodput_error": exact(max(e for o in outcomes for e in o.goodput_errors), jobs),
        "class_error": exact(max(e for o in outcomes for e in o.class_errors), jobs),
        "unexplained": exact(max(e for o in outcomes for e in o.unexplained), jobs),
        "interval_contains_truth": share(
            sum(o.held for o in outcomes), sum(o.intervals for o in outcomes)
        ),
    }


def outcome(seed: int) -> Outcome:
    """One seed's jobs, judged at each level."""
    timeline = import_module("fleetmark.simulate.timeline")
    records = import_module("fleetmark.simulate.timeline_records")
    jobs = timeline.jobs(seed, JOBS, DAYS)
    start_s = timeline.START_S
    tables = records.tables(jobs, seed, start_s, start_s + DAYS * timeline.DAY_S)
    true = {job.job_id: _truth(timeline.owners(job), job.ranks) for job in jobs}
    catalog = load_catalog()
    shown: dict[str, pl.DataFrame] = {}
    held = intervals = 0
    for names in LEVELS.values():
        shown |= {name: tables[name] for name in names}
        empty = {} if "gpu_minute" in shown else {"gpu_minute": tables["gpu_minute"].clear()}
        with judged(catalog, ("lost_goodput",), shown | empty) as connection:
            model = catalog.models["job_goodput"]
            model.compute(connection, resolved(model, {})).create(model.name)
            ledger = connection.sql(LEDGER).pl()
            bounds = connection.sql(BOUNDS).pl()
        if "step_sample" not in shown:
            for row in bounds.iter_rows(named=True):
                kept = true[row["job_id"]]
                for name, value in (
                    ("strict", kept["productive"]),
                    ("library", kept["productive"] + kept["slow"]),
                ):
                    intervals += 1
                    held += row[f"{name}_lower"] <= value <= row[f"{name}_upper"]
    return _compared(true, ledger, held, intervals)


def _truth(owners: Mapping[int, Mapping[str, float]], gpus: int) -> Mapping[str, float]:
    """GPU-seconds of a job by owner."""
    total: dict[str, float] = defaultdict(float)
    for own in owners.values():
        for name, seconds in own.items():
            total[name] += seconds * gpus
    return total


def _compared(
    true: Mapping[str, Mapping[str, float]], ledger: pl.DataFrame, held: int, intervals: int
) -> Outcome:
    goodput, classes, unexplained = [], [], []
    for job_id, want in true.items():
        rows = ledger.filter(job_id=job_id)
        got: dict[str, float] = dict(zip(rows["class"], rows["gpu_s"], strict=True))
        allocated = sum(got.values())
        in_step = float(rows["in_step_gpu_s"].sum())
        names = (set(got) | set(want)) - {"slow"}
        off = {n: abs(got.get(n, 0.0) - want.get(n, 0.0)) / allocated for n in names}
        library = abs(in_step - want["productive"] - want["slow"]) / allocated
        goodput.append(max(off["productive"], library))
        classes.append(max(off.values()))
        unexplained.append(got.get("unexplained", 0.0) / allocated)
    return Outcome(goodput, classes, unexplained, held, intervals)
