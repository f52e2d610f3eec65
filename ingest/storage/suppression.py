"""Registered lawful work, for which findings of theft are suppressed."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from fleetmark.pipeline.files import split_lines
from fleetmark.source import Context, Parsed, source

from .._entries import Entries, EntryError
from ..tables.suppression import SUPPRESSION

_REQUIRED = ("principal", "family", "owner", "reason", "created_ts", "expires_ts")
_ENTRIES = Entries(
    SUPPRESSION,
    _REQUIRED,
    "a principal, a family, an owner, a reason and when it begins and expires",
)
_LONGEST = timedelta(days=90)


def _looks_like(head: bytes, _file_name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    return all(name in first for name in (b"principal", b"family", b"expires_ts"))


@source(outputs=(SUPPRESSION,), reads="document", sniff=_looks_like)
def suppression(content: bytes, context: Context) -> Parsed:
    """Suppressions: CSV with a header line, or JSON lines, with the columns of the table `suppression`.

        principal,family,job_class,owner,reason,created_ts,expires_ts
        arn:aws:sts::1:assumed-role/scrub,llm-70b,,storage team,nightly checksums,2026-03-01,2026-05-01

    Never by address or principal alone: the family must be named. One that lasts over 90 days, or none
    at all, is a reject. An entry that comes again replaces the earlier one when its `created_ts` is later.
    """
    lines, damaged = split_lines(content, 1)
    first_line = lines["text"][0] if lines.height and lines["line_no"][0] == 1 else ""
    rows, bad, skipped = _ENTRIES.read(lines, first_line, context.options["cluster"], _finish)
    return Parsed({"suppression": rows}, pl.concat([damaged, bad]), skipped)


def _finish(entry: dict[str, object]) -> dict[str, object]:
    begin, end = entry["created_ts"], entry["expires_ts"]
    if not isinstance(begin, datetime) or not isinstance(end, datetime) or not begin < end:
        raise EntryError("expires_ts is not after created_ts")
    if end - begin > _LONGEST:
        raise EntryError(f"it lasts {(end - begin).days} days; 90 at most")
    return entry | {"job_class": entry["job_class"] or ""}
