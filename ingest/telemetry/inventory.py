"""The fleet's inventory: which GPUs should be there."""

from __future__ import annotations

from datetime import UTC, datetime

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._entries import Entries, EntryError
from ..tables.inventory_gpu import INVENTORY_GPU
from ._gpu_series import canonical_uuid

_ENTRIES = Entries(INVENTORY_GPU, ("node", "gpu_uuid"), "a node and a GPU")
_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def _looks_like_inventory(head: bytes, _file_name: str) -> bool:
    """Names both keys of an entry, and no step: step records of a rank name a node and a GPU too."""
    first = head.split(b"\n", 1)[0]
    names = b"gpu_uuid" in first and b"node" in first and b'"step"' not in first
    return names and first[:1] not in b"#" + b"\x89"


@source(outputs=(INVENTORY_GPU,), sniff=_looks_like_inventory)
def inventory(lines: pl.DataFrame, context: Context) -> Parsed:
    """Inventory of GPUs: CSV with a header line (RFC 4180, one entry a line), or JSON lines.

    Fields are the columns of inventory_gpu under their names, in any order; `node` and `gpu_uuid`
    must be there, others may be missing or empty; unknown ones are named in a reject. `cluster` falls
    back to the option. Times are ISO 8601 dates or date-times, UTC where they state no zone.
    """
    rows, bad, skipped = _ENTRIES.read(
        lines, context.first_line, context.options["cluster"], _finish
    )
    return Parsed({"inventory_gpu": rows}, bad, skipped)


def _finish(entry: dict[str, object]) -> dict[str, object]:
    start, end = entry["start_ts"] or _ALWAYS, entry["end_ts"]
    if isinstance(start, datetime) and isinstance(end, datetime) and end <= start:
        raise EntryError(f"end_ts {end} is not after start_ts {start}")
    return entry | {"gpu_uuid": canonical_uuid(str(entry["gpu_uuid"])), "start_ts": start}
