"""Rows of `node_state` from a node's fields as text, whatever command printed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from fleetmark.table import TYPES

from ..tables.node_state import NODE_STATE
from ._slurm_node_state import is_schedulable, parse_node_state
from ._slurm_observed import names, said, whole
from ._slurm_rows import Rows, split_rejects, with_times
from ._slurm_tres import parse_gres, parse_tres

MIB = 1 << 20
TIMES = ("reason_ts", "boot_ts", "agent_start_ts")
Fields = Mapping[str, str | None]


def node_rows(
    nodes: Sequence[tuple[int, Fields]], cluster: str, ts: datetime, zone: str | None, source: str
) -> Rows:
    """Rows and rejects; fields are those that `_row` reads, times as Slurm prints them.

    A node that comes several times (sinfo prints it once a partition) is one row with all partitions.
    """
    merged: dict[str, dict[str, Any]] = {}
    for line_no, fields in nodes:
        name = fields["node"] or ""
        row = merged.setdefault(name, {"line_no": line_no, **_row(fields)})
        both = {*(row["partitions"] or ()), *(names(fields.get("partitions")) or ())}
        row["partitions"] = sorted(both) or None
    schema = {"line_no": pl.Int64(), **{c.name: TYPES[c.type] for c in NODE_STATE.columns}}
    texts = schema | dict.fromkeys(TIMES, pl.String())
    frame = pl.DataFrame([*merged.values()], schema=texts).with_columns(
        pl.lit(cluster).alias("cluster"),
        pl.lit(ts, pl.Datetime("us")).alias("ts"),
        pl.lit(source).alias("source"),
    )
    frame, problems = with_times(frame, TIMES, zone)
    counted = [c for c in NODE_STATE.column_names if c != "field_count"]
    frame = frame.with_columns(
        pl.sum_horizontal(pl.col(c).is_not_null() for c in counted).alias("field_count"),
        problem=pl.coalesce(problems),
    )
    return split_rejects(frame, "node")


def _row(fields: Fields) -> dict[str, Any]:
    native = fields.get("state")
    base, flags = parse_node_state(native) if native else (None, [])
    mem, used, free = (whole(fields.get(name)) for name in ("mem_mib", "mem_used_mib", "free_mib"))
    return {
        "node": fields["node"],
        "state": base,
        "state_flags": flags or None,
        "native_state": native,
        "is_schedulable": is_schedulable(base, flags) if native else None,
        "reason": said(fields.get("reason")),
        "reason_principal": _user(fields.get("reason_user")),
        **_gpus(fields),
        "gres": said(fields.get("gres")),
        "gres_used": said(fields.get("gres_used")),
        "cpu_count": whole(fields.get("cpus")),
        "cpu_used_count": whole(fields.get("cpus_used")),
        "cpu_load": _decimal(fields.get("load")),
        "mem_bytes": None if mem is None else mem * MIB,
        "mem_used_bytes": None if used is None else used * MIB,
        "mem_free_bytes": None if free is None else free * MIB,
        "partitions": names(fields.get("partitions")),
        "features": names(fields.get("features")),
        "reservation": said(fields.get("reservation")),
        "agent_version": said(fields.get("version")),
        **{name: said(fields.get(name)) for name in TIMES},
    }


def _gpus(fields: Fields) -> dict[str, Any]:
    """Configured GPUs by TRES, else by GRES; a GRES field that is there and names none means none.

    Used ones by what the node counts itself, else by the TRES allocated; both are silent about GPUs
    while none is in use, so 0 needs proof that the node has some.
    """
    has_gres = fields.get("gres") is not None
    by_gres = parse_gres(fields.get("gres") or "", None)
    by_tres = parse_tres(fields.get("tres") or "")
    found = by_tres if by_tres and by_tres["gpu_count_source"] else by_gres
    total = found["gpus"] if found else 0 if has_gres else None
    used = parse_gres(fields.get("gres_used") or "", None)
    allocated = parse_tres(fields.get("tres_used") or "")
    count = (used or allocated or {}).get("gpus")
    if count is None and total is not None and fields.get("tres_used") is not None:
        count = 0
    models = found if found and found["gpu_models"] else by_gres
    return {
        "gpu_count": total,
        "gpu_used_count": count,
        "gpu_count_source": found["gpu_count_source"] if found else "gres" if has_gres else None,
        "gpu_models": models["gpu_models"] if models else None,
        "gpu_model_counts": models["gpu_model_counts"] if models else None,
    }


def _user(text: str | None) -> str | None:
    found = said(text)
    return found.partition("(")[0] if found else None


def _decimal(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
