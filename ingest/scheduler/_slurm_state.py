"""Slurm's job states: `CANCELLED by 1002`, `RUNNING`, `REQUEUED`, flags shown over a base state."""

from __future__ import annotations

import re
from typing import Any

import polars as pl

BASE_STATES = frozenset(
    {
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMEOUT",
        "OUT_OF_MEMORY",
        "NODE_FAIL",
        "PREEMPTED",
        "BOOT_FAIL",
        "DEADLINE",
    }
)
# Flags that text output shows in place of the base state, and what they say about the attempt.
# None: nothing; whether it has started and ended decides (slurm: slurm/slurm.h, JOB_* flags).
FLAGS: dict[str, str | None] = {
    "REQUEUED": "REQUEUED",
    "REQUEUE_FED": "REQUEUED",
    "REQUEUE_HOLD": "REQUEUED",
    "SPECIAL_EXIT": "REQUEUED",
    "RESV_DEL_HOLD": "PENDING",
    "LAUNCH_FAILED": "FAILED",
    "RECONFIG_FAIL": "FAILED",
    "STOPPED": "SUSPENDED",
    "CONFIGURING": None,
    "COMPLETING": None,
    "POWER_UP_NODE": None,
    "RESIZING": None,
    "REVOKED": None,
    "SIGNALING": None,
    "STAGE_OUT": None,
    "UPDATE_DB": None,
}
ENDED_STATES = BASE_STATES - {"PENDING", "RUNNING", "SUSPENDED"} | {"REQUEUED"}
STATE_PATTERN = r"[A-Z][A-Z_]*(?:[+,][A-Z_]+)*\+?(?: by \S+)?"

_STATE = re.compile(r"([A-Z_+,]+?)\+?(?: by (\S+))?")
SCHEMA = {
    "state": pl.String(),
    "state_flags": pl.List(pl.String()),
    "cancelled_by_uid": pl.Int64(),
}


def parse_state(text: str) -> dict[str, Any]:
    """Base state, flags and the canceller's uid. `state` is NULL where only the times can tell.

    A state this version of the reader does not know is UNKNOWN; `native_state` keeps its text.
    """
    match = _STATE.fullmatch(text)
    if match is None:
        return {"state": "UNKNOWN", "state_flags": None, "cancelled_by_uid": None}
    words = [word for word in re.split(r"[+,]", match.group(1)) if word]
    uid = match.group(2)
    flags = [word for word in words if word in FLAGS]
    bases = [word for word in words if word in BASE_STATES]
    implied = [meant for word in flags if (meant := FLAGS[word])]
    state: str | None = (bases + implied + ["UNKNOWN"])[0]
    if "REQUEUED" in implied:
        # The base under a requeue flag is where the job goes next, not how this attempt ended.
        state = "REQUEUED"
    elif flags and not bases and not implied:
        state = None
    return {
        "state": state,
        "state_flags": flags or None,
        "cancelled_by_uid": int(uid) if uid and uid.isdigit() and len(uid) < 19 else None,
    }


def states(column: pl.Series) -> pl.DataFrame:
    """Columns of SCHEMA for a column of states; each distinct text is parsed once, in Python."""
    distinct = column.unique().drop_nulls()
    table = pl.DataFrame([parse_state(text) for text in distinct], schema=SCHEMA).with_columns(
        text=distinct.cast(pl.String)
    )
    return (
        column.to_frame("text")
        .join(table, on="text", how="left", maintain_order="left")
        .drop("text")
    )
