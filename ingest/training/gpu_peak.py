"""Peak rates of GPUs, as rows: Fleetmark's collection, and your own."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._entries import Entries, EntryError
from ..tables.gpu_peak import GPU_PEAK

PRECISIONS = ("tf32", "fp16_bf16", "fp8", "fp4")
_ENTRIES = Entries(
    GPU_PEAK,
    ("match_order", "pattern", "gpu_model", "precision", "dense_tflops", "source"),
    "order, pattern, model, precision, dense peak and its source",
)


def _looks_like_peaks(head: bytes, _file_name: str) -> bool:
    return b"dense_tflops" in head.split(b"\n", 1)[0]


@source(
    outputs=(GPU_PEAK,),
    sniff=_looks_like_peaks,
    packaged=(Path(__file__).with_suffix(".json"),),
)
def gpu_peak(lines: pl.DataFrame, context: Context) -> Parsed:
    """Dense peak rates of GPUs: CSV with a header line (RFC 4180), or JSON lines; an entry a line.

    Fields are the columns of gpu_peak under their names, in any order. Rates are dense and per device:
    half of what vendors print with sparsity. To overrule an entry, write one for the same gpu_model and
    precision with a later recorded_ts, or one with a lower match_order. Fleetmark's own collection is
    read with the first ingest into a store, and again when it changes.
    """
    rows, bad, skipped = _ENTRIES.read(lines, context.first_line, "", _finish)
    return Parsed({GPU_PEAK.name: rows}, bad, skipped)


def _finish(entry: dict[str, object]) -> dict[str, object]:
    if entry["precision"] not in PRECISIONS:
        raise EntryError(f"precision {entry['precision']!r} is not one of {', '.join(PRECISIONS)}")
    if entry["dense_tflops"] == 0:
        raise EntryError("dense_tflops is 0")
    try:
        pl.Series([""]).str.contains(str(entry["pattern"]))
    except pl.exceptions.PolarsError:
        raise EntryError(
            f"pattern {entry['pattern']!r} is no regular expression (look-around is not known here)"
        ) from None
    return entry
