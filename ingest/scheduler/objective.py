"""Objectives of teams: how long they may wait, how much may fail."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._entries import Entries, EntryError
from ..tables.objective import OBJECTIVE

_ENTRIES = Entries(
    OBJECTIVE, ("objective", "kind", "target_ratio"), "an objective, its kind and target"
)
_LIMITS = {"wait": "limit_s", "slowdown": "limit_ratio", "completion": None}


def _looks_like_objective(head: bytes, _file_name: str) -> bool:
    """Names an objective and its target on the first line."""
    first = head.split(b"\n", 1)[0]
    return b"objective" in first and b"target_ratio" in first


@source(outputs=(OBJECTIVE,), sniff=_looks_like_objective)
def objective(lines: pl.DataFrame, context: Context) -> Parsed:
    """Objectives: CSV with a header line (RFC 4180, one a line), or JSON lines.

    Fields are the columns of the table objective under their names, in any order; `objective`, `kind`
    and `target_ratio` must be there, others may be missing or empty, unknown ones are passed over.
    """
    rows, bad, skipped = _ENTRIES.read(
        lines, context.first_line, context.options["cluster"], _finish
    )
    return Parsed({"objective": rows}, bad, skipped)


def _finish(entry: dict[str, object]) -> dict[str, object]:
    kind, target = entry["kind"], entry["target_ratio"]
    if kind not in _LIMITS:
        raise EntryError(f"kind {kind!r} is none of {', '.join(_LIMITS)}")
    if not isinstance(target, float) or not 0 < target < 1:
        raise EntryError(f"target_ratio {target} is not between 0 and 1: at 1 there is no budget")
    limit = _LIMITS[str(kind)]
    if limit and entry[limit] is None:
        raise EntryError(f"{kind} needs {limit}")
    return entry
