"""Communication nodes of a Chakra execution trace, decoded by msgspec.

Imported when the first trace is read: little else needs msgspec.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

_CALL = "record_param_comms"
# A ts beyond this is no time in microseconds (292,000 years overflow 64 bits of ns).
_MAX_US = 4.0e15


class BadExecutionError(ValueError):
    """The file as a whole cannot be read; the text says why and what to do."""


class _Attribute(msgspec.Struct):
    name: str = ""
    value: msgspec.Raw = msgspec.Raw(b"")


class _Name(msgspec.Struct):
    name: str = ""


class _Node(msgspec.Struct):
    id: int
    name: str = ""
    ts: float | None = None
    inclusive_dur: float | None = None
    attrs: list[_Attribute] = []


class _Head(msgspec.Struct):
    schema: str | None = None
    pid: int | None = None
    time: str | None = None
    nodes: list[msgspec.Raw] | None = None


_HEAD = msgspec.json.Decoder(_Head)
_NAME = msgspec.json.Decoder(_Name)
_NODE = msgspec.json.Decoder(_Node)
_TEXT = msgspec.json.Decoder(str)
_COUNT = msgspec.json.Decoder(int)


@dataclass(frozen=True, slots=True)
class Call:
    """One collective or point-to-point call; ts and dur in microseconds, in joined traces only."""

    number: int
    id: int
    name: str
    ts: float | None
    dur: float | None
    function: str | None
    dtype: str | None
    pg_name: str | None
    pg_desc: str | None
    pg_size: int | None
    input_count: int | None
    output_count: int | None


@dataclass(slots=True)
class Execution:
    """What a trace says; rejects as (number of the node, reason, text)."""

    time: str | None
    pid: int | None
    calls: list[Call] = field(default_factory=list)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    skipped: int = 0


def read_execution(content: bytes) -> Execution:
    """Decode a trace. Raises BadExecutionError when the document as a whole is none."""
    try:
        head = _HEAD.decode(content)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadExecutionError(f"not an execution trace: {str(error)[:200]}") from None
    if head.nodes is None or "chakra" not in (head.schema or ""):
        raise BadExecutionError("not an execution trace: it has no nodes or names no chakra schema")
    execution = Execution(head.time, head.pid)
    seen: set[int] = set()
    for number, raw in enumerate(head.nodes, start=1):
        try:
            if _NAME.decode(raw).name != _CALL:
                execution.skipped += 1
                continue
            call = _call(number, _NODE.decode(raw))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            execution.rejects.append((number, f"not a node: {str(error)[:200]}", _excerpt(raw)))
            continue
        if call.id in seen or not 0 <= call.id < 2**63:
            reason = f"node id {call.id} is used twice or is none"
            execution.rejects.append((number, reason, _excerpt(raw)))
            continue
        seen.add(call.id)
        execution.calls.append(call)
    return execution


def _call(number: int, node: _Node) -> Call:
    """Raises ValidationError when an attribute is of a wrong type."""
    values = {attribute.name: attribute.value for attribute in node.attrs}

    def text(name: str) -> str | None:
        return (_TEXT.decode(values[name]) or None) if name in values else None

    def count(name: str, limit: int = 2**63) -> int | None:
        value = _COUNT.decode(values[name]) if name in values else None
        return value if value is not None and 0 <= value < limit else None

    has_time = node.ts is not None and 0 <= node.ts <= _MAX_US
    has_length = node.inclusive_dur is not None and 0 <= node.inclusive_dur <= _MAX_US
    return Call(
        number, node.id, node.name,
        node.ts if has_time else None, node.inclusive_dur if has_time and has_length else None,
        text("collective_name"), text("dtype"), text("pg_name"), text("pg_desc"),
        count("pg_size", 2**31), count("in_msg_nelems"), count("out_msg_nelems"),
    )  # fmt: skip


def _excerpt(raw: msgspec.Raw) -> str:
    return bytes(raw)[:2000].decode("utf-8", "replace")
