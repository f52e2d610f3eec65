"""Step records of the jobs that write any: one JSON object per rank and recorded step.

Fields are those of the source `step_record`: rank, step, ts (seconds since 1970), job_id, attempt,
pp_stage, node, gpu_uuid, compute_s; of jobs with a layout also dp_rank, tp_rank and all parts of a step.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from .minutes import step_records
from .telemetry import Samples
from .world import World


def write(world: World, samples: Samples, seed: int, folder: Path) -> pl.DataFrame:
    """One file per job; returns all rows written."""
    records = step_records(world, samples, seed)
    if records.is_empty():
        return records
    folder.mkdir(parents=True, exist_ok=True)
    lines = records.drop("cluster", "time_basis").with_columns(pl.col("ts").dt.epoch("us") / 1e6)
    for (job_id,), part in lines.group_by("job_id", maintain_order=True):
        part.write_ndjson(folder / f"steps-{job_id}.jsonl")
    return records
