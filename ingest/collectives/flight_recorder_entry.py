"""One entry of a Flight Recorder dump as a row of `collective`, field by checked field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ._operation_names import OPERATIONS

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1
MAX_TEXT_CHARS = 512
STATES = ("scheduled", "started", "completed")

# Bytes per element by the names of torch's ScalarType (c10/core/ScalarType.h).
ELEMENT_BYTES = {
    **dict.fromkeys(("Byte", "Char", "Bool", "QInt8", "QUInt8", "Float8_e5m2"), 1),
    **dict.fromkeys(("Float8_e4m3fn", "Float8_e5m2fnuz", "Float8_e4m3fnuz"), 1),
    **dict.fromkeys(("Float8_e8m0fnu", "Float4_e2m1fn_x2"), 1),
    **dict.fromkeys(("Short", "UInt16", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "UInt32", "Float", "QInt32", "ComplexHalf"), 4),
    **dict.fromkeys(("Long", "UInt64", "Double", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}

_ENDS = re.compile(r"(\d{1,9})\s*(?:->|<-)\s*(\d{1,9})")


class BadEntryError(ValueError):
    """A record that cannot be a row; the text names field and value."""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group as one rank's dump describes it. `ranks` is empty when unknown, and
    `comm_rank` is that rank's place in it.
    """

    name: str
    desc: str | None
    ranks: tuple[int, ...] = ()
    comm_rank: int | None = None

    def columns(self) -> dict[str, Any]:
        return {
            "pg_name": self.name,
            "pg_desc": self.desc,
            "pg_size": len(self.ranks) or None,
            "comm_rank": self.comm_rank,
        }


def shown(value: object) -> str:
    """A value in a message, never long, whatever it is."""
    if isinstance(value, str):
        return value[:80].encode("ascii", "backslashreplace").decode("ascii")
    if value is None or (isinstance(value, bool | int | float) and abs(value) <= INT64_MAX):
        return str(value)
    return type(value).__name__


def integer(record: Mapping[str, Any], field: str, largest: int = INT64_MAX) -> int | None:
    """A whole number, given as such or in digits; None where the record has none, or -1."""
    value = record.get(field)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value):
        value = int(value)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value <= largest:
        raise BadEntryError(f"{field} {shown(value)!r} is not a whole number in range")
    return None if value == -1 else value


def text(record: Mapping[str, Any], field: str) -> str | None:
    """Short valid text, or None where the record has none."""
    value = record.get(field)
    return None if value is None else plain_text(value, field)


def plain_text(value: object, field: str) -> str:
    """Short valid text. Half surrogate pairs, which JSON and pickle allow, are no text."""
    if not isinstance(value, str):
        raise BadEntryError(f"{field} {shown(value)!r} is not text")
    if len(value) > MAX_TEXT_CHARS:
        raise BadEntryError(f"{field} has {len(value)} characters; {MAX_TEXT_CHARS} are allowed")
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        raise BadEntryError(f"{field} {shown(value)!r} is not valid text")
    return value


def flag(record: Mapping[str, Any], field: str) -> bool | None:
    """True, false, or None where the record does not say."""
    value = record.get(field)
    if value is not None and not isinstance(value, bool):
        raise BadEntryError(f"{field} {shown(value)!r} is neither true nor false")
    return value


def seconds(record: Mapping[str, Any], field: str) -> float | None:
    """Milliseconds as seconds; None where absent or 0."""
    value = record.get(field)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise BadEntryError(f"{field} {shown(value)!r} is not a number")
    if not (0 <= value <= INT64_MAX and math.isfinite(value)):
        raise BadEntryError(f"{field} {shown(value)} is not a length of time")
    return value / 1000 if value else None


def microseconds(record: Mapping[str, Any], field: str) -> int | None:
    """Nanoseconds since 1970 as microseconds, cut off; None where absent or 0 (JSON's null)."""
    value = integer(record, field)
    return value // 1000 if value else None


def entry_row(
    entry: object, groups: Mapping[str, Group], status: Mapping[int, dict[str, Any]]
) -> dict[str, Any]:
    """Columns of `collective` that an entry gives. Raises BadEntryError."""
    if not isinstance(entry, dict):
        raise BadEntryError(f"entry of type {type(entry).__name__}, not a dictionary")
    ts = microseconds(entry, "time_created_ns")
    if ts is None:
        raise BadEntryError("no time_created_ns")
    # 1.x has one counter, seq_id, and at first no record_id: there the counter stands in.
    sequence = "collective_seq_id" if "collective_seq_id" in entry else "seq_id"
    record_id = integer(entry, "record_id" if "record_id" in entry else sequence)
    if record_id is None:
        raise BadEntryError("no record_id")
    state = text(entry, "state")
    if state is not None and state not in STATES:
        raise BadEntryError(f"state {shown(state)!r} is none of {', '.join(STATES)}")
    pg_id = integer(entry, "pg_id")
    group = group_of(entry, groups)
    return {
        **group.columns(),
        **(status.get(pg_id, {}) if pg_id is not None else {}),
        **_operation(entry, group),
        **_tensors(entry, "input"),
        **_tensors(entry, "output"),
        "pg_id": pg_id,
        "record_id": record_id,
        "collective_seq_id": integer(entry, sequence),
        "p2p_seq_id": integer(entry, "p2p_seq_id"),
        "op_id": integer(entry, "op_id"),
        "state": state,
        "retired": flag(entry, "retired"),
        "ts": ts,
        "started_ts": microseconds(entry, "time_discovered_started_ns"),
        "completed_ts": microseconds(entry, "time_discovered_completed_ns"),
        "duration_s": seconds(entry, "duration_ms"),
        "timeout_s": seconds(entry, "timeout_ms"),
    }


def group_of(entry: Mapping[str, Any], groups: Mapping[str, Group]) -> Group:
    """The entry's group: `[name, desc]`, before 2.0 the name alone, before that only its number."""
    named = entry.get("process_group")
    desc = None
    if isinstance(named, list | tuple) and len(named) == 2:
        named, desc = named
    if named is None:
        number = integer(entry, "pg_id")
        if number is None:
            raise BadEntryError("names no process group")
        named = str(number)
    name = plain_text(named, "process_group")
    return groups.get(name) or Group(
        name, None if desc is None else plain_text(desc, "process_group")
    )


def _operation(entry: Mapping[str, Any], group: Group) -> dict[str, Any]:
    """`nccl:send 0->3`: backend, operation, and for send and recv the ranks inside the group."""
    name = text(entry, "profiling_name")
    if not name:
        raise BadEntryError("no profiling_name")
    backend, colon, label = name.rpartition(":")
    word = label.split(" ")[0].lower().strip("_")
    squeezed = word.replace("_", "")
    operation = next((to for known, to in OPERATIONS.items() if squeezed.startswith(known)), word)
    ends = _ENDS.search(label)
    peer_rank = None
    if ends and int(ends[1]) == group.comm_rank:
        other = int(ends[2])
        peer_rank = group.ranks[other] if other < len(group.ranks) else None
    is_p2p = flag(entry, "is_p2p")
    return {
        "operation": operation or name,
        "backend": backend if colon else None,
        "profiling_name": name,
        "is_p2p": ends is not None if is_p2p is None else is_p2p,
        "peer_rank": peer_rank,
    }


def _tensors(entry: Mapping[str, Any], side: str) -> dict[str, Any]:
    """Shapes as JSON, element types, and bytes where all element types are known."""
    sizes = _list(entry, f"{side}_sizes")
    dtypes = _list(entry, f"{side}_dtypes")
    for shape in sizes or ():
        whole = isinstance(shape, list | tuple) and all(
            type(n) is int and 0 <= n <= INT64_MAX for n in shape
        )
        if not whole:
            raise BadEntryError(f"{side}_sizes holds a shape that is no list of whole numbers")
    names = None if dtypes is None else [plain_text(d, f"{side}_dtypes")[:32] for d in dtypes]
    count = None
    if sizes and names and len(sizes) == len(names) and all(d in ELEMENT_BYTES for d in names):
        count = sum(
            math.prod(shape) * ELEMENT_BYTES[d] for shape, d in zip(sizes, names, strict=True)
        )
        if count > INT64_MAX:
            raise BadEntryError(f"{side}_sizes multiply to more bytes than can be")
    return {
        f"{side}_sizes": None if sizes is None else json.dumps(sizes),
        f"{side}_dtypes": names,
        f"{side}_bytes": count,
    }


def _list(entry: Mapping[str, Any], field: str) -> list[Any] | None:
    value = entry.get(field)
    if value is not None and not isinstance(value, list | tuple):
        raise BadEntryError(f"{field} {shown(value)!r} is not a list")
    return None if value is None else list(value)
