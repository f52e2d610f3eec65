"""Chakra execution traces, as PyTorch's ExecutionTraceObserver writes them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.trace_span import TRACE_SPAN
from ._operation_names import operation
from ._trace_identity import OPTIONS, Owner, UnknownOwnerError, owner

if TYPE_CHECKING:
    from ._chakra_nodes import Execution


def _looks_like_chakra(head: bytes, file_name: str) -> bool:
    del file_name
    start = head.lstrip()[:400]
    return start[:1] == b"{" and b'"schema"' in start and b"chakra" in start


@source(
    outputs=(TRACE_SPAN,),
    reads="document",
    options=(
        *OPTIONS,
        Option(
            "tz", "zone of the machine, as an IANA name: the trace prints local time without it"
        ),
    ),
    name_facts=r"(?:^|[^A-Za-z0-9])rank[-_ ]?(?P<rank>\d{1,9})(?!\d)",
    sniff=_looks_like_chakra,
)
def chakra(content: bytes, context: Context) -> Parsed:
    """Chakra execution trace in JSON (schema 1.0.2 to 1.1.1-chakra.0.0.4), one process per file.

    Rows of `trace_span`, kind `communication_call`: the nodes `record_param_comms`, with the
    function, group, element type and counts of their attributes (absent before PyTorch 2.5), in the
    order of their ids. The observer notes no times, so `ts` is the second in which recording
    began, `time_basis` is `none`, and only the order of `span_no` (the node's id) holds. Traces
    that chakra_trace_link has joined with a profiler's have `ts` and `inclusive_dur` in
    microseconds of the profiler's clock: then the row has its start and length.

    The rank is stated or stands after `rank` in the file's name: the trace says none. `time` is
    local without a zone, which is stated by `tz`.

    Not read: the protobuf form, arithmetic nodes, tensors, dependencies (skipped). Python per
    node, 2 us.
    """
    from ._chakra_nodes import BadExecutionError, read_execution  # noqa: PLC0415 - needs msgspec

    try:
        who = owner(context.options, None)
        execution = read_execution(content)
        began = _utc(execution.time, context.options.get("tz"))
    except (UnknownOwnerError, BadExecutionError) as error:
        refused = pl.DataFrame([(0, str(error), "")], schema=REJECTS_SCHEMA, orient="row")
        return Parsed({}, refused)
    rows = _rows(execution, who, began)
    rejects = pl.DataFrame(execution.rejects, schema=REJECTS_SCHEMA, orient="row")
    return Parsed({TRACE_SPAN.name: rows}, rejects, execution.skipped)


def _utc(text: str | None, zone: str | None) -> datetime:
    """When recording began, in UTC. Raises BadExecutionError."""
    from ._chakra_nodes import BadExecutionError  # noqa: PLC0415 - as above

    if zone is None:
        message = (
            "the trace's time names no zone: state it with --set tz=UTC or --set tz=Europe/Berlin"
        )
        raise BadExecutionError(message)
    try:
        local = datetime.strptime(text or "", "%Y-%m-%d %H:%M:%S").replace(tzinfo=ZoneInfo(zone))
        other = local.replace(fold=1)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadExecutionError(
            f"time {text!r} in zone {zone!r} is no time; --set tz=Europe/Berlin, for example"
        ) from None
    if local.utcoffset() != other.utcoffset():
        raise BadExecutionError(f"time {text} is in the hour that a clock change repeats or skips")
    return local.astimezone(ZoneInfo("UTC")).replace(tzinfo=None)


def _rows(execution: Execution, who: Owner, began: datetime) -> pl.DataFrame:
    """Rows of `trace_span`."""
    own_pid = who["pid"]
    starts = [call.ts for call in execution.calls if call.ts is not None]
    first = min(starts, default=0.0)
    values = [
        {
            "line_no": call.number, "span_no": call.id, "ts": began,
            "time_basis": "none", "kind": "communication_call", "name": call.name[:200],
            "start_s": None if call.ts is None else round((call.ts - first) / 1e6, 9),
            "duration_s": None if call.dur is None else round(call.dur / 1e6, 9),
            "pid": execution.pid if own_pid is None else own_pid,
            "pg_name": call.pg_name, "pg_desc": call.pg_desc, "pg_size": call.pg_size,
            "dtype": call.dtype, "input_element_count": call.input_count,
            "output_element_count": call.output_count,
        }
        for call in execution.calls
    ]  # fmt: skip
    schema = {**TRACE_SPAN.polars_schema(), "line_no": pl.Int64()}
    name = pl.Series([call.function for call in execution.calls], dtype=pl.String)
    return pl.DataFrame(values, schema=schema, orient="row").with_columns(
        operation(pl.lit(name)).alias("function"),
        *(pl.lit(value).alias(column) for column, value in who.items() if column != "pid"),
    )
