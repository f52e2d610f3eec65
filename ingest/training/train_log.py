"""Training logs: what frameworks print per step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from ..scheduler._slurm_time import is_zone
from ..tables.model_shape import MODEL_SHAPE
from ..tables.train_step import TRAIN_STEP
from ._train_log_arguments import shapes
from ._train_log_frameworks import FRAMEWORKS, NUMBER, Field, Framework

MARK = "\x1e"
START = "|".join(framework.start for framework in FRAMEWORKS)
COLOUR = "\x1b\\[[0-9;]*[A-Za-z]"
# The last stamp of the text before counts, at most 100 characters before the record.
STAMP = (
    r"^.*(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(Z|[+-]\d\d:?\d\d)?[^\x1e]{0,100}?$"
)
# absl and glog, which MaxText logs through: level, month and day, no year.
ABSL = r"\b[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d{1,6})"
YEARLESS = rf"^.*{ABSL}[^\x1e]{{0,100}}?$"
# Lines that go on with the record above: Composer writes one metric a line.
CONTINUED = r"^(?:.*?[\]:] )?[ \t]*(?:Train )?[A-Za-z0-9_]+/[A-Za-z0-9_/]+: "
COMPOSER_START = r"\[(?:batch|sample|token|epoch|iteration)=\d+(?:/\d+)?\]:\s*$"
WHOLE = ("global_batch_size", "sample_count", "token_count", "seq_len")
FIELD_NAMES = tuple(dict.fromkeys(name for f in FRAMEWORKS for name in f.fields))
# Frameworks that print how long a step was; without it their record is cut.
TIMED = ("megatron", "nemo", "deepspeed", "maxtext", "nanogpt")
MAX_STEP_S = 86_400.0
# A record over several lines is complete when so many have followed its start: other ranks' output
# stands between them, but a run that never prints another record is not held back for ever.
MAX_RECORD_LINES = 1_000


def looks_like_training(head: bytes, _file_name: str) -> bool:
    """A record, or the arguments before the first one, somewhere in the first 64 KiB."""
    text = re.sub(COLOUR, "", head.decode("utf-8", "replace"))
    return re.search(rf"{START}|-{{20,}} arguments -{{20,}}", text) is not None


@source(
    outputs=(TRAIN_STEP, MODEL_SHAPE),
    options=(
        Option("job_id", "job of the log, if the file is not named slurm-JOB.out or JOB.log"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
        Option("tz", "zone of the times in the log, as an IANA name, where they state none"),
        Option(
            "year", "year of the file's first line, where stamps have none (absl: I0320 12:23:43.5)"
        ),
    ),
    name_facts=r"^(?:slurm-)?(?P<job_id>\d+)\.(?:out|log|txt)(?:\.gz)?$",
    sniff=looks_like_training,
)
def train_log(lines: pl.DataFrame, context: Context) -> Parsed:
    """Step records of Megatron-LM, NeMo, DeepSpeed, TorchTitan, MaxText, nanoGPT, Composer, Trainer.

    The forks of BigScience and DeepSpeed and LLM Foundry count to theirs. `_train_log_frameworks.py`
    lists their fields, found by name anywhere behind a record's start. The stamp before a record, if
    there is one, is the end of its step; it needs tz unless it states its zone. Without stamps, and
    where absl's name no year and none is stated, times are relative. Launchers' prefixes, colours and text of other ranks on the same line do not
    matter; a line may hold several records, and Composer's run over several lines. The arguments that
    Megatron prints become a row of model_shape, the padded vocabulary too if it follows. Values that are
    nan or inf are NULL. Lines without a record are skipped, those of DeepSpeed's ThroughputTimer too,
    which are wrong where gradients accumulate. A record that is cut is a reject, as is one of the
    Trainer's without the progress bar that names its step: read trainer_state.json then.
    """
    found = _found(lines, at_end=context.at_end)
    seen = lines.height
    if found.held_from is not None:
        seen = int((lines["line_no"] < found.held_from).sum())
    skipped = seen - found.records["line_no"].n_unique() - found.shapes.height
    if problem := _problem(context):
        places = pl.concat([found.records["line_no"], found.shapes["line_no"]])
        refused = lines.filter(pl.col("line_no").is_in(places.implode()))
        return Parsed({}, rejects(refused, problem), skipped, found.held_from)
    job = {name: pl.lit(context.options[name]) for name in ("cluster", "job_id")}
    records = _with_year(found.records, context)
    read = pl.concat(_read(records, context.options.get("tz")), how="diagonal")
    rows = read.filter(pl.col("reason").is_null()).with_columns(
        pl.lit(int(context.options["attempt"])).alias("attempt"), **job
    )
    bad = read.filter(pl.col("reason").is_not_null()).unique(
        ["line_no", "reason"], keep="first", maintain_order=True
    )
    tables = {
        TRAIN_STEP.name: rows.select(
            "line_no", *(c for c in TRAIN_STEP.column_names if c in rows.columns)
        ),
        MODEL_SHAPE.name: found.shapes.with_columns(**job),
    }
    return Parsed(tables, rejects(bad, pl.col("reason")), skipped, found.held_from)


@dataclass(frozen=True, slots=True)
class Found:
    """Records (line_no, before, text), shapes (line_no, columns of model_shape), and what is held."""

    records: pl.DataFrame
    shapes: pl.DataFrame
    held_from: int | None


def _found(lines: pl.DataFrame, *, at_end: bool) -> Found:
    """What a chunk holds, up to the first line of a record or of arguments that are still open."""
    clean = lines.with_columns(pl.col("text").str.replace_all(COLOUR, ""))
    blocks, held_from = shapes(clean, START, at_end=at_end)
    if held_from is not None:
        clean = clean.filter(pl.col("line_no") < held_from)
    whole, open_record = _folded(clean, at_end=at_end and held_from is None)
    held_from = held_from if open_record is None else open_record
    schema = {"line_no": pl.Int64(), **MODEL_SHAPE.polars_schema()}
    found = pl.DataFrame(blocks, schema, orient="row")
    if held_from is not None:
        found = found.filter(pl.col("line_no") < held_from)
    return Found(_records(whole), found, held_from)


def _problem(context: Context) -> str | None:
    options = context.options
    zone = options.get("tz")
    if not options.get("job_id"):
        return f"the name {context.file_name!r} does not state the job; --set job_id=JOB"
    if not re.fullmatch(r"[0-9]{1,18}", options["attempt"]):
        return f"attempt {options['attempt']!r} is not a number; --set attempt=N"
    if not re.fullmatch(r"(?:20\d\d)?", options.get("year") or ""):
        return f"year={options['year']} is none from 2000 to 2099"
    if zone is not None and not is_zone(zone):
        return f"tz={zone} is no time zone name such as UTC or Europe/Paris"
    return None


def _with_year(records: pl.DataFrame, context: Context) -> pl.DataFrame:
    """Records whose stamp names no year with one put in front of it; a day before the file's first
    is of the year after.
    """
    stated = context.options.get("year")
    if not stated:
        return records
    first = re.search(ABSL, context.first_line)
    begin = first[1] + first[2] if first else "0101"
    parts = pl.col("before").str.extract_groups(YEARLESS).struct
    month, day, clock = (parts.field(str(n)) for n in (1, 2, 3))
    year = pl.when(month + day < begin).then(int(stated) + 1).otherwise(int(stated))
    dated = pl.format("{}-{}-{} {} ", year, month, day, clock)
    return records.with_columns(pl.coalesce(dated, "before").alias("before"))


def _folded(lines: pl.DataFrame, *, at_end: bool) -> tuple[pl.DataFrame, int | None]:
    """Records over several lines put on their first; and the line where an open one is held back."""
    text = pl.col("text")
    starts = text.str.contains(COMPOSER_START)
    marked = lines.with_columns(starts=starts, goes_on=text.str.contains(CONTINUED) & ~starts)
    if not marked["starts"].any():
        return lines, None
    # Lines of other ranks may stand between: a metric belongs to the last start above it.
    marked = marked.with_columns(
        pl.when("starts").then("line_no").forward_fill().alias("record_no")
    )
    last, end = int(marked.filter("starts")["line_no"][-1]), int(marked["line_no"][-1])
    held_from = None if at_end or end - last > MAX_RECORD_LINES else last
    if held_from is not None:
        marked = marked.filter(pl.col("line_no") < held_from)
    part = pl.col("goes_on") & pl.col("record_no").is_not_null()
    more = (
        marked.filter(part).group_by("record_no").agg(pl.col("text").str.join(" | ").alias("more"))
    )
    folded = (
        marked.filter(~part)
        .join(more, left_on="line_no", right_on="record_no", how="left", maintain_order="left")
        .select("line_no", pl.concat_str("text", "more", separator=" | ", ignore_nulls=True))
    )
    return folded, held_from


def _records(lines: pl.DataFrame) -> pl.DataFrame:
    """One row per record, with what stands before it up to the record before."""
    text = pl.col("text")
    held = lines.filter(text.str.contains(START))
    marked = held.select(
        "line_no",
        pl.col("text").str.replace_all(f"({START})", f"{MARK}$1").str.split(MARK).alias("parts"),
    )
    return (
        marked.with_columns(
            before=pl.col("parts").list.head(pl.col("parts").list.len() - 1),
            text=pl.col("parts").list.slice(1),
        )
        .explode("before", "text")
        .select("line_no", "before", "text")
    )


def _read(records: pl.DataFrame, zone: str | None) -> Iterator[pl.DataFrame]:
    """The records of each framework, typed; a record belongs to the first whose start it has."""
    left = records
    for framework in FRAMEWORKS:
        starts = pl.col("text").str.contains(f"^(?:{framework.start})")
        yield _fields(left.filter(starts), framework, zone)
        left = left.filter(~starts)


def _value(fields: tuple[Field, ...]) -> pl.Expr:
    """The first of the fields that is there; NULL if it is not finite."""
    readings = []
    for field in fields:
        text = pl.col("text").str.extract(f"{field.label}{NUMBER}", 1).str.replace_all(",", "")
        number = text.cast(pl.Float64, strict=False)
        readings.append((1 / number if field.inverse else number) * field.factor)
    value = pl.coalesce(readings)
    return pl.when(value.is_finite()).then(value)


def _fields(records: pl.DataFrame, framework: Framework, zone: str | None) -> pl.DataFrame:
    place = pl.col("before" if framework.before else "text")
    behind = "" if framework.before else r"(\d+)"
    steps = [place.str.extract(f"{p}{behind}", 1).cast(pl.Int64, strict=False)
             for p in framework.step]  # fmt: skip
    values = {
        name: _value(framework.fields[name])
        if name in framework.fields
        else pl.lit(None, pl.Float64)
        for name in FIELD_NAMES
    }
    given = [pl.col(name).is_not_null().cast(pl.Int32) for name in FIELD_NAMES]
    read = (
        records.with_columns(value.round(9).alias(name) for name, value in values.items())
        # -1 and -100 % stand for "not known yet".
        .with_columns(
            pl.when(pl.col(name) >= 0).then(name).alias(name)
            for name in ("logged_mfu_ratio", "logged_tflops", *WHOLE)
        )
        .with_columns(pl.col(name).cast(pl.Int64, strict=False) for name in WHOLE)
        .with_columns(
            pl.coalesce(steps).alias("step"),
            pl.lit(framework.name).alias("framework"),
            pl.sum_horizontal(given).alias("field_count"),
            **_stamp(zone),
        )
    )
    step_us = (pl.col("step_s").fill_null(0) * 1e6).round().cast(pl.Int64, strict=False)
    epoch_s = pl.from_epoch("step", time_unit="s").cast(pl.Datetime("us"))
    stamped = pl.col("stamped")
    return read.with_columns(
        pl.coalesce(_rejected(framework, zone)).alias("reason"),
        pl.when(stamped)
        .then(pl.col("end_ts") - pl.duration(microseconds=step_us))
        .otherwise(epoch_s)
        .alias("ts"),
        pl.when(stamped).then(pl.lit("absolute")).otherwise(pl.lit("relative")).alias("time_basis"),
    )


def _stamp(zone: str | None) -> Mapping[str, pl.Expr]:
    """`stamped`, `zoned`, and `end_ts` in UTC, from the last stamp before the record."""
    parts = pl.col("before").str.extract_groups(STAMP)
    clock = parts.struct.field("2").str.replace(",", ".", literal=True)
    offset = parts.struct.field("3").str.replace("Z", "+00:00", literal=True)
    time = pl.concat_str(parts.struct.field("1"), pl.lit("T"), clock)
    local = time.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", time_unit="us", strict=False)
    zoned = (
        pl.concat_str(time, offset)
        .str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%#z", time_unit="us", strict=False)
        .dt.convert_time_zone("UTC")
        .dt.replace_time_zone(None)
    )
    known = pl.lit(None, pl.Datetime("us"))
    if zone is not None:
        aware = local.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
        known = aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return {
        "stamped": local.is_not_null(),
        "zoned": offset.is_not_null(),
        "end_ts": pl.coalesce(zoned, known),
    }


def _rejected(framework: Framework, zone: str | None) -> list[pl.Expr]:
    step, length = pl.col("step"), pl.col("step_s")
    no_length = length.is_null() & (framework.name in TIMED)
    unplaced = pl.col("stamped") & pl.col("end_ts").is_null()
    reasons = {
        f"the number of the step is missing or out of range{framework.hint}": ~step.is_between(0, 1 << 40)
        .fill_null(value=False),
        "no length of the step: is the record cut?": no_length,
        "no field of the record is whole: is it cut?": pl.col("field_count") == 0,
        "the length of the step is not between 0 and a day": ~length.is_between(
            0, MAX_STEP_S, closed="right"
        ),
        "a local time without zone; --set tz=UTC or its own": unplaced & (zone is None),
        "a local time that does not exist, or exists twice": unplaced,
    }  # fmt: skip
    return [pl.when(fails).then(pl.lit(reason)) for reason, fails in reasons.items()]
