"""Training records of any framework, in Fleetmark's own form."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source
from fleetmark.table import TYPES, Table

from .._json_lines import UNITS, decoded, time_of, unit
from ..scheduler._slurm_time import is_zone
from ..tables.model_shape import MODEL_SHAPE
from ..tables.train_event import EVENTS, SPANS, TRAIN_EVENT
from ..tables.train_step import TRAIN_STEP
from .model_shape import PRECISIONS, RECOMPUTE

TABLES = (TRAIN_STEP, TRAIN_EVENT, MODEL_SHAPE)
COLUMNS = {c.name: c.type for table in TABLES for c in table.columns}
# Read in several units, or not as a column of their own.
LENGTHS = {name: [f"{name}{ending}" for ending in UNITS] for name in ("step", "duration")}
TIMES = {name: [name, *(f"{name}{ending}" for ending in UNITS)] for name in ("ts", "end_ts")}
OWN = {"event", "ts", "step_s", "time_basis", "field_count", "cluster", "recorded_ts"}
VALUES = {name: kind for name, kind in COLUMNS.items() if name not in OWN}
# What may be NaN or infinite, and is NULL then.
LOSSES = ("loss", "grad_norm")
MAX_S = 86_400.0
GIVEN = ("step_token_count", "global_batch_size", "sample_count", "token_count", "loss", "step_s")


def _looks_like_record(head: bytes, _file_name: str) -> bool:
    first = head.lstrip().split(b"\n", 1)[0]
    return first[:1] == b"{" and b'"event"' in first and (b'"ts' in first or b'"end_ts' in first)


@source(
    outputs=TABLES,
    options=(
        Option("job_id", "job of records that name none", ""),
        Option("attempt", "attempt of records that name none, as in job_attempt", "1"),
        Option("tz", "zone of times that carry none, as an IANA name"),
    ),
    sniff=_looks_like_record,
)
def train_jsonl(lines: pl.DataFrame, context: Context) -> Parsed:
    """Steps, events and the model's shape as JSON lines: one object a line, written by one process.

    `event` says what a record is: `step`, `model_shape`, an event of train_event, or the name of a
    span (init, prep, eval, data, checkpoint_save, checkpoint_load, custom, …) with `duration_s`, which
    stands for its start and stop. `ts` is the time of it, of steps and spans their start, or give
    `end_ts`: RFC 3339, without zone (option `tz`), or seconds since 1970; also ts_ms, ts_us, ts_ns.
    Lengths are step_s and duration_s, or the same in _ms, _us, _ns. All other fields are columns of
    train_step, train_event and model_shape under their names; a step needs `step`. docs/sources.md
    lists them. Fields of other names are passed over.

    A record that lacks what it needs, or holds a value of a wrong type, is a reject; NaN and infinity
    of loss and grad_norm are NULL. Columnar: DuckDB decodes a chunk at once,
    95,000 records a second of CPU.
    """
    options = context.options
    zone = options.get("tz")
    if (zone is not None and not is_zone(zone)) or not re.fullmatch(
        r"\d{1,18}", options["attempt"]
    ):
        why = "tz is no zone such as UTC or Europe/Berlin, or attempt is no number"
        refused = pl.DataFrame([(0, why, "")], schema=REJECTS_SCHEMA, orient="row")
        return Parsed({}, refused, lines.height)
    written = lines.filter(pl.col("text").str.strip_chars() != "")
    fields = [*VALUES, "event", *(n for own in (*LENGTHS.values(), *TIMES.values()) for n in own)]
    records = decoded(written, fields).join(written, on="line_no", maintain_order="left")
    rows = _typed(records, zone).with_columns(
        pl.lit(options["cluster"]).alias("cluster"),
        pl.coalesce("job_id", pl.lit(options["job_id"] or None, pl.String)).alias("job_id"),
        pl.coalesce("attempt", pl.lit(int(options["attempt"]))).alias("attempt"),
    )
    rows = rows.with_columns(pl.coalesce("reason", *_missing()).alias("reason"))
    bad = rows.filter(pl.col("reason").is_not_null())
    good = rows.filter(pl.col("reason").is_null())
    return Parsed(_tables(good), rejects(bad, pl.col("reason")), lines.height - written.height)


def _typed(records: pl.DataFrame, zone: str | None) -> pl.DataFrame:
    """The columns by their contracts, `duration_s`, and in `reason` the first wrong value."""
    problems: list[pl.Expr] = [
        pl.when(~pl.col("is_object")).then(pl.lit("not a JSON object: damaged or cut"))
    ]
    columns = [pl.col("f:event").alias("event")]
    for name, kind in VALUES.items():
        given = pl.col(f"f:{name}")
        value = given.cast(TYPES[kind], strict=False) if kind != "BOOLEAN" else _truth(given)
        if kind in ("BIGINT", "DOUBLE") and name not in LOSSES:
            value = pl.when(value.is_between(0, 1 << 62)).then(value)
        columns.append(value.alias(name))
        problems.append(_wrong(name, [given], value, kind))
    for name, names in LENGTHS.items():
        texts = [pl.col(f"f:{n}") for n in names]
        seconds = pl.coalesce(
            (pl.col(f"f:{n}").cast(pl.Float64, strict=False) * unit(n)).round(9) for n in names
        )
        value = pl.when(seconds.is_between(0, MAX_S)).then(seconds)
        columns.append(value.alias(f"{name}_s"))
        problems.append(_wrong(f"{name}_s", texts, value, "length below a day"))
    for name, names in TIMES.items():
        columns.append(time_of(names, zone).alias(name))
        problems.append(_wrong(name, [pl.col(f"f:{n}") for n in names], time_of(names, zone),
                               "time (without zone it needs --set tz=UTC)"))  # fmt: skip
    return (
        records.with_columns(*columns, pl.coalesce(problems).alias("reason"))
        .with_columns(pl.when(pl.col(n).is_finite()).then(n).alias(n) for n in LOSSES)
        .drop(pl.selectors.starts_with("f:"))
    )


def _wrong(name: str, texts: list[pl.Expr], value: pl.Expr, what: str) -> pl.Expr:
    given = pl.coalesce(texts)
    return pl.when(given.is_not_null() & value.is_null()).then(
        pl.format("{} {} is no {}", pl.lit(name), given.str.head(40), pl.lit(what))
    )


def _truth(given: pl.Expr) -> pl.Expr:
    return given.replace_strict({"true": True, "false": False}, default=None)


def _missing() -> list[pl.Expr]:
    """What a record needs by its kind."""
    event, is_span = pl.col("event"), pl.col("event").is_in(SPANS)
    is_shape, is_step = event == "model_shape", event == "step"
    no_time = pl.col("ts").is_null() & (
        pl.col("end_ts").is_null() | (is_step & pl.col("step_s").is_null())
    )
    known = is_span | is_shape | is_step | event.is_in(EVENTS)
    reasons = {
        "no event": event.is_null(),
        "no such event: see docs/sources.md": ~known,
        "a span without duration_s: write its _start and _stop, or say how long": is_span
        & pl.col("duration_s").is_null(),
        "no job: write job_id, or --set job_id=JOB": pl.col("job_id").is_null(),
        "no ts": ~is_shape & no_time,
        "a step without its number": is_step & pl.col("step").is_null(),
        f"recompute is not one of {', '.join(filter(None, RECOMPUTE))}": is_shape
        & ~pl.col("recompute").is_in([r for r in RECOMPUTE if r]),
        f"precision is not one of {', '.join(filter(None, PRECISIONS))}": is_shape
        & ~pl.col("precision").is_in([p for p in PRECISIONS if p]),
    }
    return [pl.when(fails).then(pl.lit(why)) for why, fails in reasons.items()]


def _tables(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    def before(end: str, seconds: str) -> pl.Expr:
        length = (pl.col(seconds) * 1e6).round().cast(pl.Int64)
        return pl.col(end) - pl.duration(microseconds=length)

    steps = rows.filter(pl.col("event") == "step").with_columns(
        pl.coalesce("ts", before("end_ts", "step_s")).alias("ts"),
        pl.lit("absolute").alias("time_basis"),
        pl.sum_horizontal(pl.col(*GIVEN).is_not_null()).cast(pl.Int32).alias("field_count"),
    )
    shapes = rows.filter(pl.col("event") == "model_shape").with_columns(recorded_ts="ts")
    points = rows.filter(pl.col("event").is_in(EVENTS)).with_columns(pl.coalesce("ts", "end_ts"))
    spans = rows.filter(pl.col("event").is_in(SPANS)).with_columns(
        pl.coalesce("ts", before("end_ts", "duration_s")).alias("ts")
    )
    length = pl.duration(microseconds=(pl.col("duration_s") * 1e6).round().cast(pl.Int64))
    halves = [
        spans.with_columns(pl.col("event") + "_start"),
        spans.with_columns(pl.col("event") + "_stop", pl.col("ts") + length),
    ]
    frames = {TRAIN_STEP: steps, TRAIN_EVENT: pl.concat([points, *halves]), MODEL_SHAPE: shapes}
    return {table.name: _own(table, frame) for table, frame in frames.items()}


def _own(table: Table, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select("line_no", *(c for c in table.column_names if c in frame.columns))
