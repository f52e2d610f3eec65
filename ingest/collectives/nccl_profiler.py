"""Traces that NCCL's profiler plug-ins write: NVIDIA's example and Google's CoMMA."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, source

from ..tables.trace_span import TRACE_SPAN
from ._operation_names import operation
from ._trace_identity import OPTIONS, Owner, UnknownOwnerError, owner

if TYPE_CHECKING:
    from ._nccl_profiler_events import Operation

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - all times are UTC without zone
# Microseconds since 1970 pass this in 1973; smaller ones count from the profiler's start.
_EPOCH_US = 1.0e14


def _looks_like_profiler(head: bytes, file_name: str) -> bool:
    del file_name
    marks = (b'"CommHash"', b'"groupApiId"', b'"groupId"', b'"comm_hash"')
    return head.lstrip()[:1] == b"[" and b'"ph"' in head and any(mark in head for mark in marks)


@source(
    outputs=(TRACE_SPAN,),
    reads="document",
    options=OPTIONS,
    name_facts=r"(?:^|[^A-Za-z0-9])rank[-_ ]?(?P<rank>\d{1,9})(?!\d)",
    sniff=_looks_like_profiler,
)
def nccl_profiler(content: bytes, context: Context) -> Parsed:
    """Chrome traces of NCCL's profiler plug-ins, one process per file, plain or gzip.

    NVIDIA's example plug-in (2.23 to 2.30): begin and end events of category COLL and P2P, one a
    line; an operation that never ended has no duration. CoMMA (google/CoMMA, the file of
    `NCCL_PROFILER_LATENCY_FILE`): whole events with `comm_hash`; with `child_dur`, the time its
    transfers took, the row is a `collective` of that length, else a `communication_call`, for `dur`
    is the time to enqueue it. Those of the example are `communication_call`: the CPU times them.

    Both number ranks within the communicator (`comm_rank`); the global one is stated or stands
    after `rank` in the file's name. `comm_id` is the hash, in decimal in one and hexadecimal in
    the other, as 0x and 16 digits. Times are microseconds since the profiler began (`relative`).
    Some builds write a start of 0.0 for everything (NVIDIA/nccl issue 1961): such an operation is
    a reject. The example's files are not quite JSON (unquoted words in API events, no end after a
    crash): then each line is read for itself.

    Not read: groups, API calls, kernels' channels, proxy operations and their steps (skipped).
    Python per event, 2 us.
    """
    from ._nccl_profiler_events import read_operations  # noqa: PLC0415 - only traces need msgspec

    try:
        who = owner(context.options, None)
    except UnknownOwnerError as error:
        return Parsed({}, _rejects([(0, str(error), "")]))
    found = read_operations(content)
    return Parsed(
        {TRACE_SPAN.name: _rows(found.operations, who)}, _rejects(found.rejects), found.skipped
    )


def _rejects(rows: list[tuple[int, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=REJECTS_SCHEMA, orient="row")


def _rows(operations: list[Operation], who: Owner) -> pl.DataFrame:
    """Rows of `trace_span`."""
    first = min((o.start_us for o in operations), default=0.0)
    own_pid = who["pid"]
    values = [
        {
            "line_no": o.number, "span_no": o.number,
            "ts": _EPOCH + timedelta(microseconds=round(o.start_us)),
            "time_basis": "absolute" if first >= _EPOCH_US else "relative",
            "kind": "collective" if o.is_execution else "communication_call",
            "name": o.name[:200], "start_s": round((o.start_us - first) / 1e6, 9),
            "duration_s": None if o.duration_us is None else round(o.duration_us / 1e6, 9),
            "pid": o.pid if own_pid is None else own_pid,
            "algorithm": o.algorithm, "protocol": o.protocol, "comm_id": o.comm_id,
            "comm_rank": o.comm_rank, "seq": o.seq, "dtype": o.dtype,
            "input_element_count": o.count, "size_bytes": o.size_bytes,
        }
        for o in operations
    ]  # fmt: skip
    schema = {**TRACE_SPAN.polars_schema(), "line_no": pl.Int64()}
    return pl.DataFrame(values, schema=schema, orient="row").with_columns(
        operation(pl.col("name")).alias("function"),
        *(pl.lit(value).alias(name) for name, value in who.items() if name != "pid"),
    )
