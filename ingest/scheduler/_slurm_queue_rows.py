"""Rows of `queue_snapshot` from a job's fields as text, whatever command printed them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from fleetmark.table import TYPES

from ..tables.queue_snapshot import QUEUE_SNAPSHOT
from ._slurm_nodes import expand_tasks, node_lists
from ._slurm_observed import said, whole
from ._slurm_rows import Rows, split_rejects, with_times
from ._slurm_state import parse_state
from ._slurm_time import UNLIMITED, durations, is_duration
from ._slurm_tres import parse_gres, parse_tres

MAX_TASKS = 1_000_000
TIMES = ("submit_ts", "eligible_ts", "start_ts")
# squeue's compact states (slurm: doc/man/man1/squeue.1, JOB STATE CODES).
CODES = {
    "PD": "PENDING",
    "R": "RUNNING",
    "S": "SUSPENDED",
    "CD": "COMPLETED",
    "F": "FAILED",
    "CA": "CANCELLED",
    "TO": "TIMEOUT",
    "NF": "NODE_FAIL",
    "PR": "PREEMPTED",
    "BF": "BOOT_FAIL",
    "DL": "DEADLINE",
    "OOM": "OUT_OF_MEMORY",
    "CG": "COMPLETING",
    "CF": "CONFIGURING",
    "RQ": "REQUEUED",
    "RH": "REQUEUE_HOLD",
    "RF": "REQUEUE_FED",
    "RD": "RESV_DEL_HOLD",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "SE": "SPECIAL_EXIT",
    "SI": "SIGNALING",
    "SO": "STAGE_OUT",
    "ST": "STOPPED",
}
# States in which a job of the queue holds, or has held, its allocation.
STARTED = ("RUNNING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING", "SIGNALING", "STOPPED")
_TASK_SET = re.compile(r"\d+_\[(.*?)\]?")
Fields = Mapping[str, str | None]


def queue_rows(
    jobs: Sequence[tuple[int, Fields]], cluster: str, ts: datetime, zone: str | None, source: str
) -> Rows:
    """Rows and rejects; fields are those that `_row` reads, times as Slurm prints them."""
    schema = {"line_no": pl.Int64(), **{c.name: TYPES[c.type] for c in QUEUE_SNAPSHOT.columns}}
    schema |= dict.fromkeys(TIMES, pl.String()) | {"nodes": pl.String(), "limit": pl.String()}
    frame = pl.DataFrame([{"line_no": at, **_row(f)} for at, f in jobs], schema=schema)
    frame, problems = with_times(frame, TIMES, zone)
    nodes = node_lists(frame["nodes"])
    problems.append(
        pl.when(~nodes["readable"]).then(pl.format("node list '{}' cannot be read", "nodes"))
    )
    problems.append(
        pl.when(~is_duration(pl.col("limit")))
        .then(pl.format("time limit '{}' cannot be read", "limit"))
    )  # fmt: skip
    waits = pl.col("state") == "PENDING"
    frame = frame.with_columns(
        pl.lit(cluster).alias("cluster"),
        pl.lit(ts, pl.Datetime("us")).alias("ts"),
        pl.lit(source).alias("source"),
        nodes["nodes"].alias("node_list"),
        durations(pl.col("limit")).alias("timelimit_s"),
        pl.col("submit_ts").dt.epoch("s").alias("attempt"),
        # The start of a job that waits is the scheduler's forecast.
        pl.when(waits).then("start_ts").alias("expected_start_ts"),
        pl.when(~waits).then("start_ts").alias("start_ts"),
        problem=pl.coalesce(problems),
    )
    counted = [c for c in QUEUE_SNAPSHOT.column_names if c != "field_count"]
    frame = frame.with_columns(
        pl.sum_horizontal(pl.col(c).is_not_null() for c in counted).alias("field_count")
    )
    return split_rejects(frame, "job_id", "nodes", "limit")


def _row(fields: Fields) -> dict[str, Any]:
    native = fields.get("state") or ""
    parsed = parse_state(CODES.get(native, native))
    state = parsed["state"]
    if state is None:
        state = "RUNNING" if set(native.split("+")) & set(STARTED) or native in CODES else "UNKNOWN"
    if state == "REQUEUED":
        # In the queue, what was requeued waits.
        state = "PENDING"
    limit = fields.get("limit")
    return {
        "state": state,
        "native_state": native or None,
        "state_flags": parsed["state_flags"],
        "state_reason": said(fields.get("reason")),
        "job_name": fields.get("name"),
        **{name: said(fields.get(name)) for name in _TEXTS},
        "priority": _decimal(fields.get("priority")),
        "restart_count": whole(fields.get("restarts")),
        **_tasks(fields),
        "req_nodes": whole(fields.get("node_count")),
        "req_cpus": whole(fields.get("cpus")),
        **_gpus(fields, waits=state == "PENDING"),
        "gres_detail": [s for s in (fields.get("gres_detail") or "").split(";") if s] or None,
        "nodes": said(fields.get("nodes")),
        "limit": None if limit in UNLIMITED else said(limit),
        **{name: said(fields.get(name)) for name in TIMES},
    }


_TEXTS = ("principal", "account", "partition", "qos", "reservation", "dependency")


def _tasks(fields: Fields) -> dict[str, Any]:
    """Id, and how many jobs the record stands for."""
    job_id = fields["job_id"] or ""
    match = _TASK_SET.fullmatch(job_id)
    if match is None:
        return {
            "job_id": job_id,
            "raw_job_id": said(fields.get("raw_job_id")),
            "task_count": 1,
            "task_count_is_truncated": False,
        }
    expanded = expand_tasks(match.group(1), MAX_TASKS)
    return {
        "job_id": job_id,
        "task_count": len(expanded[0]) if expanded else None,
        "task_count_is_truncated": expanded[1] if expanded else None,
    }


def _gpus(fields: Fields, *, waits: bool) -> dict[str, Any]:
    """GPUs asked for and held: TRES lists, else what the options of the request say.

    `tres` is the list of releases that print only one: what is held once it runs, else asked for.
    """
    both = parse_tres(fields.get("tres") or "")
    asked = parse_tres(fields.get("req_tres") or "") or both
    held = None if waits else parse_tres(fields.get("alloc_tres") or "") or both
    if not (asked and asked["gpu_count_source"]):
        asked = _requested(fields) or asked
    typed = held if held and held["gpu_count_source"] else asked
    return {
        "req_gpus": asked["gpus"] if asked else None,
        "alloc_gpus": held["gpus"] if held else None,
        "gpu_count_source": typed["gpu_count_source"] if typed else None,
        "gpu_models": typed["gpu_models"] if typed else None,
        "gpu_model_counts": typed["gpu_model_counts"] if typed else None,
    }


def _requested(fields: Fields) -> dict[str, Any] | None:
    """GPUs of --gpus, --gpus-per-node times the nodes or --gpus-per-task times the tasks."""
    parts = (
        ("tres_per_job", 1),
        ("tres_per_node", whole(fields.get("node_count"))),
        ("tres_per_task", whole(fields.get("tasks"))),
    )
    for name, times in parts:
        # gres:gpu:2 until 21.08, gres/gpu:2 and gres/gpu=2 since
        request = re.sub(r"gres[:/]", "", fields.get(name) or "").replace("=", ":")
        if "gpu" in request and (found := parse_gres(f"PER_NODE:{request}", times)):
            return found
    return None


def _decimal(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
