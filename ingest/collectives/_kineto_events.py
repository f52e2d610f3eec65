"""Events of a Kineto trace as columns, decoded by msgspec into typed records.

Imported when the first trace is read: nothing else needs msgspec. Events that no row needs are
decoded to their name and times only; their `args` stay bytes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from operator import attrgetter

import msgspec
import polars as pl

GPU_KINDS = {
    "kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "memset",
    "Kernel": "kernel", "Memcpy": "copy", "Memset": "memset",  # until PyTorch 1.11
}  # fmt: skip
_STEP = "ProfilerStep"
_CALL = "record_param_comms"
_OLD_CALL = "nccl:"
_DATA = "enumerate(DataLoader)"
_SEEN = (_STEP, _CALL, _OLD_CALL, _DATA)
# A ts or dur beyond this is no time in microseconds (292,000 years overflow 64 bits of ns).
MAX_US = 4.0e15


class BadTraceError(ValueError):
    """The file as a whole cannot be read; the text says why and what to do."""


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    ts: float = math.nan
    dur: float = math.nan
    args: msgspec.Raw = msgspec.Raw(b"")


class _Distributed(msgspec.Struct):
    backend: str | None = None
    rank: int | None = None
    world_size: int | None = None


class _Head(msgspec.Struct):
    # No tag tells Kineto's traces from others of Chrome's form; an absent list is no trace.
    events: list[_Event] | None = msgspec.field(name="traceEvents", default=None)
    base_ns: int | None = msgspec.field(name="baseTimeNanoseconds", default=None)
    distributed: _Distributed | None = msgspec.field(name="distributedInfo", default=None)


class _LooseHead(msgspec.Struct):
    events: list[msgspec.Raw] | None = msgspec.field(name="traceEvents", default=None)
    base_ns: int | None = msgspec.field(name="baseTimeNanoseconds", default=None)
    distributed: _Distributed | None = msgspec.field(name="distributedInfo", default=None)


class _Args(msgspec.Struct, gc=False):
    device: int | None = None
    stream: int | None = None
    correlation: int | None = None
    collective: str | None = msgspec.field(name="Collective name", default=None)
    input_count: int | None = msgspec.field(name="In msg nelems", default=None)
    output_count: int | None = msgspec.field(name="Out msg nelems", default=None)
    pg_size: int | None = msgspec.field(name="Group size", default=None)
    dtype: str | None = None
    pg_name: str | None = msgspec.field(name="Process Group Name", default=None)
    pg_desc: str | None = msgspec.field(name="Process Group Description", default=None)
    pg_ranks: str | None = msgspec.field(name="Process Group Ranks", default=None)
    seq: int | None = msgspec.field(name="Seq", default=None)


_EMPTY = msgspec.Raw(b"")
_NO_ARGS = _Args()
_HEAD = msgspec.json.Decoder(_Head)
_LOOSE = msgspec.json.Decoder(_LooseHead)
_EVENT = msgspec.json.Decoder(_Event)
_ARGS = msgspec.json.Decoder(_Args)


_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_EXCERPT_BYTES = 2000
_LONGEST_EVENT_BYTES = 1 << 20
_TRIES = 16
_EVENT_END = re.compile(rb"\}(?=\s*(?:,\s*(?:\{|\Z)|\]|\Z))")
_TEXTS = frozenset({"collective", "dtype", "pg_name", "pg_desc", "pg_ranks"})


@dataclass(slots=True)
class Trace:
    """What a trace says: `spans` (line_no, kind, name, us, dur_us and the fields of `_Args`),
    `rejects` as (line_no, reason, text), how many events gave neither, and whether its end is
    missing.
    """

    rank: int | None
    world_size: int | None
    base_ns: int | None
    spans: pl.DataFrame
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    skipped: int = 0
    is_cut: bool = False


def read_trace(content: bytes) -> Trace:
    """Decode a trace; of one that is cut or damaged, the events before that and one reject.

    Raises BadTraceError when the document as a whole is none.
    """
    try:
        return _trace(content)
    except _UNREADABLE as error:
        damage = str(error)[:200]
    at = re.search(r"\(byte (\d+)\)", damage)
    end = int(at[1]) if at else len(content)
    for stop in _event_ends(content, end):
        try:
            trace = _trace(content[:stop] + b"]}")
        except (*_UNREADABLE, BadTraceError):
            continue
        number = trace.spans.height + trace.skipped + len(trace.rejects) + 1
        reason = f"{damage}: of this trace only the {number - 1} events before that are read"
        trace.rejects.append((number, reason, _excerpt(content[stop : stop + _EXCERPT_BYTES])))
        trace.is_cut = True
        return trace
    raise BadTraceError(f"not a profiler trace: {damage}")


def _event_ends(content: bytes, end: int) -> list[int]:
    """Where the last whole event before `end` may stop, the latest place first.

    Which `}` closes an event only decoding can tell; one of the last few does.
    """
    found = _EVENT_END.finditer(content, max(0, end - _LONGEST_EVENT_BYTES), end)
    return [match.end() for match in found][: -_TRIES - 1 : -1]


def _trace(content: bytes) -> Trace:
    rejects: list[tuple[int, str, str]] = []
    try:
        head = _HEAD.decode(content)
        events: list[_Event | None] = list(head.events or ())
    except msgspec.ValidationError:
        loose = _LOOSE.decode(content)
        head = _Head(None, loose.base_ns, loose.distributed)
        events = [_event(n, raw, rejects) for n, raw in enumerate(loose.events or (), start=1)]
        head.events = [] if loose.events is not None else None
    if head.events is None:
        raise BadTraceError("not a profiler trace: it has no traceEvents")
    spans = _spans(events, rejects)
    distributed = head.distributed or _Distributed()
    skipped = len(events) - spans.height - len(rejects)
    return Trace(
        distributed.rank, distributed.world_size, head.base_ns, spans, sorted(rejects), skipped
    )


def _event(number: int, raw: msgspec.Raw, rejects: list[tuple[int, str, str]]) -> _Event | None:
    try:
        return _EVENT.decode(raw)
    except msgspec.ValidationError as error:
        rejects.append((number, f"not an event: {error}", _excerpt(raw)))
        return None


def _excerpt(raw: msgspec.Raw | bytes) -> str:
    return bytes(raw)[:_EXCERPT_BYTES].decode("utf-8", "replace")


def _spans(events: list[_Event | None], rejects: list[tuple[int, str, str]]) -> pl.DataFrame:
    """Python per event: 0.2 us for those passed over, 3 us for those kept."""
    numbers: list[int] = []
    kinds: list[str] = []
    kept: list[_Event] = []
    arguments: list[_Args] = []
    for number, event in enumerate(events, start=1):
        if event is None or event.ph != "X":
            continue
        kind = GPU_KINDS.get(event.cat)
        if kind is None:
            kind = _host_kind(event.name) if event.name.startswith(_SEEN) else None
            if kind is None:
                continue
        if not (0 <= event.ts <= MAX_US and 0 <= event.dur <= MAX_US):
            reason = f"ts {event.ts} and dur {event.dur} are no stretch of time"
            rejects.append((number, reason, event.name[:2000]))
            continue
        try:
            args = _NO_ARGS if kind == "step" or event.args == _EMPTY else _ARGS.decode(event.args)
        except msgspec.ValidationError as error:
            rejects.append((number, f"args: {error}", _excerpt(event.args)))
            continue
        numbers.append(number)
        kinds.append(kind)
        kept.append(event)
        arguments.append(args)
    return _frame(numbers, kinds, kept, arguments)


def _host_kind(name: str) -> str | None:
    if name.startswith(_STEP):
        return "step" if re.match(r"ProfilerStep\s*#\s*\d{1,18}\b", name) else None
    if name.startswith(_DATA):
        return "data"
    return "call" if name.startswith(_CALL) else "old_call"


def _frame(
    numbers: list[int], kinds: list[str], events: list[_Event], arguments: list[_Args]
) -> pl.DataFrame:
    columns = [
        pl.Series("line_no", numbers, pl.Int64),
        pl.Series("kind", kinds, pl.String),
        pl.Series("name", [event.name for event in events], pl.String),
        pl.Series("us", [event.ts for event in events], pl.Float64),
        pl.Series("dur_us", [event.dur for event in events], pl.Float64),
    ]
    try:
        for name in _Args.__struct_fields__:
            column = list(map(attrgetter(name), arguments))
            columns.append(pl.Series(name, column, pl.String if name in _TEXTS else pl.Int64))
    except (OverflowError, pl.exceptions.PolarsError) as error:
        raise BadTraceError(f"a number is larger than 64 bits: {error}") from None
    return pl.DataFrame(columns)
