"""Training logs: what Megatron-LM and its forks print per iteration."""

from __future__ import annotations

import re
from zoneinfo import available_timezones

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from .tables.train_step import TRAIN_STEP

# A record starts here, wherever in the line: launchers put prefixes before it, other ranks write
# into the same file.
RECORD = r"iteration +\d+/ *\d+ *\|"
STAMP = r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d+)?\] *$"
MARK = "\x1e"
REAL = r"(-?[0-9.]+(?:[eE][-+]?\d+)?|-?inf|nan)"
# Fields by the names the versions gave them; never by position, which changed several times.
FIELDS = {
    "elapsed_ms": r"elapsed time per iteration \(ms\)",
    "elapsed_s": r"elapsed time per iteration \(s\)",
    "global_batch_size": "global batch size",
    "sample_count": "consumed samples",
    "loss": "lm loss",
    "grad_norm": "grad norm",
    "logged_tflops": r"(?:throughput per GPU \(TFLOP/s/GPU\)|TFLOPs)",
}
WHOLE = ("global_batch_size", "sample_count")
MAX_STEP_S = 86_400.0


def looks_like_megatron(head: bytes, file_name: str) -> bool:
    """An iteration record somewhere in the first 64 KiB."""
    del file_name
    return b"elapsed time per iteration (" in head


@source(
    outputs=(TRAIN_STEP,),
    options=(
        Option("job_id", "job of the log, if the file is not named slurm-JOB.out or JOB.log"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
        Option("time_zone", "zone of the times in the log, such as Europe/Paris", "UTC"),
    ),
    name_facts=r"^(?:slurm-)?(?P<job_id>\d+)\.(?:out|log|txt)(?:\.gz)?$",
    sniff=looks_like_megatron,
)
def train_log(lines: pl.DataFrame, context: Context) -> Parsed:
    """Iteration records of Megatron-LM, Megatron-DeepSpeed and the BigScience fork.

    Fields are found by name: elapsed time per iteration (ms or s), consumed samples, global batch
    size, lm loss, grad norm, TFLOP/s per GPU. Since 2024-03 a record has a stamp, local time
    without zone; ts is the stamp less one step. Without stamps the times are relative.
    Launchers' prefixes and colours, and text of other ranks on the same line, do not matter; a line
    may hold several records. Values that are nan or inf are NULL. Lines without a record are
    skipped. A record without its time is cut: a reject.
    """
    zone = context.options["time_zone"]
    problem = _problem(context)
    records = _records(lines)
    if problem:
        rejects = records.select("line_no", reason=pl.lit(problem), text="text")
        return Parsed({}, _once(rejects), lines.height - records["line_no"].n_unique())
    read = _fields(records, zone)
    bad = read.filter(pl.col("reason").is_not_null())
    rows = read.filter(pl.col("reason").is_null()).with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit(context.options["job_id"]).alias("job_id"),
        pl.lit(int(context.options["attempt"])).alias("attempt"),
    )
    return Parsed(
        {TRAIN_STEP.name: rows.select(*TRAIN_STEP.column_names, "line_no")},
        _once(bad.select("line_no", "reason", "text")),
        lines.height - records["line_no"].n_unique(),
    )


def _problem(context: Context) -> str | None:
    options = context.options
    if not options.get("job_id"):
        return f"the name {context.file_name!r} does not state the job; --set job_id=JOB"
    if not re.fullmatch(r"[0-9]{1,18}", options["attempt"]):
        return f"attempt {options['attempt']!r} is not a number; --set attempt=N"
    if options["time_zone"] not in available_timezones():
        return f"time_zone {options['time_zone']!r} is no zone; --set time_zone=Europe/Paris"
    return None


def _once(rejects: pl.DataFrame) -> pl.DataFrame:
    return rejects.unique(["line_no", "reason"], keep="first", maintain_order=True).select(
        *REJECTS_SCHEMA
    )


def _records(lines: pl.DataFrame) -> pl.DataFrame:
    """One row per record, with what stands before it up to the record before."""
    text = pl.col("text")
    held = lines.filter(text.str.contains(RECORD))
    marked = held.select(
        "line_no",
        pl.col("text").str.replace_all(f"({RECORD})", f"{MARK}$1").str.split(MARK).alias("parts"),
    )
    return (
        marked.with_columns(
            before=pl.col("parts").list.head(pl.col("parts").list.len() - 1),
            text=pl.col("parts").list.slice(1),
        )
        .explode("before", "text")
        .select("line_no", "before", "text")
    )


def _fields(records: pl.DataFrame, zone: str) -> pl.DataFrame:
    text = pl.col("text")
    found = {
        name: text.str.extract(rf"\| *{label} *: *{REAL}", 1).cast(pl.Float64, strict=False)
        for name, label in FIELDS.items()
    }
    stamp = (
        pl.col("before")
        .str.extract(STAMP, 1)
        .str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)
    )
    local = stamp.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
    utc = local.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    read = records.with_columns(
        pl.when(value.is_finite()).then(value).alias(name) for name, value in found.items()
    ).with_columns(
        text.str.extract(r"^iteration +(\d+)/", 1).cast(pl.Int64, strict=False).alias("step"),
        pl.coalesce(pl.col("elapsed_ms") / 1e3, "elapsed_s").alias("step_s"),
        stamp.alias("stamp"),
        utc.alias("end_ts"),
        *(pl.col(name).cast(pl.Int64, strict=False) for name in WHOLE),
    )
    step_us = (pl.col("step_s") * 1e6).round().cast(pl.Int64)
    epoch_s = pl.from_epoch("step", time_unit="s").cast(pl.Datetime("us"))
    return read.with_columns(
        pl.coalesce(_rejected()).alias("reason"),
        pl.when(pl.col("stamp").is_null())
        .then(epoch_s)
        .otherwise(pl.col("end_ts") - pl.duration(microseconds=step_us))
        .alias("ts"),
        pl.when(pl.col("stamp").is_null())
        .then(pl.lit("relative"))
        .otherwise(pl.lit("absolute"))
        .alias("time_basis"),
    )


def _rejected() -> list[pl.Expr]:
    step, length = pl.col("step"), pl.col("step_s")
    reasons = {
        "the iteration's number is out of range": ~step.is_between(0, 1 << 40).fill_null(
            value=False
        ),
        "no elapsed time per iteration: is the record cut?": length.is_null(),
        "the elapsed time is not between 0 and a day": ~length.is_between(
            0, MAX_STEP_S, closed="right"
        ),
        "a local time that does not exist, or exists twice": pl.col("stamp").is_not_null()
        & pl.col("end_ts").is_null(),
    }
    return [pl.when(fails).then(pl.lit(reason)) for reason, fails in reasons.items()]
