"""Rows of `node_event`, `qos` and `assoc` from the columns of `sacctmgr show … -P`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA
from fleetmark.table import TYPES, Table

from ..tables.assoc import ASSOC
from ..tables.node_event import NODE_EVENT
from ..tables.qos import QOS
from ._slurm_node_state import parse_node_state
from ._slurm_observed import names, said, whole
from ._slurm_rows import Rows, split_rejects, with_times
from ._slurm_time import durations
from ._slurm_tres import parse_tres

Cells = Mapping[str, str]
Records = Sequence[tuple[int, Cells]]


def event_rows(records: Records, cluster: str, ts: datetime | None, zone: str | None) -> Rows:
    """Rows of `node_event` and rejects. `ts`: when the command ran, if stated."""
    frame = _frame(NODE_EVENT, [(at, _event(cells)) for at, cells in records], cluster)
    frame, problems = with_times(frame, ("start_ts", "end_ts"), zone)
    no_start = pl.when(pl.col("start_ts").is_null()).then(pl.lit("has no TimeStart"))
    latest = pl.max_horizontal(pl.col("start_ts").max(), pl.col("end_ts").max(), pl.lit(ts))
    frame = frame.with_columns(
        pl.coalesce("end_ts", latest).alias("observed_ts"),
        pl.when(pl.col("end_ts").is_null()).then(1).otherwise(2).alias("phase"),
        problem=pl.coalesce(*problems, no_start),
    )
    return split_rejects(frame, "node")


def _event(cells: Cells) -> dict[str, Any]:
    native = cells.get("STATE") or ""
    base, flags = parse_node_state(native) if native else (None, [])
    user, _, uid = cells.get("USER", "").partition("(")
    return {
        "cluster": cells.get("CLUSTER") or None,
        "node": cells["NODENAME"],
        "start_ts": cells.get("TIMESTART", cells.get("START")),
        "end_ts": cells.get("TIMEEND", cells.get("END")),
        "state": base,
        "state_flags": flags or None,
        "native_state": native or None,
        "reason": said(cells.get("REASON")),
        "principal": said(user),
        "uid": whole(uid.rstrip(")")),
    }


def qos_rows(records: Records, cluster: str, ts: datetime) -> Rows:
    """Rows of `qos`; durations are read, limits stay as written beside their GPUs."""
    frame = _frame(QOS, [(at, _qos(cells)) for at, cells in records], cluster)
    return _with_durations(frame.with_columns(pl.lit(ts).alias("ts")), ("grace_s", "max_wall_s"))


def assoc_rows(records: Records, cluster: str, ts: datetime) -> Rows:
    """Rows of `assoc`."""
    frame = _frame(ASSOC, [(at, _assoc(cells)) for at, cells in records], cluster)
    return _with_durations(frame.with_columns(pl.lit(ts).alias("ts")), ("max_wall_s",))


def _frame(table: Table, rows: Sequence[tuple[int, dict[str, Any]]], cluster: str) -> pl.DataFrame:
    texts = {"start_ts", "end_ts", "grace_s", "max_wall_s"}
    schema = {"line_no": pl.Int64(), **{c.name: TYPES[c.type] for c in table.columns}}
    schema |= {name: pl.String() for name in texts if name in schema}
    frame = pl.DataFrame([{"line_no": at, **row} for at, row in rows], schema=schema)
    own = pl.coalesce("cluster", pl.lit(cluster)) if cluster == "default" else pl.lit(cluster)
    return frame.with_columns(own.alias("cluster"), pl.lit("slurm_sacctmgr").alias("source"))


def _with_durations(frame: pl.DataFrame, columns: tuple[str, ...]) -> Rows:
    frame = frame.with_columns(durations(pl.col(name)).alias(name) for name in columns)
    return frame, pl.DataFrame(schema=REJECTS_SCHEMA)


def _get(cells: Cells, *spellings: str) -> str | None:
    """A cell by the first of its headers that is there: they were renamed over the releases."""
    return next((said(cells[name]) for name in spellings if name in cells), None)


def _gpus(text: str | None) -> int | None:
    row = parse_tres(text) if text else None
    return row["gpus"] if row else None


def _qos(cells: Cells) -> dict[str, Any]:
    grp, job = _get(cells, "GRPTRES"), _get(cells, "MAXTRES", "MAXTRESPERJOB")
    user, account = _get(cells, "MAXTRESPU", "MAXTRESPERUSER"), _get(cells, "MAXTRESPA")
    factor = _get(cells, "USAGEFACTOR")
    return {
        "qos": cells["NAME"],
        "priority": whole(cells.get("PRIORITY")),
        "preempts": names(cells.get("PREEMPT")),
        "preempt_mode": _get(cells, "PREEMPTMODE"),
        "grace_s": cells.get("GRACETIME"),
        "flags": names(cells.get("FLAGS")),
        "usage_factor_ratio": float(factor)
        if factor and factor.replace(".", "").isdigit()
        else None,
        "grp_gpus": _gpus(grp),
        "max_gpus_per_job": _gpus(job),
        "max_gpus_per_user": _gpus(user),
        "max_gpus_per_account": _gpus(account),
        "min_gpus": _gpus(_get(cells, "MINTRES", "MINTRESPERJOB")),
        "grp_tres": grp,
        "grp_tres_minutes": _get(cells, "GRPTRESMINS"),
        "max_tres_per_job": job,
        "max_tres_per_user": user,
        "max_tres_per_account": account,
        "grp_jobs": whole(cells.get("GRPJOBS")),
        "grp_submit_jobs": whole(_get(cells, "GRPSUBMIT", "GRPSUBMITJOBS")),
        "max_jobs_per_user": whole(_get(cells, "MAXJOBSPU", "MAXJOBSPERUSER")),
        "max_submit_jobs_per_user": whole(_get(cells, "MAXSUBMITPU", "MAXSUBMITJOBSPERUSER")),
        "max_wall_s": _get(cells, "MAXWALL"),
    }


def _assoc(cells: Cells) -> dict[str, Any]:
    share = _get(cells, "SHARE", "FAIRSHARE")
    grp, job = _get(cells, "GRPTRES"), _get(cells, "MAXTRES", "MAXTRESPERJOB")
    return {
        "cluster": cells.get("CLUSTER") or None,
        "account": cells["ACCOUNT"],
        "principal": cells.get("USER", ""),
        "partition": cells.get("PARTITION", ""),
        "parent_account": _get(cells, "PAR NAME", "PARENTNAME"),
        "share": whole(share),
        "is_share_of_parent": None if share is None else share == "parent",
        "priority": whole(cells.get("PRIORITY")),
        "grp_gpus": _gpus(grp),
        "max_gpus_per_job": _gpus(job),
        "grp_tres": grp,
        "grp_tres_minutes": _get(cells, "GRPTRESMINS"),
        "max_tres_per_job": job,
        "grp_jobs": whole(cells.get("GRPJOBS")),
        "grp_submit_jobs": whole(_get(cells, "GRPSUBMIT", "GRPSUBMITJOBS")),
        "max_jobs": whole(cells.get("MAXJOBS")),
        "max_submit_jobs": whole(_get(cells, "MAXSUBMIT", "MAXSUBMITJOBS")),
        "max_wall_s": _get(cells, "MAXWALL"),
        "qos": names(cells.get("QOS")),
        "default_qos": _get(cells, "DEF QOS", "DEFAULTQOS"),
    }
