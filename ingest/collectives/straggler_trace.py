"""ByteDance StragglerAnalysis operation traces."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.step_sample import STEP_SAMPLE
from ..tables.trace_op import TRACE_OP
from ._trace_op import by_kind, chunk_columns

# A start or duration above this is no step's; the unit is probably not seconds.
MAX_S = 86_400.0
MAX_TRACE = timedelta(days=36_500)
MAX_REJECTS = 100_000
UNSTATED_START = "1970-01-01T00:00:00"
INT32_MAX = (1 << 31) - 1
WHOLE = ("dp_rank", "stage", "rank", "step")
REAL = ("start_ts", "duration")
COMMUNICATION = "-(send|recv|all-gather|reduce-scatter|all-reduce|all-to-all|broadcast|barrier)$"


class BadTraceError(ValueError):
    """The file as a whole cannot be read; the text says why and what to do."""


@source(
    outputs=(STEP_SAMPLE, TRACE_OP),
    reads="frame",
    options=(
        Option("job_id", "job of the trace, if the file is not named trace-JOB.parquet"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
        Option("start_ts", "UTC time at which the first traced step began", UNSTATED_START),
    ),
    name_facts=r"^trace-(?P<job_id>.+)\.parquet$",
    sniff=lambda head, file_name: head[:4] == b"PAR1" and file_name.startswith("trace-"),
)
def straggler_trace(frame: pl.LazyFrame, context: Context) -> Parsed:
    """Operation trace of ByteDance-Seed/StragglerAnalysis (Parquet): operations, and steps of a rank.

    Columns read: dp_rank, stage, rank, step (whole numbers), optype (text), start_ts, duration
    (seconds; start_ts begins again at 0 in every step), and where present mc and gmc (model
    chunks). seq_id is the order by start, and mb_id says nothing that is used: they are not read.

    The trace holds no absolute time. A step's `ts` is `start_ts` plus the lengths of the traced
    steps before it; the length of a step is that of its last rank. Without a stated start,
    `time_basis` is `relative`: order and lengths hold, the place on the calendar does not.

    Of a tensor-parallel group one rank is traced, so `rank` counts in steps of the group's size;
    the smallest gap between ranks is `gpu_count`, NULL with a single rank. `line_no` is the first
    row of the step. Kinds without an operation are NULL.

    Sums are made in whole nanoseconds (float32 seconds are coarser from 17 ms on, and shorter
    operations lose half a nanosecond at most): they do not depend on the order of rows. A row
    that cannot be read is a reject, and its rank's step keeps no durations: they would be too
    short. 10.2 million operations (47 MB) take 10 CPU s and 1.2 GiB, of which their lists are 0.3.
    """
    try:
        identity = _identity(context)
        start = _start(context.options["start_ts"])
        operations = _operations(frame)
        rejects = _rejects(operations)
        steps = _steps(operations).collect(engine="streaming")
        rows = _place(steps, start)
    except BadTraceError as error:
        return Parsed({}, _whole(str(error)))
    basis = "relative" if context.options["start_ts"] == UNSTATED_START else "anchored"
    if rows.is_empty() and rejects.is_empty():
        return Parsed({}, _whole("the trace holds no operation"))
    stated = [pl.lit(value).alias(name) for name, value in identity.items()]
    return Parsed(
        {
            STEP_SAMPLE.name: rows.with_columns(
                *stated, time_basis=pl.lit(basis), gpu_count=_gap(rows["rank"])
            ),
            TRACE_OP.name: by_kind(operations, rows).with_columns(stated),
        },
        rejects,
    )


def _whole(reason: str) -> pl.DataFrame:
    """One reject for the whole file."""
    return pl.DataFrame({"line_no": 0, "reason": reason, "text": ""}, schema=REJECTS_SCHEMA)


def _rejects(operations: pl.LazyFrame) -> pl.DataFrame:
    bad = operations.filter(pl.col("reason").is_not_null()).head(MAX_REJECTS + 1)
    text = pl.struct(*WHOLE, "optype", *REAL).struct.json_encode().str.slice(0, 2000)
    found = bad.collect(engine="streaming").select("line_no", "reason", text.alias("text"))
    if found.height > MAX_REJECTS:
        reason = found["reason"][0]
        raise BadTraceError(f"more than {MAX_REJECTS} rows cannot be read, such as: {reason}")
    return found.sort("line_no")


def _identity(context: Context) -> dict[str, str | int]:
    options = context.options
    if not options.get("job_id"):
        raise BadTraceError(
            f"the name {context.file_name!r} is not trace-JOB.parquet; state the job with "
            "--set job_id=JOB"
        )
    if not re.fullmatch(r"[0-9]{1,18}", options["attempt"]):
        raise BadTraceError(f"attempt {options['attempt']!r} is not a number; --set attempt=N")
    return {
        "cluster": options["cluster"],
        "job_id": options["job_id"],
        "attempt": int(options["attempt"]),
    }


def _start(text: str) -> datetime:
    try:
        start = datetime.fromisoformat(text)
    except ValueError:
        raise BadTraceError(
            f"start_ts {text!r} is not a time; --set start_ts=2026-01-31T12:00:00"
        ) from None
    return start.astimezone(UTC).replace(tzinfo=None) if start.tzinfo else start


def _operations(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Rows with `line_no`, and `reason` where they cannot be used. Checks the schema."""
    schema = frame.collect_schema()
    for name in (*WHOLE, "optype", *REAL):
        kind = schema.get(name)
        if kind is None:
            raise BadTraceError(f"no column {name}; the file has {', '.join(schema)[:200]}")
        fits = kind.is_integer() if name in WHOLE else kind.is_float()
        if name == "optype":
            fits = kind == pl.String or isinstance(kind, pl.Categorical | pl.Enum)
        if not fits:
            wanted = "whole numbers" if name in WHOLE else "text" if name == "optype" else "floats"
            raise BadTraceError(f"column {name} is {kind}, not {wanted}")
    return (
        frame.select(*WHOLE, pl.col("optype").cast(pl.String), *REAL, *chunk_columns(schema))
        .with_row_index("line_no", offset=1)
        .with_columns(
            pl.col("line_no").cast(pl.Int64),
            *(pl.col(name).cast(pl.Int64, strict=False) for name in WHOLE),
            *(pl.col(name).cast(pl.Float64) for name in REAL),
        )
        .with_columns(pl.coalesce(*_problems()).alias("reason"))
    )


def _problems() -> list[pl.Expr]:
    problems: list[pl.Expr] = [
        pl.when(~pl.col(name).is_between(0, (1 << 62) if name == "step" else INT32_MAX)
                .fill_null(value=False)).then(pl.lit(f"{name} is missing or out of range"))
        for name in WHOLE
    ]  # fmt: skip
    problems.append(pl.when(pl.col("optype").is_null()).then(pl.lit("optype is missing")))
    for name in REAL:
        value = pl.col(name)
        problems += [
            pl.when(value.is_null() | ~value.is_finite()).then(pl.lit(f"{name} is not a number")),
            pl.when(value < 0).then(pl.lit(f"{name} is negative")),
            pl.when(value > MAX_S).then(pl.lit(f"{name} is longer than a day: not in seconds?")),
        ]
    return problems


def _steps(operations: pl.LazyFrame) -> pl.LazyFrame:
    """One row per rank and step. `end_s` is known even where durations are not.

    Only plain sums, minima and maxima over prepared columns: what else stands in an aggregation
    makes Polars gather the groups in memory.
    """
    good, kinds = pl.col("reason").is_null(), _kinds()
    nanoseconds = (pl.col("duration") * 1e9).round().cast(pl.Int64, strict=False)
    complete = pl.col("op_count") == pl.col("row_count")
    return (
        operations.filter(
            pl.col("rank").is_between(0, INT32_MAX) & pl.col("step").is_between(0, 1 << 62)
        )
        .select(
            "rank", "step", "line_no", "dp_rank", "stage",
            good.cast(pl.UInt32).alias("op_count"),
            pl.when(good).then(pl.col("start_ts") + pl.col("duration")).alias("end_s"),
            *(pl.when(good & kind).then(nanoseconds).alias(name) for name, kind in kinds.items()),
        )
        .group_by("rank", "step")
        .agg(
            pl.col("line_no", "dp_rank", "stage").min(),
            pl.col("dp_rank", "stage").max().name.suffix("_max"),
            pl.len().alias("row_count"),
            pl.col("op_count").sum(),
            pl.col("end_s").max(),
            *(pl.col(name).cast(pl.Int128).sum() for name in kinds),
            *(pl.col(name).count().alias(f"{name}_count") for name in kinds),
        )
        .filter(pl.col("op_count") > 0)
        .select(
            "rank", "step", "line_no", "end_s", "op_count",
            _sole("dp_rank"),
            _sole("stage").alias("pp_stage"),
            pl.when(complete).then("end_s").alias("step_s"),
            *(
                pl.when(complete & (pl.col(f"{name}_count") > 0))
                .then(pl.col(name).cast(pl.Float64) / 1e9)
                .alias(name)
                for name in kinds
            ),
        )
    )  # fmt: skip


def _kinds() -> dict[str, pl.Expr]:
    """Which operations each duration of a step sums."""
    optype = pl.col("optype")
    compute = optype.str.ends_with("-compute")
    communication = optype.str.contains(COMMUNICATION)
    optimizer = optype.str.starts_with("optimizer")
    return {
        "compute_s": compute,
        "forward_s": optype == "forward-compute",
        "backward_s": optype == "backward-compute",
        "communication_s": communication,
        "optimizer_s": optimizer,
        "other_s": ~(compute | communication | optimizer),
    }


def _sole(name: str) -> pl.Expr:
    """The value that all rows agree on; NULL when they contradict each other."""
    return pl.when(pl.col(name) == pl.col(f"{name}_max")).then(name).alias(name)


def _place(steps: pl.DataFrame, start: datetime) -> pl.DataFrame:
    """Add `ts`: the start plus the lengths of the job's traced steps before this one."""
    lengths = (
        steps.group_by("step")
        .agg((pl.col("end_s").max() * 1e6).round().cast(pl.Int64).alias("length_us"))
        .sort("step")
        .with_columns((pl.col("length_us").cum_sum() - pl.col("length_us")).alias("offset_us"))
    )
    total = timedelta(microseconds=int(lengths["length_us"].sum()))
    if total > MAX_TRACE:
        raise BadTraceError("the steps add up to more than 100 years: not in seconds?")
    if start > datetime.max - total:  # noqa: DTZ901 - UTC without zone
        raise BadTraceError(f"start_ts {start} is too late for a calendar")
    offset = pl.duration(microseconds="offset_us", time_unit="us")
    return (
        steps.join(lengths, on="step", maintain_order="left")
        .with_columns((pl.lit(start, dtype=pl.Datetime("us")) + offset).alias("ts"))
        .drop("end_s", "length_us", "offset_us")
        .sort("step", "rank")
    )


def _gap(ranks: pl.Series) -> int | None:
    """Smallest gap between traced ranks: the GPUs that each of them stands for."""
    gap = ranks.unique().sort().diff().min()
    return gap if isinstance(gap, int) else None
