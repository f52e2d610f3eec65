"""Degraded GPUs: simulated faults found, healthy GPUs accused, and how long it takes.

Per seed one simulated cluster of 128 GPUs and a week (scenario `degradation`: faults of five kinds
with effects of 5 to 20 percent, benign twins at the rates its file states). The simulator's samples
become rows of gpu_minute, gpu_allocation and step_sample directly (a test holds that way against
pages and sources); the shipped models and the detector run on them as they are.

A fault is found by a finding on its GPU that overlaps it (45 minutes of grace at its end). Any other
finding is false, one on a victim that waits for a sick GPU included. A healthy GPU-day is a UTC day
of a GPU without a fault that slows it; days on which it was idle, shared or restarting count as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import polars as pl

from fleetmark.accuracy.frames import SHIPPED, Variant, judged
from fleetmark.accuracy.interval import Measured, exact, middle, rate, resampled, share
from fleetmark.accuracy.processes import each
from fleetmark.catalog import load_catalog

NODES, DAYS = 16, 7
CLUSTERS, FULL_CLUSTERS, ABLATION_CLUSTERS = 4, 68, 4
FIRST = 1_000  # seeds begin this much above the stated one: some below were looked at in the making
DETECTOR = "slow_gpu"
GRACE_S = 2_700


# Too few hours are ever there, so the peers' spread is the only witness.
WITHOUT_HISTORY = Variant(
    {"gpu_usual_hour": {"min_history_hours": 1_000_000, "min_elsewhere_hours": 1_000_000}}
)
# Each reading against one value for the whole fleet and time; what is usual for the GPU is the only
# witness, and the job is not looked at.
WITHOUT_PEERS = Variant(
    {
        "gpu_deviation_5min": {
            "scatter_factor": 0.0,
            "min_peer_share": 0.0,
            "max_limited_power_ratio": 1e9,
        },
        "slow_gpu": {"max_companions": 1_000_000},
    },
    {
        "gpu_residual_5min": """
            SELECT cluster, node, gpu_uuid, signal, window_ts, job_id, attempt, 'job' AS peer_basis,
                0 AS peer_count, value, median(value) OVER everywhere AS peer_value,
                value / peer_value - 1 AS residual, 1.0 AS peer_spread
            FROM (UNPIVOT (SELECT * FROM gpu_job_5min WHERE obstacle IS NULL)
                ON sm_clock_mhz, memory_clock_mhz, tensor_rate_mhz, dram_per_tensor_s, power_w, compute_s
                INTO NAME signal VALUE value)
            WINDOW everywhere AS (PARTITION BY signal)"""
    },
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one cluster gave. faults: kind, effect_ratio, gpu_uuid, start_s, end_s, delay_s (NULL: missed)."""

    faults: pl.DataFrame
    false: pl.DataFrame
    healthy_gpu_days: int

    @property
    def tally(self) -> tuple[int, int, int]:
        """Faults found, faults missed, false findings."""
        delays = self.faults["delay_s"]
        return delays.count(), delays.null_count(), self.false.height


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:  # noqa: ARG001 - nothing is written
    """All figures over CLUSTERS clusters, with the seeds from `seed` + FIRST on."""
    return _figures(seed, CLUSTERS)


def measured_in_full(seed: int, folder: Path) -> Mapping[str, Measured]:  # noqa: ARG001 - see above
    """The same over FULL_CLUSTERS, for the page: about twenty minutes of one core."""
    return _figures(seed, FULL_CLUSTERS)


def _figures(seed: int, clusters: int) -> Mapping[str, Measured]:
    seed += FIRST
    outcomes = each(outcome, range(seed, seed + clusters))
    few = range(seed, seed + ABLATION_CLUSTERS)
    faults = pl.concat([o.faults for o in outcomes])
    days = sum(o.healthy_gpu_days for o in outcomes)
    false = sum(o.false.height for o in outcomes)
    found = faults["delay_s"].count()
    kinds = faults.group_by("kind").len()["len"]
    silent = faults.filter(pl.col("kind") != "thermal_slowdown", effect_ratio=0.05)
    return {
        "f1_effects_5_percent": f1(outcomes),
        "false_alarms_per_10000_gpu_days": rate(false, days, 10_000),
        "healthy_gpu_days": exact(days, days),
        "faults_per_kind": exact(min(kinds), faults.height),
        "delay_5_percent_s": middle(silent["delay_s"].fill_null(float("inf")).to_list()),
        "precision": share(found, found + false),
        "f1_without_own_history": f1(each(partial(outcome, variant=WITHOUT_HISTORY), few)),
        "f1_without_peers": f1(each(partial(outcome, variant=WITHOUT_PEERS), few)),
        **_recalls(faults),
    }


def _recalls(faults: pl.DataFrame) -> Mapping[str, Measured]:
    """Recall per kind and effect; silent slowness apart by whether the job records its steps."""
    steps = pl.when("has_steps").then(pl.lit("_with_steps")).otherwise(pl.lit("_without_steps"))
    named = faults.with_columns(
        pl.col("kind") + pl.when(kind="slow_compute").then(steps).otherwise(pl.lit(""))
    )
    return {
        f"recall_{kind}_{effect * 100:.0f}_percent": share(part["delay_s"].count(), part.height)
        for (kind, effect), part in named.group_by("kind", "effect_ratio")
    }


def f1(outcomes: Sequence[Outcome]) -> Measured:
    """F1 of the verdicts, with the interval of resampled clusters."""
    return resampled(
        [o.tally for o in outcomes],
        lambda found, missed, false: 2 * found / max(1, 2 * found + missed + false),
        sum(o.faults.height for o in outcomes),
    )


def outcome(seed: int, variant: Variant = SHIPPED) -> Outcome:
    """Simulate a cluster, judge it and compare with the truth."""
    simulate = import_module("fleetmark.simulate")
    minutes = import_module("fleetmark.simulate.minutes")
    world = simulate.build_world("degradation", seed, NODES, DAYS)
    with judged(load_catalog(), [DETECTOR], minutes.tables(world, seed), variant) as connection:
        findings = connection.sql(
            "SELECT gpu_uuid[1] AS gpu_uuid, kind AS found_kind, epoch(start_ts) AS from_s, "
            "epoch(end_ts) AS until_s, epoch(detected_at) AS detected_s FROM finding"
        ).pl()
    return compared(simulate.truth.slow_gpus(world), findings, len(world.fleet.gpus) * DAYS)


def compared(faults: pl.DataFrame, findings: pl.DataFrame, gpu_days: int) -> Outcome:
    """Which faults were found and which findings are false."""
    pairs = (
        findings.with_row_index("finding")
        .join(faults.with_row_index("fault"), on="gpu_uuid")
        .filter(pl.col("from_s") < pl.col("end_s") + GRACE_S, pl.col("until_s") > pl.col("start_s"))
    )
    delay = pairs.group_by("fault").agg(
        (pl.col("detected_s") - pl.col("start_s")).min().clip(0).alias("delay_s"),
        pl.col("found_kind").first(),
    )
    judged_faults = faults.with_row_index("fault").join(delay, on="fault", how="left").drop("fault")
    false = findings.with_row_index("finding").join(pairs, on="finding", how="anti").drop("finding")
    sick_days = faults.select(
        "gpu_uuid",
        pl.int_ranges(pl.col("start_s") // 86_400, (pl.col("end_s") - 1) // 86_400 + 1).alias(
            "day"
        ),
    ).explode("day")
    return Outcome(judged_faults, false, gpu_days - sick_days.unique().height)
