"""Rows of `partition_state` and `reservation` from fields as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from fleetmark.table import TYPES, Table

from ..tables.partition_state import PARTITION_STATE
from ..tables.reservation import RESERVATION
from ._slurm_nodes import node_lists
from ._slurm_observed import names, said, whole
from ._slurm_rows import Rows, split_rejects, with_times
from ._slurm_time import durations
from ._slurm_tres import parse_tres

Fields = Mapping[str, str | None]
Records = Sequence[tuple[int, Fields]]


def partition_rows(
    records: Records, cluster: str, ts: datetime, zone: str | None, source: str
) -> Rows:
    """Rows of `partition_state` and rejects."""
    frame = _frame(PARTITION_STATE, records, _partition, ("max_time_s", "default_time_s"))
    frame = frame.with_columns(
        durations(pl.col(name)).alias(name) for name in ("max_time_s", "default_time_s")
    )
    return _finished(frame, cluster, ts, zone, source, "partition", ())


def reservation_rows(
    records: Records, cluster: str, ts: datetime, zone: str | None, source: str
) -> Rows:
    """Rows of `reservation` and rejects."""
    frame = _frame(RESERVATION, records, _reservation, ("start_ts", "end_ts"))
    return _finished(frame, cluster, ts, zone, source, "reservation", ("start_ts", "end_ts"))


def _frame(
    table: Table, records: Records, row: Callable[[Fields], dict[str, Any]], texts: tuple[str, ...]
) -> pl.DataFrame:
    schema = {"line_no": pl.Int64(), **{c.name: TYPES[c.type] for c in table.columns}}
    schema |= dict.fromkeys((*texts, "nodes"), pl.String())
    return pl.DataFrame([{"line_no": at, **row(fields)} for at, fields in records], schema=schema)


def _finished(
    frame: pl.DataFrame,
    cluster: str,
    ts: datetime,
    zone: str | None,
    source: str,
    key: str,
    time_columns: tuple[str, ...],
) -> Rows:
    nodes = node_lists(frame["nodes"])
    frame, problems = with_times(frame, time_columns, zone)
    problems.append(
        pl.when(~nodes["readable"]).then(pl.format("node list '{}' cannot be read", "nodes"))
    )
    frame = frame.with_columns(
        pl.lit(cluster).alias("cluster"),
        pl.lit(ts, pl.Datetime("us")).alias("ts"),
        pl.lit(source).alias("source"),
        nodes["nodes"].alias("node_list"),
        problem=pl.coalesce(problems),
    )
    return split_rejects(frame, key, "nodes")


def _partition(fields: Fields) -> dict[str, Any]:
    gpus = parse_tres(fields.get("tres") or "") or {}
    is_default = fields.get("is_default")
    return {
        "partition": fields["partition"],
        "state": said(fields.get("state")),
        "nodes": said(fields.get("nodes")),
        "node_count": whole(fields.get("node_count")),
        "cpu_count": whole(fields.get("cpus")),
        "gpu_count": gpus.get("gpus"),
        "gpu_models": gpus.get("gpu_models"),
        "gpu_model_counts": gpus.get("gpu_model_counts"),
        "max_time_s": fields.get("max_time"),
        "default_time_s": fields.get("default_time"),
        "max_nodes": whole(fields.get("max_nodes")),
        "priority_tier": whole(fields.get("priority_tier")),
        "priority_factor": whole(fields.get("priority_factor")),
        "preempt_mode": said(fields.get("preempt_mode")),
        "grace_s": whole(fields.get("grace")),
        "qos": said(fields.get("qos")),
        "is_default": None if is_default is None else is_default == "YES",
    }


def _reservation(fields: Fields) -> dict[str, Any]:
    gpus = parse_tres(fields.get("tres") or "") or {}
    return {
        "reservation": fields["reservation"],
        "start_ts": said(fields.get("start")),
        "end_ts": said(fields.get("end")),
        "state": said(fields.get("state")),
        "nodes": said(fields.get("nodes")),
        "node_count": whole(fields.get("node_count")),
        "core_count": whole(fields.get("cores")),
        "gpu_count": gpus.get("gpus"),
        "partition": said(fields.get("partition")),
        "flags": names(fields.get("flags")),
        "principals": names(fields.get("users")),
        "accounts": names(fields.get("accounts")),
        "tres": said(fields.get("tres")),
    }
