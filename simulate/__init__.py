"""A seeded fleet with known truth that writes raw logs.

Everything follows from the seed: two runs with the same arguments write the same bytes. The logs
have the forms of the real systems, so they are read by the same sources as real ones; the truth
lies beside them, in files that no source reads. A scenario is one file `scenario_NAME.py` with a
function `world(seed, nodes, days) -> World`; there is no list to edit.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection
from pathlib import Path
from typing import cast

from fleetmark.errors import InputError

from . import (
    communication,
    dcgm_exporter,
    flows,
    kernel_log,
    rank_truth,
    s3_access_log,
    sacct,
    step_record,
    straggler_trace,
    telemetry,
    truth,
)
from .checkpoints import BUCKET
from .reads import requests
from .world import World

PREFIX = "scenario_"
LOGS = ("slurm", "dcgm", "kernel", "steps", "s3", "trace", "communication", "flows")


def scenario_names() -> tuple[str, ...]:
    """The scenarios there are: one per file `simulate/scenario_NAME.py`."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    return tuple(sorted(n.removeprefix(PREFIX) for n in names if n.startswith(PREFIX)))


def scenario_lines() -> dict[str, str]:
    """Each scenario with the first line of its file, which says what it simulates."""
    return {
        name: (importlib.import_module(f".{PREFIX}{name}", __package__).__doc__ or "").split("\n")[
            0
        ]
        for name in scenario_names()
    }


def build_world(scenario: str, seed: int, nodes: int, days: int) -> World:
    """What happens in a scenario, without writing anything.

    Raises InputError for a scenario that is not there and for sizes that are none.
    """
    if scenario not in scenario_names():
        raise InputError(
            f"no scenario named {scenario!r}; there are: {', '.join(scenario_names())}"
        )
    if nodes < 1 or days < 1 or seed < 0:
        raise InputError(
            f"a fleet needs at least 1 node, 1 day and a seed from 0 on; "
            f"got nodes={nodes}, days={days}, seed={seed}"
        )
    module = importlib.import_module(f".{PREFIX}{scenario}", __package__)
    return cast("World", module.world(seed, nodes, days))


def run(
    scenario: str,
    out: Path,
    seed: int,
    nodes: int,
    days: int,
    *,
    logs: Collection[str] = LOGS,
) -> World:
    """Write a scenario to `out/raw/` (logs) and `out/truth/` (what really happened).

    raw/slurm/sacct.txt            `sacct --parsable2`, times in epoch seconds
    raw/dcgm/NODE-DAY.prom         scrapes of dcgm-exporter, a marker line before each page
    raw/kernel/NODE.log            kernel lines, where a scenario has faults that print any
    raw/steps/steps-JOB.jsonl      step records, of jobs that write any
    raw/s3/BUCKET/TIME-ID          S3 server access logs
    raw/flows/vpc_flow.log         VPC flow records of what nodes send outside, of scenarios that tell
    raw/trace/trace-JOB.parquet    operation trace of the long training job; it holds no absolute
                                   time: state `start_ts` and `attempt` from truth/trace.csv
    raw/nccl/JOB/*.jsonl           NCCL Inspector, of jobs that record their communication; of those that
    raw/flight_recorder/JOB/*      stand still a dump per rank. Neither names its job: state it
    raw/ras/JOB/answers.json       answers of NCCL's monitor, in UTC (`tz`); they name no job either
    raw/inventory.csv, raw/manifest.csv    what a site knows: its GPUs, its checkpoints' objects
    truth/*.csv                    jobs, allocations, sick_gpu, incident, theft, benign, trace, comm_job, run; with
                                   records of whole steps also rank_fault and twin

    `logs` names the kinds to write (see LOGS); inventory, manifest and truth always
    are. Returns the world that was written. Raises InputError if `out` already holds a run.
    """
    if (out / "raw").exists() or (out / "truth").exists():
        raise InputError(f"{out} already holds raw/ or truth/; name an empty folder")
    world = build_world(scenario, seed, nodes, days)
    raw = out / "raw"
    raw.mkdir(parents=True)
    truth.write_inventory(world, raw / "inventory.csv")
    truth.write_manifest(world, BUCKET, raw / "manifest.csv")
    _write_logs(world, seed, out, logs)
    truth.write(world, seed, scenario, out / "truth")
    if "dcgm" in logs or ("steps" in logs and (world.stages or world.layouts)):
        _write_telemetry(world, seed, out, logs)
    return world


def _write_logs(world: World, seed: int, out: Path, logs: Collection[str]) -> None:
    """Everything but telemetry and step records."""
    if "communication" in logs:
        communication.write(world.comm_jobs, seed, out / "raw")
    if "slurm" in logs and world.attempts:
        sacct.write(world.attempts, world.fleet.end_s, out / "raw" / "slurm" / "sacct.txt")
    if "kernel" in logs and world.incidents:
        kernel_log.write(world.incidents, out / "raw" / "kernel")
    if "s3" in logs and world.transfers:
        s3_access_log.write(requests(seed, world.transfers), seed, out / "raw" / "s3" / BUCKET)
    if "flows" in logs and world.flows:
        flows.write(world.flows, out / "raw" / "flows" / "vpc_flow.log")
    if "trace" in logs:
        for trace in world.traces:
            straggler_trace.write(trace, seed, out / "raw" / "trace")


def _write_telemetry(world: World, seed: int, out: Path, logs: Collection[str]) -> None:
    """Exposition pages and step records, which tell of the same GPUs, and what ranks really were slow."""
    samples = telemetry.sample(
        world.fleet,
        world.attempts,
        world.all_incidents,
        seed,
        world.every_s,
        with_health=bool(world.incidents),
    )
    if "steps" in logs:
        records = step_record.write(world, samples, seed, out / "raw" / "steps")
        if world.layouts:
            rank_truth.write(world, records, samples, out / "truth")
    for node in world.fleet.nodes if "dcgm" in logs else ():
        dcgm_exporter.write(node, samples.of(node), out / "raw" / "dcgm")
