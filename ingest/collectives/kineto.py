"""Kineto traces of the PyTorch profiler."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, source
from fleetmark.table import Table

from ..tables.rank_map import RANK_MAP
from ..tables.step_sample import STEP_SAMPLE
from ..tables.trace_span import TRACE_SPAN
from ._operation_names import kernel_operation, operation
from ._trace_identity import OPTIONS, Owner, UnknownOwnerError, owner

if TYPE_CHECKING:
    from ._kineto_events import Trace

# Microseconds since 1970 pass this in 1973; smaller ones count from somewhere else.
_EPOCH_US = 1.0e14
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - all times are UTC without zone
_IS_NCCL = (pl.col("kind") == "kernel") & pl.col("name").str.contains(
    "^(?:void )?(?:nccl|rccl|msccl)"
)


def _looks_like_kineto(head: bytes, file_name: str) -> bool:
    del file_name
    if head.lstrip()[:1] != b"{":
        return False
    marks = (b'"deviceProperties"', b'"distributedInfo"', b'"traceEvents"', b'"schemaVersion"')
    return sum(mark in head for mark in marks) >= 2


@source(
    outputs=(TRACE_SPAN, STEP_SAMPLE, RANK_MAP),
    reads="document",
    options=OPTIONS,
    name_facts=(
        r"^(?:(?P<node>[A-Za-z0-9.-]+)_(?P<pid>\d{1,10})\.\d+\.pt\.trace"
        r"|.*?rank[-_ ]?(?P<rank>\d{1,9})(?!\d).*)\.json(?:\.gz)?$"
    ),
    sniff=_looks_like_kineto,
)
def kineto(content: bytes, context: Context) -> Parsed:
    """PyTorch profiler trace (Kineto, Chrome's JSON form), one file per rank, plain or gzip.

    Rows of `trace_span`: kernels, copies and memsets on the GPU, kernels of collectives (NCCL,
    RCCL), their issue by the host (`record_param_comms`, or `nccl:...` annotations in traces
    without those) and the profiler's steps. Rows of `step_sample`: one per `ProfilerStep#`, which
    counts the profiler's steps, not the training's; kinds are sums over kernels that began in the
    step. All other host events are counted as skipped.

    The rank is `distributedInfo.rank`, or stated, or the number after `rank` in the file's name;
    two that contradict each other refuse the file. A name like `HOST_PID.TIME.pt.trace.json`, as
    the profiler's handler gives it, adds a row of `rank_map`.

    Times are microseconds since 1970 (older traces) or since `baseTimeNanoseconds`; where a trace
    says neither, `time_basis` is `relative`. Events whose times or args are of the wrong type are
    rejects. Of a trace that is cut or damaged the events before that are rows and the rest is one
    reject; sums over its steps are NULL, for events do not come in the order of time, and spans may
    miss their step.

    Memory: a trace of 100,000 events (60 MB) takes 0.2 GiB. 600,000 events per CPU second are
    decoded, half of that with rows, gzip not counted.

    Not read: stacks, shapes, flows, GPU annotations; Chakra execution traces.
    """
    from ._kineto_events import BadTraceError, read_trace  # noqa: PLC0415 - only traces need msgspec

    try:
        trace = read_trace(content)
        who = owner(context.options, trace.rank)
    except (BadTraceError, UnknownOwnerError) as error:
        return Parsed({}, _rejects([(0, str(error), "")]))
    spans = _placed(trace.spans, trace.base_ns)
    columns = [pl.lit(value).alias(name) for name, value in who.items()]
    rows = _with_operations(spans, who["rank"]).with_columns(columns)
    steps = _steps(spans, is_cut=trace.is_cut).with_columns(columns)
    return Parsed(
        {
            TRACE_SPAN.name: _fit(TRACE_SPAN, rows),
            STEP_SAMPLE.name: _fit(STEP_SAMPLE, steps),
            RANK_MAP.name: _rank_map(trace, spans, who),
        },
        _rejects(trace.rejects),
        trace.skipped + trace.spans.height - rows.height,
    )


def _rejects(rows: list[tuple[int, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=REJECTS_SCHEMA, orient="row")


def _placed(spans: pl.DataFrame, base_ns: int | None) -> pl.DataFrame:
    """Adds ts, start_s, duration_s, time_basis and the step on whose host span it began."""
    first = spans["us"].min()
    is_epoch = base_ns is not None or (isinstance(first, float) and first >= _EPOCH_US)
    base = _EPOCH + timedelta(microseconds=(base_ns or 0) // 1000)
    placed = spans.with_columns(
        (pl.lit(base, pl.Datetime("us")) + pl.duration(microseconds=pl.col("us").round()))
        .alias("ts"),
        ((pl.col("us") - (first or 0.0)) / 1e6).round(9).alias("start_s"),
        (pl.col("dur_us") / 1e6).round(9).alias("duration_s"),
        pl.lit("absolute" if is_epoch else "relative").alias("time_basis"),
    )  # fmt: skip
    number = pl.col("name").str.extract(r"#\s*(\d+)").cast(pl.Int64)
    steps = placed.filter(pl.col("kind") == "step").select(
        "us", number.alias("step"), (pl.col("us") + pl.col("dur_us")).alias("step_end_us")
    )
    joined = placed.sort("us", maintain_order=True).join_asof(steps.sort("us"), on="us")
    inside = pl.col("us") < pl.col("step_end_us")
    own = pl.when(pl.col("kind") == "step").then(number)
    return joined.with_columns(pl.coalesce(own, pl.when(inside).then("step")).alias("step")).sort(
        "line_no"
    )


def _with_operations(spans: pl.DataFrame, rank: int) -> pl.DataFrame:
    """Rows of `trace_span`: kernels of collectives told from others, calls with their group."""
    is_told = ((spans["kind"] == "call") & spans["collective"].is_not_null()).any()
    passed_over = ["data", "old_call" if is_told else "call"]
    rows = spans.filter(~pl.col("kind").is_in(passed_over)).with_columns(
        pl.col("line_no").alias("span_no"),
        pl.col("device").cast(pl.Int32, strict=False).alias("cuda_device"),
        pl.col("pg_size").cast(pl.Int32, strict=False),
        pl.col("input_count").alias("input_element_count"),
        pl.col("output_count").alias("output_element_count"),
    )
    # Names are matched on the few rows that need it: it costs as much as all the rest.
    is_communication = _IS_NCCL | pl.col("kind").is_in(["call", "old_call"])
    others = rows.filter(~is_communication)
    told = _communication(rows.filter(is_communication), rank)
    together = pl.concat([others, told], how="diagonal").sort("line_no")
    return together.with_columns(pl.col("name").str.slice(0, 200))


def _communication(rows: pl.DataFrame, rank: int) -> pl.DataFrame:
    """Function, algorithm, protocol and place in the group of collectives and their calls."""
    is_kernel = pl.col("kind") == "kernel"
    named = kernel_operation(pl.col("name"))
    told = operation(pl.coalesce("collective", pl.col("name").str.strip_prefix("nccl:")))
    # The profiler shortens long lists (`...`): then a rank's place in them is not known.
    ranks = pl.col("pg_ranks").str.strip_chars("[] ").str.split(", ")
    is_whole = (pl.col("pg_size") == ranks.list.len()) & ranks.list.contains(str(rank))
    place = ranks.list.eval(pl.element() == str(rank)).list.arg_max()
    return rows.with_columns(
        pl.when(is_kernel)
        .then(pl.coalesce(operation(pl.col("collective")), named["function"]))
        .otherwise(told)
        .alias("function"),
        *(pl.when(is_kernel).then(named[n]).alias(n) for n in ("algorithm", "protocol")),
        pl.when(is_whole).then(place).cast(pl.Int32).alias("comm_rank"),
        pl.when(is_kernel)
        .then(pl.lit("collective"))
        .otherwise(pl.lit("communication_call"))
        .alias("kind"),
    )


def _steps(spans: pl.DataFrame, *, is_cut: bool) -> pl.DataFrame:
    """Rows of `step_sample`: the profiler's steps and what began in them, if all of it is there."""
    is_kernel = pl.col("kind") == "kernel"

    def total(condition: pl.Expr) -> pl.Expr:
        value = pl.when(condition).then("duration_s")
        return pl.when(value.count() > 0).then(value.sum())

    sums = spans.filter(pl.col("step").is_not_null() & (pl.col("kind") != "step")).group_by("step")
    parts = sums.agg(
        total(is_kernel & ~_IS_NCCL).alias("compute_s"),
        total(_IS_NCCL).alias("communication_s"),
        total(pl.col("kind") == "data").alias("data_s"),
        is_kernel.sum().cast(pl.Int32).alias("op_count"),
    )
    if is_cut:
        parts = parts.clear()
    own = spans.filter(pl.col("kind") == "step").unique("step", keep="first", maintain_order=True)
    return own.select(
        "line_no", "step", "ts", "time_basis", pl.col("duration_s").alias("step_s")
    ).join(parts, on="step", how="left", maintain_order="left")


def _rank_map(trace: Trace, spans: pl.DataFrame, who: Owner) -> pl.DataFrame:
    """The process that is this rank, where its name is known."""
    schema = {**RANK_MAP.polars_schema(), "line_no": pl.Int64()}
    if who["node"] is None or who["pid"] is None:
        return pl.DataFrame(schema=schema)
    devices = spans["device"].drop_nulls().unique().to_list()
    row = {
        **who, "line_no": 0, "origin": "kineto", "comm_id": "", "comm_rank": -1,
        "world_size": trace.world_size, "cuda_device": devices[0] if len(devices) == 1 else None,
    }  # fmt: skip
    return pl.DataFrame([row], schema=schema, orient="row")


def _fit(table: Table, rows: pl.DataFrame) -> pl.DataFrame:
    names = [name for name in ("line_no", *table.column_names) if name in rows.columns]
    return rows.select(names)
