"""Planner figures: published values through the models, and which of the 35 views stand.

Helios (Hu et al., SC 2021), virtual-cluster utilisation box plot: per minute running over total
GPUs, May 2020 without 10 May, linear quartiles, five virtual clusters; equal means
equal as printed, to 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import polars as pl

from fleetmark.accuracy import planner_reliability
from fleetmark.accuracy.interval import Measured, exact
from fleetmark.accuracy.scratch import Inputs, judged, rows
from fleetmark.catalog import load_catalog
from fleetmark.testing import EPOCH
from fleetmark.trace_check.check import check

# The planner's views (docs/planner.md), each a table with its definition, units and coverage.
VIEWS = (
    "gpu_hours_waterfall", "gpu_allocation_rate", "gpu_utilization_by_team", "zero_util_gpu_hours", "queue_wait",
    "queue_wait_all_demand", "bounded_slowdown", "backlog", "idle_while_pending", "stranded_gpus", "fragmentation_index",
    "gang_fit", "partial_node_jobs", "quota_use", "fair_share", "preemption_cost", "requeue_loss", "restart_overhead",
    "time_to_recover", "cold_start", "failure_share", "job_mttf_by_size", "node_failure_rate", "ettr",
    "checkpoint_interval_advice", "hot_spares", "failure_budget", "node_availability", "lemon_nodes", "drain_cost",
    "timelimit_overrequest", "backfill_recovered", "mixed_fleet", "reservation_waste", "capacity_what_if",
)  # fmt: skip
# Rows that `fleetmark check-trace` recomputes from the samples that ship.
TRACE_ROWS = {"helios": ("H1", "H2"), "openb": ("O1", "O2"), "philly": ("P0",)}
WITHIN = 0.05  # they are printed to 0.1
MONTH = """
SELECT vc, 100 * q1_ratio AS q1_pct, 100 * median_ratio AS median_pct, 100 * q3_ratio AS q3_pct
FROM lake.vc_utilization_month WHERE month_ts = DATE '2020-05-01'
"""


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """Every figure of the topic. Only the forecast of waits depends on the seed."""
    return {
        "helios_quartiles": _helios_quartiles(folder),
        "published_rows": _published_rows(),
        **planner_reliability.measured(seed),
        "planner_views": exact(_standing(), len(VIEWS)),
    }


def _published_rows() -> Measured:
    """Rows of published figures all of whose values come out."""
    samples = Path(str(files("fleetmark.samples"))) / "scheduler"
    holds = planner_reliability.rows_hold(load_catalog())
    for trace, ids in TRACE_ROWS.items():
        verdicts = check(trace, samples / trace, EPOCH)
        for row in ids:
            found = verdicts.filter(pl.col("id") == row, pl.col("verdict") != "no_data")["verdict"]
            holds[row] = found.len() > 0 and set(found) == {"match"}
    return exact(sum(holds.values()) / len(holds), len(holds))


def _standing() -> int:
    """Views that exist for every cluster and say what they cover."""
    models = load_catalog().models
    told = {"cluster", "coverage_ratio"}
    return sum(name in models and told <= set(models[name].output.column_names) for name in VIEWS)


def _helios_quartiles(folder: Path) -> Measured:
    """The share of the 15 published quartiles that come out equal."""
    samples = Path(str(files("fleetmark.samples"))) / "scheduler" / "helios"
    inputs: Inputs = [
        ("helios_vc", sorted(samples.glob("*_cluster_sequence_vc*")), {}),
        ("helios_gpu_number", sorted(samples.glob("*_gpu_number.csv")), {}),
    ]
    with judged(folder / "store", inputs, ()) as store:
        found = rows(store, MONTH)
    index = "vc"
    published = pl.read_csv(samples / "published_fig4_quartiles.csv").unpivot(index=index)
    both = published.join(
        found.unpivot(index=index), on=[index, "variable"], how="left", suffix="_found"
    )
    equal = both.select(
        ((pl.col("value") - pl.col("value_found")).abs() < WITHIN + 1e-9).fill_null(value=False)
    )["value"].sum()
    return exact(float(equal) / published.height, published.height)
