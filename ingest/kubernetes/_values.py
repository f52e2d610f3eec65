"""Values in Kubernetes objects: times and quantities."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

# Suffixes of a quantity (kubernetes: apimachinery/pkg/api/resource/quantity.go).
SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(1 << 10), "Mi": Decimal(1 << 20), "Gi": Decimal(1 << 30), "Ti": Decimal(1 << 40),
    "Pi": Decimal(1 << 50), "Ei": Decimal(1 << 60),
}  # fmt: skip
QUANTITY = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?$")
YEARS = range(2000, 2101)
LARGEST = 1 << 62


def whole(value: object) -> int | None:
    """A whole number that a column can hold."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) < LARGEST else None


def time(value: object) -> datetime | None:
    """UTC without zone of an RFC 3339 time; None for the zero time and what is none."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    if moment.tzinfo is None or moment.year not in YEARS:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None)


def epoch(moment: datetime) -> int:
    """Whole seconds since 1970 of a time in UTC."""
    return int(moment.replace(tzinfo=UTC).timestamp())


def quantity(value: object) -> float | None:
    """The number of a quantity such as 8, 500m, 64Gi or 1e3; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = QUANTITY.match(str(value).strip())
    if match is None:
        return None
    number, suffix = match[1], match[2] or ""
    try:
        found = float(Decimal(number) * SUFFIXES[suffix])
    except (InvalidOperation, OverflowError, ValueError):
        return None
    return found if abs(found) < LARGEST else None


def stated_time(stated: str | None) -> datetime | None:
    """A time that the user stated, ISO (UTC if without zone) or epoch seconds."""
    if not stated:
        return None
    if stated.isdecimal():
        seconds = int(stated)
        return (
            datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None) if seconds < 1 << 32 else None
        )
    moment = time(stated)
    return moment if moment is not None else time(f"{stated}Z")


def nanoseconds(value: object) -> datetime | None:
    """UTC without zone of nanoseconds since 1970; None for 0 and what is no time of 2000 to 2100."""
    count = whole(value)
    if count is None or not 946_684_800 <= count // 10**9 < 4_102_444_800:
        return None
    seconds, rest = divmod(count, 10**9)
    moment = datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None)
    return moment.replace(microsecond=rest // 1000)
