"""Operations in the traces of NCCL's profiler plug-ins, decoded by msgspec.

Imported when the first such trace is read: little else needs msgspec.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import msgspec

# A time beyond this is none in microseconds (292,000 years overflow 64 bits of ns).
MAX_US = 4.0e15
_OPERATIONS = frozenset({"COLL", "P2P"})


class _Args(msgspec.Struct):
    seq: int | None = msgspec.field(name="SeqNum", default=None)
    comm: int | None = msgspec.field(name="CommHash", default=None)
    rank: int | None = msgspec.field(name="Rank", default=None)
    count: int | None = msgspec.field(name="Count", default=None)
    dtype: str | None = msgspec.field(name="Datatype", default=None)
    algorithm: str | None = msgspec.field(name="Algorithm", default=None)
    protocol: str | None = msgspec.field(name="Protocol", default=None)
    size: int | None = None


class _Event(msgspec.Struct):
    ph: str = ""
    cat: str = ""
    name: str = ""
    id: int = -1
    pid: int | None = None
    ts: float = math.nan
    dur: float = math.nan
    args: _Args | None = None
    comm_hash: str | None = None
    rank: int | None = None
    seq_num: int | None = None
    algo: str | None = None
    proto: str | None = None
    child_start_ts: float | None = None
    child_dur: float | None = None
    reclaimed: bool = False


class _Kind(msgspec.Struct):
    ph: str = ""
    cat: str = ""


_EVENT = msgspec.json.Decoder(_Event)
_KIND = msgspec.json.Decoder(_Kind)
_WHOLE = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Operation:
    """A collective, send or receive: times in microseconds, rank inside the communicator.

    `is_execution`: the duration is that of its transfers, not of the call.
    """

    number: int
    name: str
    start_us: float
    duration_us: float | None
    is_execution: bool
    pid: int | None
    comm_id: str | None
    comm_rank: int | None
    seq: int | None
    algorithm: str | None
    protocol: str | None
    dtype: str | None = None
    count: int | None = None
    size_bytes: int | None = None


@dataclass(slots=True)
class Found:
    """What a trace holds; rejects as (number of the event or line, reason, text)."""

    operations: list[Operation] = field(default_factory=list)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    skipped: int = 0


def read_operations(content: bytes) -> Found:
    """All operations, in the order in which they begin in the file."""
    found = Found()
    open_at: dict[tuple[int | None, str, int], int] = {}
    for number, raw in _events(content):
        event = _decoded(number, raw, found)
        if event is None:
            continue
        key = (event.pid, event.cat, event.id)
        if event.ph == "e":
            _end(found, open_at.pop(key, None), event, number)
        elif reason := _no_start(event):
            found.rejects.append((number, reason, _excerpt(raw)))
        else:
            if event.ph == "b":
                open_at[key] = len(found.operations)
            found.operations.append(_operation(number, event))
    return found


def _events(content: bytes) -> list[tuple[int, bytes]]:
    """Events with their number in the list, or their line where the file as a whole is no JSON."""
    try:
        return [(n, bytes(raw)) for n, raw in enumerate(_WHOLE.decode(content), start=1)]
    except (msgspec.DecodeError, RecursionError):
        lines = enumerate(content.split(b"\n"), start=1)
        return [(n, text) for n, line in lines if (text := line.strip(b" \t\r,[]"))]


def _decoded(number: int, raw: bytes, found: Found) -> _Event | None:
    """An event that begins, ends or is an operation; others are counted as skipped."""
    try:
        kind = _KIND.decode(raw)
        is_wanted = kind.cat in _OPERATIONS and kind.ph in {"b", "e", "X"}
        event = _EVENT.decode(raw) if is_wanted else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # Words without quotes stand in events that are passed over anyway.
        if any(b'"cat": "%s"' % name in raw for name in (b"GROUP_API", b"COLL_API", b"P2P_API",
                                                         b"KERNEL_LAUNCH")):  # fmt: skip
            found.skipped += 1
        else:
            found.rejects.append((number, f"not an event: {str(error)[:200]}", _excerpt(raw)))
        return None
    if event is None:
        found.skipped += 1
    return event


def _no_start(event: _Event) -> str:
    """Why it cannot be placed in time; empty if it can."""
    if event.ts == 0:
        return "a start of 0.0: this build of the profiler records no time"
    if not 0 < event.ts <= MAX_US:
        return f"ts {event.ts} is no time"
    if event.ph == "X" and not 0 <= event.dur <= MAX_US:
        return f"dur {event.dur} is no length"
    return ""


def _end(found: Found, begun: int | None, event: _Event, number: int) -> None:
    if begun is None:
        reason = f"the end of {event.name}, whose start is missing or refused"
        found.rejects.append((number, reason, ""))
        return
    start = found.operations[begun].start_us
    found.skipped += 1
    if start <= event.ts <= MAX_US:
        found.operations[begun] = replace(found.operations[begun], duration_us=event.ts - start)


def _operation(number: int, event: _Event) -> Operation:
    args = event.args or _Args()
    child_us, child_start_us = event.child_dur, event.child_start_ts
    is_execution = child_us is not None and 0 <= child_us <= MAX_US
    start_us, duration_us = event.ts, None
    if is_execution:
        duration_us = child_us
        if child_start_us is not None and 0 < child_start_us <= MAX_US:
            start_us = child_start_us
    elif event.ph == "X" and not event.reclaimed:
        duration_us = event.dur
    comm = _hexadecimal(event.comm_hash) if args.comm is None else args.comm
    return Operation(
        number, event.name, start_us, duration_us, is_execution, event.pid,
        comm_id=None if comm is None else f"0x{comm % 2**64:016x}",
        comm_rank=_small(event.rank if args.rank is None else args.rank),
        seq=_long(event.seq_num if args.seq is None else args.seq),
        algorithm=args.algorithm or (event.algo and event.algo.upper()),
        protocol=args.protocol or (event.proto and event.proto.upper()),
        dtype=args.dtype, count=_long(args.count), size_bytes=_long(args.size),
    )  # fmt: skip


def _hexadecimal(text: str | None) -> int | None:
    try:
        return int(text, 16) if text else None
    except ValueError:
        return None


def _small(number: int | None) -> int | None:
    return number if number is not None and -1 < number < 2**31 else None


def _long(number: int | None) -> int | None:
    return number if number is not None and -1 < number < 2**63 else None


def _excerpt(raw: bytes) -> str:
    return raw[:2000].decode("utf-8", "replace")
