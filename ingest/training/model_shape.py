"""Shapes of models, in Fleetmark's own form."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._entries import Entries, EntryError
from ..tables.model_shape import MODEL_SHAPE

RECOMPUTE = (None, "none", "selective", "full")
PRECISIONS = (None, "bf16", "fp16", "fp8", "fp4", "tf32")
_ENTRIES = Entries(MODEL_SHAPE, ("job_id",), "a job")
_POSITIVE = [c.name for c in MODEL_SHAPE.columns if c.type in ("BIGINT", "DOUBLE")]


def _looks_like_shape(head: bytes, _file_name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    return b"job_id" in first and b"layer_count" in first


@source(outputs=(MODEL_SHAPE,), sniff=_looks_like_shape)
def model_shape(lines: pl.DataFrame, context: Context) -> Parsed:
    """Shapes of the models that jobs train: CSV with a header line, or JSON lines; a job a line.

    Fields are the columns of model_shape under their names, in any order; `job_id` must be there,
    others may be missing or empty. `cluster` falls back to the option.
    """
    rows, bad, skipped = _ENTRIES.read(
        lines, context.first_line, context.options["cluster"], _finish
    )
    return Parsed({MODEL_SHAPE.name: rows}, bad, skipped)


def _finish(entry: dict[str, object]) -> dict[str, object]:
    if entry["recompute"] not in RECOMPUTE:
        raise EntryError(f"recompute {entry['recompute']!r} is not none, selective or full")
    if entry["precision"] not in PRECISIONS:
        raise EntryError(f"precision {entry['precision']!r} is not bf16, fp16, fp8, fp4 or tf32")
    if zero := [name for name in _POSITIVE if entry[name] == 0]:
        raise EntryError(f"{zero[0]} is 0; leave it empty where it is not known")
    return entry
