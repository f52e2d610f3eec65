"""Which ranks were really slow, why, and by how much; and what happened that was nobody's fault."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from .incidents import kinds
from .world import RankFault, World

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
}
MIN_PEERS = 4  # of a stage; with fewer nothing but the intended effect is known
FAULTS = {"fault": pl.Int64, "cause": pl.String, "right_causes": pl.List(pl.String), "job_id": pl.String,
          "attempt": pl.Int64, "rank": pl.Int64, "gpu_uuid": pl.String, "start_s": pl.Float64,
          "end_s": pl.Float64, "slower": pl.Float64}  # fmt: skip
TWINS = {"kind": pl.String, "job_id": pl.String, "attempt": pl.Int64, "start_s": pl.Float64,
         "end_s": pl.Float64, "effect_ratio": pl.Float64}  # fmt: skip


def slow_ranks(world: World, steps: pl.DataFrame) -> pl.DataFrame:
    """One row per fault and rank it hits. `steps`: rows of step_sample of the same world.

    slower   how much longer the rank's own work took than that of its stage's healthy ranks, median
             over the recorded steps; as intended where the stage has too few ranks
    """
    rows = [
        {"fault": number, "cause": fault.cause, "right_causes": RIGHT[fault.cause],
         "job_id": str(fault.job.job_id), "attempt": fault.job.submit_s, "rank": rank,
         "gpu_uuid": fault.job.gpus[rank].uuid, "start_s": fault.span.start_s,
         "end_s": fault.span.end_s, "slower": slower}
        for number, fault in enumerate(world.rank_faults)
        for slower in [_slower(world, fault, steps)]
        for rank in fault.ranks
    ]  # fmt: skip
    return pl.DataFrame(rows, schema=FAULTS)


def _slower(world: World, fault: RankFault, steps: pl.DataFrame) -> float:
    layout = world.layouts[fault.job]
    if layout.ranks // layout.pp < MIN_PEERS:
        return fault.slower
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


def write(world: World, steps: pl.DataFrame, folder: Path) -> None:
    """`rank_fault.csv` and `twin.csv`; several right causes stand with blanks between them."""
    faults = slow_ranks(world, steps).with_columns(pl.col("right_causes").list.join(" "))
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
