"""When a snapshot was taken, and the zone of the times in it."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from fleetmark.source import Context, Option

from ._slurm_time import is_zone, times

TZ = Option("tz", "zone of times that carry none, as an IANA name; Slurm prints the zone of its TZ")
OBSERVED_AT = Option(
    "observed_at",
    "when the command ran, ISO in UTC or epoch seconds; taken from a file name with ten digits "
    "such as nodes-1796035769.txt",
)
NAME_TIME = r"(?:^|\D)(?P<observed_at>1\d{9})(?:\D|$)"
NO_TIME = (
    "the output does not say when it was taken: state it with --set observed_at=2026-01-31T08:00:00"
)
NOTHING = frozenset({"", "(null)", "None", "none", "N/A", "n/a", "Unknown", "UNKNOWN", "(none)"})


def observed_at(context: Context) -> datetime | None:
    """The stated time of the snapshot (UTC, without zone)."""
    stated = pl.Series([context.options.get("observed_at")], dtype=pl.String)
    ts: datetime | None = times(stated, "UTC")["ts"].to_list()[0]
    return ts


def zone_problem(context: Context) -> str | None:
    """Why the stated zone is none."""
    zone = context.options.get("tz")
    if zone is None or is_zone(zone):
        return None
    return f"tz={zone} is no time zone name such as UTC or Europe/Berlin"


def said(text: str | None) -> str | None:
    """The text without Slurm's words for nothing."""
    return None if text is None or text.strip() in NOTHING else text.strip()


def whole(text: str | None) -> int | None:
    """A whole number at the front of `text` (`8`, `8-16`); None for `UNLIMITED` and words."""
    digits = (text or "").strip().partition("-")[0]
    return int(digits) if digits.isdecimal() and len(digits) < 19 else None


def names(text: str | None) -> list[str] | None:
    """Words of a comma list, sorted; None for none."""
    found = said(text)
    return sorted({word for word in found.split(",") if word}) if found else None
