"""Step records of each rank, in Fleetmark's own form."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from .._json_lines import UNITS, decoded, time_of, unit
from ..scheduler._slurm_time import is_zone
from ..tables.step_sample import STEP_SAMPLE

MAX_S = 86_400.0
TEXTS = ("job_id", "node", "gpu_uuid", "weight_hash")
WHOLE = (
    "attempt", "rank", "step", "pid", "dp_rank", "pp_stage", "tp_rank", "gpu_count", "tokens",
    "seq_len", "op_count",
)  # fmt: skip
REAL = ("loss", "grad_norm")
SECONDS = (
    "step_s", "compute_s", "forward_s", "backward_s", "communication_s", "optimizer_s", "other_s",
    "data_s", "launch_s", "checkpoint_s",
)  # fmt: skip
_INT32 = {c.name for c in STEP_SAMPLE.columns if c.type == "INTEGER"}


class BadOptionError(ValueError):
    """An option cannot be used; the text says which and what to write."""


def _looks_like_step_record(head: bytes, file_name: str) -> bool:
    del file_name
    first = head.lstrip().split(b"\n", 1)[0]
    return first[:1] == b"{" and all(key in first for key in (b'"rank"', b'"step"', b'"ts'))


@source(
    outputs=(STEP_SAMPLE,),
    options=(
        Option("job_id", "job of records that name none", "unknown"),
        Option("attempt", "attempt of records that name none", "1"),
        Option(
            "pp_stage", "pipeline stage of records that name none; 0 where there is no pipeline"
        ),
        Option("tz", "zone of times that carry none, as an IANA name"),
        Option("fields", "other names of fields: rank=global_rank,step_s=iteration_ms,ts=time_us"),
    ),
    sniff=_looks_like_step_record,
)
def step_record(lines: pl.DataFrame, context: Context) -> Parsed:
    """Step records, one JSON object a line, one line per rank and step, written by the training loop.

    `rank` (global), `step` and a time are required. The time is `ts`: RFC 3339, or without zone
    (option `tz`), or a number of seconds since 1970; or `ts_ms`, `ts_us`, `ts_ns`. All other fields
    are columns of `step_sample` and may be absent: step_s, compute_s, forward_s, backward_s,
    communication_s (or comm_s), optimizer_s, other_s, data_s, launch_s, checkpoint_s (each also in
    _ms, _us or _ns), tokens, seq_len, loss, grad_norm, weight_hash, dp_rank, pp_stage, tp_rank,
    gpu_count, node, gpu_uuid, pid, op_count, job_id, attempt. Fields of other names are passed over; the option `fields` renames
    them, and the unit of a length is the ending of the name in the file.

    Write `pp_stage`, or state it (`--set pp_stage=0` where there is no pipeline): ranks are compared within
    a stage, and without it no rank is judged (step_straggler.reason: pipeline stage unknown).

    NaN and infinity of loss and grad_norm become NULL and are named in `nonfinite`. A record that
    lacks what is required, or holds a value of a wrong type, a negative length or one of more than
    a day, is a reject. Records with node, pid or gpu_uuid also say who the rank is (rank_identity).

    Columnar: DuckDB decodes a chunk at once, 70,000 records a CPU second.
    """
    try:
        names = _names(context.options.get("fields", ""))
        stated = _stated(context)
    except BadOptionError as error:
        refused = pl.DataFrame([(0, str(error), "")], schema=REJECTS_SCHEMA, orient="row")
        return Parsed({}, refused, lines.height)
    written = lines.filter(pl.col("text").str.strip_chars() != "")
    records = decoded(written, (n for own in names.values() for n in own)).join(
        written, on="line_no", maintain_order="left"
    )
    rows = _typed(records, names, stated, context.options.get("tz"))
    good = rows.filter(pl.col("reason").is_null())
    bad = rows.filter(pl.col("reason").is_not_null())
    own = [c for c in ("line_no", *STEP_SAMPLE.column_names) if c in good.columns]
    return Parsed(
        {STEP_SAMPLE.name: good.select(own)},
        rejects(bad, pl.col("reason")),
        lines.height - written.height,
    )


def _names(fields: str) -> dict[str, list[str]]:
    """Names in the file for each column, the user's first."""
    names: dict[str, list[str]] = {name: [name] for name in (*TEXTS, *WHOLE, *REAL)}
    names["ts"] = ["ts", *(f"ts{unit}" for unit in UNITS)]
    for column in SECONDS:
        names[column] = [column.removesuffix("_s") + unit for unit in UNITS]
    names["communication_s"] += [f"comm{unit}" for unit in UNITS]
    for pair in filter(None, (part.strip() for part in fields.split(","))):
        column, equals, name = (part.strip() for part in pair.partition("="))
        if not equals or column not in names or not re.fullmatch(r"[\w./ -]{1,100}", name):
            raise BadOptionError(
                f"fields: {pair!r} is not COLUMN=NAME with one of {', '.join(sorted(names))}"
            )
        names[column] = [name]
    every = [name.lower() for own in names.values() for name in own]
    if twice := [name for name in every if every.count(name) > 1]:
        raise BadOptionError(f"fields: {twice[0]!r} stands for two columns; capitals do not tell")
    return names


def _stated(context: Context) -> Mapping[str, str | int | None]:
    options = context.options
    zone = options.get("tz")
    if zone is not None and not is_zone(zone):
        raise BadOptionError(f"tz={zone} is no time zone name such as UTC or Europe/Berlin")
    if not re.fullmatch(r"[0-9]{1,18}", options["attempt"]):
        raise BadOptionError(f"attempt {options['attempt']!r} is not a number; --set attempt=N")
    stage = options.get("pp_stage")
    if stage is not None and not re.fullmatch(r"[0-9]{1,9}", stage):
        raise BadOptionError(f"pp_stage {stage!r} is not a number; --set pp_stage=0")
    return {
        "cluster": options["cluster"],
        "job_id": options["job_id"],
        "attempt": int(options["attempt"]),
        "pp_stage": None if stage is None else int(stage),
    }


def _typed(
    records: pl.DataFrame,
    names: Mapping[str, list[str]],
    stated: Mapping[str, str | int | None],
    zone: str | None,
) -> pl.DataFrame:
    """The columns, and in `reason` what keeps a record from being a row."""
    problems = [pl.when(~pl.col("is_object")).then(pl.lit("not a JSON object: damaged or cut"))]
    columns: list[pl.Expr] = []

    def text(column: str) -> pl.Expr:
        return pl.coalesce(pl.col(f"f:{name}") for name in names[column])

    def wrong(column: str, value: pl.Expr, what: str) -> None:
        given = text(column)
        problems.append(
            pl.when(given.is_not_null() & value.is_null()).then(
                pl.format("{} {} is no {}", pl.lit(column), given.str.head(40), pl.lit(what))
            )
        )
        columns.append(value.alias(column))

    columns += [text(column).alias(column) for column in TEXTS]
    for column in WHOLE:
        kind = pl.Int32() if column in _INT32 else pl.Int64()
        number = text(column).cast(kind, strict=False)
        wrong(column, pl.when(number >= 0).then(number), "whole number in range")
    for column in REAL:
        value = text(column).cast(pl.Float64, strict=False)
        wrong(column, value, "number")
    for column in SECONDS:
        wrong(column, _length(names[column]), "length of time below a day")
    wrong("ts", time_of(names["ts"], zone), "time (without zone it needs --set tz=UTC)")
    problems += [
        pl.when(text(column).is_null()).then(pl.lit(f"no {column}"))
        for column in ("rank", "step", "ts")
    ]
    known = records.with_columns(columns).with_columns(
        pl.coalesce(problems).alias("reason"),
        pl.lit(stated["cluster"]).alias("cluster"),
        pl.coalesce("job_id", pl.lit(stated["job_id"])).alias("job_id"),
        pl.coalesce("attempt", pl.lit(stated["attempt"], pl.Int64)).alias("attempt"),
        pl.coalesce("pp_stage", pl.lit(stated["pp_stage"], pl.Int32)).alias("pp_stage"),
        pl.lit("absolute").alias("time_basis"),
    )
    return _finite(known)


def _finite(rows: pl.DataFrame) -> pl.DataFrame:
    """NaN and infinity out of the values, their names into `nonfinite`."""
    bad = [pl.when(pl.col(name).is_finite().not_()).then(pl.lit(name)) for name in REAL]
    is_told = pl.any_horizontal(pl.col(name).is_not_null() for name in REAL)
    nonfinite = pl.when(is_told).then(pl.concat_list(bad).list.drop_nulls())
    return rows.with_columns(nonfinite.alias("nonfinite")).with_columns(
        pl.when(pl.col(name).is_finite()).then(name).alias(name) for name in REAL
    )


def _length(names: list[str]) -> pl.Expr:
    """Seconds, rounded to a nanosecond; NULL if negative, not finite or above a day."""
    values = pl.coalesce(
        (pl.col(f"f:{name}").cast(pl.Float64, strict=False) * unit(name)).round(9) for name in names
    )
    return pl.when(values.is_finite() & values.is_between(0, MAX_S)).then(values)
