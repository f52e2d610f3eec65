"""Which ranks were really slow, why, and by how much; and what happened that was nobody's fault.

Beside the faults there are weak chips: parts that leak more than their peers and lose clock whenever the
power limit binds. Where that alone makes a rank WEAK slow or more (the simulator's own computing times,
without a step's noise; median over the attempt's minutes of a UTC day), it is slow, but has no fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from .conditions import columns
from .fleet import DAY_S
from .incidents import kinds
from .jobs import Attempt
from .telemetry import Samples
from .world import RankFault, World

WEAK = 0.02
WEAK_CHIP = "weak_chip"

# In the words of finding.kind: causes that are right to name. None: there is nothing to be found.
RIGHT = {
    "clock_deficit": ["clock_deficit"],
    "power_limit": ["power_cap"],
    "thermal_slowdown": ["thermal_throttle"],
    "hbm_slow": ["hbm_slow"],
    "row_remapped": ["hbm_slow", "gpu_health_event"],
    "slow_compute": [],
    "launch_delay": ["host_launch"],
    "data_wait": ["data_stall"],
    "sick_node": ["node_sick"],
    WEAK_CHIP: ["power_cap", "clock_deficit"],
}
MIN_PEERS = 4  # of a stage; with fewer nothing but the intended effect is known
FAULTS: dict[str, pl.DataType | type[pl.DataType]] = {"fault": pl.Int64, "cause": pl.String, "right_causes": pl.List(pl.String), "job_id": pl.String,
          "attempt": pl.Int64, "rank": pl.Int64, "gpu_uuid": pl.String, "start_s": pl.Float64,
          "end_s": pl.Float64, "slower": pl.Float64}  # fmt: skip
TWINS: dict[str, pl.DataType | type[pl.DataType]] = {"kind": pl.String, "job_id": pl.String, "attempt": pl.Int64, "start_s": pl.Float64,
         "end_s": pl.Float64, "effect_ratio": pl.Float64}  # fmt: skip


def slow_ranks(world: World, steps: pl.DataFrame, samples: Samples) -> pl.DataFrame:
    """One row per fault and rank it hits. `steps`: rows of step_sample of the same world.

    slower   how much longer the rank's own work took than that of its stage's healthy ranks, median
             over the recorded steps; where batches are uneven, which drowns it, over the minutes' computing
             times (as intended if the host is at fault); as intended where the stage has too few ranks
    """
    rows = [
        {"fault": number, "cause": fault.cause, "right_causes": RIGHT[fault.cause],
         "job_id": str(fault.job.job_id), "attempt": fault.job.submit_s, "rank": rank,
         "gpu_uuid": fault.job.gpus[rank].uuid, "start_s": fault.span.start_s,
         "end_s": fault.span.end_s, "slower": slower}
        for number, fault in enumerate(world.rank_faults)
        for slower in [_slower(world, fault, steps, samples)]
        for rank in fault.ranks
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=FAULTS)


def _slower(world: World, fault: RankFault, steps: pl.DataFrame, samples: Samples) -> float:
    layout = world.layouts[fault.job]
    if layout.ranks // layout.pp < MIN_PEERS:
        return fault.slower
    if any(i.kind == "sequence_lengths" and i.gpus == fault.job.gpus for i in world.incidents
           if i.start_s < fault.span.end_s and i.end_s > fault.span.start_s):  # fmt: skip
        return (
            fault.slower if kinds()[fault.span.kind].of_steps else _computed(world, fault, samples)
        )
    at_s = pl.col("ts").dt.epoch("us") / 1e6
    own = pl.col("compute_s") if layout.data_in_forward else pl.col("compute_s") + pl.col("data_s")
    stages = {layout.stage[rank] for rank in fault.ranks}
    seen = steps.filter(
        pl.col("job_id") == str(fault.job.job_id),
        pl.col("attempt") == fault.job.submit_s,
        pl.col("pp_stage").is_in(stages),
        at_s.is_between(fault.span.start_s, fault.span.end_s),
    )
    is_sick = pl.col("rank").is_in(fault.ranks)
    per_step = seen.group_by("step").agg(
        own.filter(is_sick).median().alias("sick_s"), own.filter(~is_sick).median().alias("well_s")
    )
    ratio = per_step.select((pl.col("sick_s") / pl.col("well_s")).median()).item()
    return fault.slower if ratio is None else float(ratio) - 1


def _computed(world: World, fault: RankFault, samples: Samples) -> float:
    """The same from computing times without a step's noise and load, for one rank."""
    stage = np.array(world.layouts[fault.job].stage)
    (rank,) = fault.ranks
    peers = [r for r in np.flatnonzero(stage == stage[rank]).tolist() if r != rank]
    mine = columns(samples.gpus, [fault.job.gpus[r] for r in (rank, *peers)])
    ts_s = samples.ts_s[:, mine[0]]
    rows = np.flatnonzero((ts_s >= fault.span.start_s) & (ts_s < fault.span.end_s))
    computing = samples.compute[np.ix_(rows, mine)]
    return float(np.nanmedian(computing[:, 0] / np.nanmedian(computing[:, 1:], axis=1))) - 1


def weak_chips(world: World, samples: Samples) -> pl.DataFrame:
    """Ranks without a fault that their chip makes slow, as rows of slow_ranks: one per UTC day."""
    rows = [row for job in world.layouts for row in _weak(world, job, samples)]
    return pl.DataFrame(rows, schema=FAULTS).with_columns(
        pl.int_range(pl.len()).alias("fault") + len(world.rank_faults)
    )


def _weak(world: World, job: Attempt, samples: Samples) -> Iterator[dict[str, object]]:
    faulty = {rank for fault in world.rank_faults if fault.job is job for rank in fault.ranks}
    mine = columns(samples.gpus, job.gpus)
    ts_s = samples.ts_s[:, mine[0]]
    rows = np.flatnonzero((ts_s >= job.begin_s) & (ts_s < (job.end_s or np.inf)))
    rows = rows[np.isfinite(samples.compute[np.ix_(rows, mine)]).all(axis=1)]
    computing = samples.compute[np.ix_(rows, mine)]
    stage = np.array(world.layouts[job].stage)
    for number in np.unique(stage):
        ranks = np.flatnonzero(stage == number)
        ratio = computing[:, ranks] / np.median(computing[:, ranks], axis=1, keepdims=True)
        for day in np.unique(ts_s[rows] // DAY_S):
            today = ts_s[rows] // DAY_S == day
            slower = np.median(ratio[today], axis=0) - 1
            for rank, much in zip(ranks.tolist(), slower.tolist(), strict=True):
                if much >= WEAK and rank not in faulty:
                    yield {
                        "cause": WEAK_CHIP, "right_causes": RIGHT[WEAK_CHIP],
                        "job_id": str(job.job_id), "attempt": job.submit_s, "rank": rank,
                        "gpu_uuid": job.gpus[rank].uuid, "start_s": float(ts_s[rows][today][0]),
                        "end_s": float(ts_s[rows][today][-1]) + 60, "slower": much,
                    }  # fmt: skip


def twins(world: World) -> pl.DataFrame:
    """What looks like slow ranks and is none: one row per job attempt and incident."""
    rows = [
        {"kind": i.kind, "job_id": str(job.job_id), "attempt": job.submit_s,
         "start_s": i.start_s, "end_s": i.end_s, "effect_ratio": i.effect_ratio}
        for job in world.layouts
        for i in world.incidents
        if not kinds()[i.kind].is_fault and i.gpus[0] in job.gpus
        and i.start_s < (job.end_s or world.fleet.end_s) and i.end_s > job.begin_s
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=TWINS)


def write(world: World, steps: pl.DataFrame, samples: Samples, folder: Path) -> None:
    """`rank_fault.csv` and `twin.csv`; several right causes stand with blanks between them."""
    slow = pl.concat([slow_ranks(world, steps, samples), weak_chips(world, samples)])
    faults = slow.with_columns(pl.col("right_causes").list.join(" "))
    faults.with_columns(_stamp("start"), _stamp("end")).drop("start_s", "end_s").write_csv(
        folder / "rank_fault.csv"
    )
    twins(world).with_columns(_stamp("start"), _stamp("end")).drop("start_s", "end_s").write_csv(
        folder / "twin.csv"
    )


def _stamp(name: str) -> pl.Expr:
    """UTC, to the second, as truth.iso writes it."""
    at = pl.from_epoch(pl.col(f"{name}_s").cast(pl.Int64), "s")
    return at.dt.strftime("%Y-%m-%dT%H:%M:%SZ").alias(f"{name}_ts")
