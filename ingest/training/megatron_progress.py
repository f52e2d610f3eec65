"""Megatron-LM's progress.txt."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from ..scheduler._slurm_time import is_zone
from ..tables.train_event import TRAIN_EVENT

LINE = r"^\s*(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\tJob ID: *([^\t]{0,100})\t# GPUs: *(\d{1,9})\t(.*)$"
# Text after the four fixed fields, by what it begins with.
EVENTS = {
    "Starting job": "job_start",
    "Saved checkpoint": "checkpoint_saved",
    "Saving async checkpoint": "checkpoint_save_start",
}
NUMBERS = {
    "step": r"\bIteration: *(\d{1,12})\b",
    "logged_tflops": r"\bJob throughput: *([0-9.]+(?:[eE][-+]?\d+)?) TFLOP/s/GPU",
    "flop_count": r"\bFloating-point operations: *([0-9.]+(?:[eE][-+]?\d+)?)(?:\t|$)",
    "token_billions": r"\bTokens \(in billions\): *([0-9.]+(?:[eE][-+]?\d+)?)(?:\t|$)",
}


@source(
    outputs=(TRAIN_EVENT,),
    options=(
        Option("tz", "zone of the machine's clock, as an IANA name: the file states none"),
        Option("job_id", "job, where the file names none (runs outside Slurm)"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
    ),
    sniff=lambda head, _name: b"\tJob ID: " in head and b"\t# GPUs: " in head,
)
def megatron_progress(lines: pl.DataFrame, context: Context) -> Parsed:
    """progress.txt of Megatron-LM (`--log-progress`, since 2024-01): starts and checkpoints.

    One file holds all jobs of a run, tab-separated: local time, job, GPUs, and what happened: a job's
    start, a checkpoint saved (step, TFLOP/s per GPU since the start, FLOP and tokens so far), or a
    text of the user's own, which becomes other_note. The cumulative throughput is not kept: its clock
    starts later than the job. Blank lines are skipped; a cut line is a reject.
    """
    written = lines.filter(pl.col("text").str.strip_chars() != "")
    blank = lines.height - written.height
    zone, attempt = context.options.get("tz"), context.options["attempt"]
    if not re.fullmatch(r"[0-9]{1,18}", attempt):
        return Parsed({}, rejects(written, f"attempt={attempt} is no number"), blank)
    if zone is None or not is_zone(zone):
        reason = "the file states no zone: --set tz=UTC, or that of the machine's clock"
        return Parsed({}, rejects(written, reason), blank)
    read = _read(written, zone, context.options.get("job_id") or None).with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit(int(attempt)).alias("attempt"),
    )
    bad = read.filter(pl.col("reason").is_not_null())
    rows = read.filter(pl.col("reason").is_null())
    kept = ["line_no", *(c for c in TRAIN_EVENT.column_names if c in rows.columns)]
    return Parsed({TRAIN_EVENT.name: rows.select(kept)}, rejects(bad, pl.col("reason")), blank)


def _read(lines: pl.DataFrame, zone: str, job_id: str | None) -> pl.DataFrame:
    groups = pl.col("text").str.extract_groups(LINE)
    told = groups.struct.field("4").str.strip_chars()
    local = groups.struct.field("1").str.to_datetime(
        "%Y-%m-%d %H:%M:%S", time_unit="us", strict=False
    )
    aware = local.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
    named = groups.struct.field("2").str.strip_chars()
    event = pl.coalesce(
        *(pl.when(told.str.starts_with(text)).then(pl.lit(name)) for text, name in EVENTS.items()),
        pl.when(told != "").then(pl.lit("other_note")),
    )
    read = lines.with_columns(
        aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None).alias("ts"),
        pl.when(named != "").then(named).otherwise(pl.lit(job_id)).alias("job_id"),
        groups.struct.field("3").cast(pl.Int64, strict=False).alias("gpu_count"),
        event.alias("event"),
        *(
            told.str.extract(p, 1).cast(pl.Float64, strict=False).alias(n)
            for n, p in NUMBERS.items()
        ),
    )
    is_save = pl.col("event").is_in(["checkpoint_saved", "checkpoint_save_start"])
    reasons = {
        "not time, job, GPUs and text with tabs between: is the line cut?": local.is_null()
        | pl.col("event").is_null(),
        "a local time that does not exist, or exists twice": pl.col("ts").is_null(),
        "the line names no job; --set job_id=JOB": pl.col("job_id").is_null(),
        "a checkpoint without its iteration: is the line cut?": is_save & pl.col("step").is_null(),
    }
    return read.with_columns(
        pl.coalesce(pl.when(fails).then(pl.lit(why)) for why, fails in reasons.items()).alias(
            "reason"
        ),
        pl.col("step").cast(pl.Int64),
        (pl.col("token_billions") * 1e9).round().cast(pl.Int64, strict=False).alias("token_count"),
        pl.when(pl.col("event") == "other_note").then(told.str.head(200)).alias("status"),
    )
