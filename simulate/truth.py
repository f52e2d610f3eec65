"""What really happened, as CSV files that a person and a test can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from .fleet import CLUSTER, GPU_MODEL
from .incidents import kinds
from .reads import Transfer
from .telemetry import scrape_interval_s
from .world import World

Row = Mapping[str, object]


def iso(seconds: float | None) -> str | None:
    """UTC, to the second: 2026-03-02T00:00:00Z."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _csv(rows: Sequence[Row], path: Path, columns: str = "") -> None:
    """Rows with their names on top; `columns` are written where there may be no row to tell them."""
    names = columns.split() or None
    pl.DataFrame(rows, schema=names, infer_schema_length=None).write_csv(path)


def write_inventory(world: World, path: Path) -> None:
    """The GPUs that should be there: what a site keeps in its asset list."""
    _csv(
        [
            {"cluster": CLUSTER, "node": node.name, "gpu_index": gpu.index, "gpu_uuid": gpu.uuid,
             "gpu_model": GPU_MODEL, "rack": node.rack, "leaf_switch": node.leaf_switch}
            for node in world.fleet.nodes for gpu in node.gpus
        ],
        path,
    )  # fmt: skip


def write_manifest(world: World, bucket: str, path: Path) -> None:
    """The objects of every checkpoint."""
    _csv(
        [
            {"checkpoint": c.name, "family": c.family, "sensitivity": c.sensitivity,
             "bucket": bucket, "object_key": item.key, "version_id": None,
             "object_bytes": item.size_bytes, "etag": item.etag, "role": item.role}
            for c in world.checkpoints for item in c.objects
        ],
        path,
        "checkpoint family sensitivity bucket object_key version_id object_bytes etag role",
    )  # fmt: skip


def write(world: World, seed: int, scenario: str, folder: Path) -> None:
    """jobs, allocations, sick_gpu, incident, theft, benign, trace, comm_job and run, one CSV each.

    `attempt` is the run's submit time in epoch seconds, as the tables of jobs number attempts.
    """
    folder.mkdir(parents=True)
    _csv(_jobs(world), folder / "jobs.csv",
         "job_id attempt array_id name user kind state gpu_count submit_ts start_ts end_ts node")  # fmt: skip
    _csv(
        [
            {"job_id": a.job_id, "attempt": a.submit_s, "node": gpu.node, "gpu_index": gpu.index,
             "gpu_uuid": gpu.uuid, "start_ts": iso(a.start_s), "end_ts": iso(a.end_s)}
            for a in world.attempts for gpu in a.gpus
        ],
        folder / "allocations.csv",
        "job_id attempt node gpu_index gpu_uuid start_ts end_ts",
    )  # fmt: skip
    _csv(
        [
            {"gpu_uuid": s.gpu.uuid, "node": s.gpu.node, "gpu_index": s.gpu.index,
             "start_ts": iso(s.start_s), "end_ts": iso(s.end_s), "effect": "clock_deficit",
             "clock_deficit_ratio": s.clock_deficit_ratio, "slowdown_ratio": s.slowdown_ratio}
            for s in world.sick
        ],
        folder / "sick_gpu.csv",
        "gpu_uuid node gpu_index start_ts end_ts effect clock_deficit_ratio slowdown_ratio",
    )  # fmt: skip
    _csv([{"theft": t.number, "path": t.path, "checkpoint": t.checkpoint.name,
           "checkpoint_bytes": t.checkpoint.size_bytes, **_transfer(t.transfer)}
          for t in world.thefts], folder / "theft.csv",
         "theft path checkpoint checkpoint_bytes principal ip start_ts end_ts sent_bytes")  # fmt: skip
    _csv([{"kind": b.kind, "job_id": b.job_id, "checkpoint": b.checkpoint,
           **_transfer(b.transfer), "note": b.note} for b in world.benign],
         folder / "benign.csv",
         "kind job_id checkpoint principal ip start_ts end_ts sent_bytes note")  # fmt: skip
    _csv(_ranks(world), folder / "trace.csv",
         "job_id attempt start_ts first_step rank node gpu_uuid slowdown_ratio")  # fmt: skip
    _csv(_incidents(world), folder / "incident.csv",
         "kind is_fault slows node gpu_uuid start_ts end_ts effect_ratio")  # fmt: skip
    _csv([{"job_id": c.job_id, "cause": c.cause, "accused": c.accused or None, "start_ts": iso(c.start_s),
           "bandwidth_left_ratio": c.factor} for c in world.comm_jobs],
         folder / "comm_job.csv", "job_id cause accused start_ts bandwidth_left_ratio")  # fmt: skip
    _csv([{"scenario": scenario, "seed": seed, "nodes": len(world.fleet.nodes),
           "days": world.fleet.days, "end_ts": iso(world.fleet.end_s),
           "scrape_interval_s": scrape_interval_s(world.fleet)}],
         folder / "run.csv")  # fmt: skip


def _transfer(transfer: Transfer) -> Row:
    return {
        "principal": transfer.principal,
        "ip": transfer.ip,
        "start_ts": iso(transfer.start_s),
        "end_ts": iso(transfer.start_s + transfer.seconds),
        "sent_bytes": transfer.size_bytes,
    }


def _jobs(world: World) -> list[Row]:
    return [
        {"job_id": a.job_id, "attempt": a.submit_s, "array_id": a.array_id or None, "name": a.name,
         "user": a.user.name, "kind": a.kind, "state": a.state, "gpu_count": len(a.gpus),
         "submit_ts": iso(a.submit_s), "start_ts": iso(a.start_s), "end_ts": iso(a.end_s),
         "node": " ".join(a.node_names)}
        for a in world.attempts
    ]  # fmt: skip


def _incidents(world: World) -> list[Row]:
    """What happened to GPUs, one row per GPU; `slows`: it computes slower than its peers."""
    return [
        {"kind": i.kind, "is_fault": kinds()[i.kind].is_fault, "slows": kinds()[i.kind].slows,
         "node": gpu.node, "gpu_uuid": gpu.uuid, "start_ts": iso(i.start_s), "end_ts": iso(i.end_s),
         "effect_ratio": i.effect_ratio}
        for i in world.incidents for gpu in i.gpus
    ]  # fmt: skip


def _ranks(world: World) -> list[Row]:
    """Where each traced rank ran, when the trace begins, and how slow it is made (1: healthy)."""
    return [
        {"job_id": t.job.job_id, "attempt": t.job.submit_s, "start_ts": iso(t.start_s),
         "first_step": t.first_step, "rank": rank, "node": gpu.node, "gpu_uuid": gpu.uuid,
         "slowdown_ratio": dict(t.sick_ranks).get(rank, 1.0)}
        for t in world.traces for rank, gpu in enumerate(t.ranks)
    ]  # fmt: skip


def slow_gpus(world: World) -> pl.DataFrame:
    """The faults that make one GPU slower; `has_steps`: its job then records steps.

    `effect_ratio` e is the share of speed lost: work of one second takes 1 / (1 - e) s. `loss_ratio` of a
    slow_gpu finding is the share lost of what its evidence names as `quantity`: the same where that binds.
    """
    return pl.DataFrame(
        [
            {"kind": i.kind, "effect_ratio": i.effect_ratio, "gpu_uuid": gpu.uuid,
             "start_s": int(i.start_s), "end_s": int(i.end_s),
             "has_steps": any(gpu in a.gpus and a.begin_s <= i.start_s < (a.end_s or i.end_s)
                              for a in world.stages)}
            for i in world.all_incidents if kinds()[i.kind].slows for gpu in i.gpus
        ],
        schema={"kind": pl.String, "effect_ratio": pl.Float64, "gpu_uuid": pl.String,
                "start_s": pl.Int64, "end_s": pl.Int64, "has_steps": pl.Boolean},
    )  # fmt: skip
