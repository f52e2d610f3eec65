"""Prices of GPU-hours, as a site writes them down."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._entries import Entries, EntryError
from ..tables.price import PRICE

_ENTRIES = Entries(
    PRICE, ("gpu_model", "price_per_gpu_h", "currency"), "a GPU model, a price and a currency"
)
_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def _looks_like_prices(head: bytes, _file_name: str) -> bool:
    return b"price_per_gpu_h" in head.split(b"\n", 1)[0]


@source(outputs=(PRICE,), sniff=_looks_like_prices)
def price(lines: pl.DataFrame, context: Context) -> Parsed:
    """Prices of GPU-hours: CSV with a header line (RFC 4180), or JSON lines; an entry a line.

    Fields are the columns of price under their names, in any order; gpu_model (* for every model),
    price_per_gpu_h and currency (three letters, ISO 4217) must be there. `cluster` falls back to the
    option, start_ts to 1970-01-01. Times are ISO 8601, UTC where they state no zone.
    """
    rows, bad, skipped = _ENTRIES.read(
        lines, context.first_line, context.options["cluster"], _finish
    )
    return Parsed({PRICE.name: rows}, bad, skipped)


def _finish(entry: dict[str, object]) -> dict[str, object]:
    start, end = entry["start_ts"] or _ALWAYS, entry["end_ts"]
    if isinstance(start, datetime) and isinstance(end, datetime) and end <= start:
        raise EntryError(f"end_ts {end} is not after start_ts {start}")
    if not re.fullmatch(r"[A-Z]{3}", str(entry["currency"])):
        raise EntryError(f"currency {entry['currency']!r} is not three capital letters")
    return entry | {"start_ts": start}
