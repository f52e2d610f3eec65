"""Entries that Google's ML goodput library and Orbax write."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from .._entries import is_utf8
from ..tables.train_event import TRAIN_EVENT
from ..tables.train_step import TRAIN_STEP

# Keys of ml_goodput_measurement/src/goodput.py, each with _start_time and _end_time behind it. Keys
# not named here (elastic_wait and what later releases add) become custom events of that name.
SPANS = {"tpu_init": "init", "training_prep": "prep", "data_loading": "data"}
CUSTOM = "custom_badput_event"
# Orbax' step statistics: what the training loop waited for, and how long.
SAVED = ("checkpoint_manager_blocking", "checkpointer_blocking")
RESTORED = ("checkpoint_manager", "checkpointer", "checkpoint")
ORBAX = {
    "save": ("checkpoint_save", SAVED),
    "restore": ("checkpoint_load", RESTORED),
    "emergency_restore": ("checkpoint_load", RESTORED),
}
# 2000 to 2100: other numbers are another unit, or no time.
EARLIEST_S, LATEST_S = 946_684_800.0, 4_102_444_800.0
MAX_STEP_S = 86_400.0
Row = dict[str, Any]


class EntryError(ValueError):
    """The entry is none of the library's; the message says why."""


@source(
    outputs=(TRAIN_STEP, TRAIN_EVENT),
    reads="document",
    options=(
        Option("job_id", "job of all entries, where job_name is not the scheduler's id"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
    ),
    sniff=lambda head, _name: (
        b'"job_name"' in head
        and any(key in head for key in (b"step_start_time", b"job_start_time", b"tpu_init_"))
    ),
)
def google_goodput(content: bytes, context: Context) -> Parsed:
    """Log of AI-Hypercomputer's ml-goodput-measurement (2024 to 2026) and of Orbax beside it.

    Payloads as JSON lines or one JSON array, bare or as jsonPayload of Cloud Logging's entries (as
    `gcloud logging read --format=json` and the exports to storage write them). A step's start is a row
    of train_step; its length goes to the start of the step recorded next, or to the job's end, and holds
    whatever lay between: the library takes it so. The last step before a restart has none. Starts and
    ends of TPU initialisation (init), training preparation (prep), data loading and custom events, of a
    job and of Orbax' saves and restores are events; Orbax tells how long training waited, and a save is
    `checkpoint_saved` then if it was synchronous. Slice counts of elastic jobs are `resize`.

    Restarts of a job are one attempt here, with a job_start each: the log does not name the
    scheduler's. Times are seconds since 1970; releases before 2025 wrote naive local time as if it
    were UTC, which only a host in UTC makes right. `line_no` is the entry's place. Decoded entry by
    entry, 170,000 a second of CPU: a step writes two to four.
    """
    attempt = context.options["attempt"]
    if not attempt.isdigit() or len(attempt) > 18:
        return _whole("attempt is not a number; --set attempt=N")
    rows: list[Row] = []
    bad: list[tuple[int, str, str]] = []
    place, skipped = 0, 0
    for place, entry in enumerate(_entries(content), 1):
        try:
            found = _read(entry)
        except EntryError as error:
            bad.append((place, str(error), json.dumps(entry, default=str)[:200]))
            continue
        skipped += not found
        rows += [row | {"line_no": place} for row in found]
    if not place:
        return _whole("no JSON entry")
    stated = context.options.get("job_id")
    typed = pl.DataFrame(rows, schema=_SCHEMA, orient="row").with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        (pl.lit(stated) if stated else pl.col("job_id")).alias("job_id"),
        pl.lit(int(attempt)).alias("attempt"),
        pl.from_epoch((pl.col("at_s") * 1e6).round().cast(pl.Int64), time_unit="us").alias("ts"),
    )
    refused = pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row")
    return Parsed(_tables(typed), refused, skipped)


_SCHEMA = {
    "line_no": pl.Int64(), "job_id": pl.String(), "event": pl.String(), "at_s": pl.Float64(),
    "step": pl.Int64(), "status": pl.String(),
}  # fmt: skip


def _entries(content: bytes) -> Iterator[object]:
    """Entries of an array, or of lines; a line that is no JSON stands for itself as text."""
    text = content.decode("utf-8", "replace")
    if text.lstrip("\ufeff \t\r\n")[:1] == "[":
        try:
            document = json.loads(text.lstrip("\ufeff"))
        except (ValueError, RecursionError) as error:
            yield f"an array that is cut or damaged: {error}"
        else:
            yield from document
        return
    for line in filter(str.strip, text.splitlines()):
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            yield line


def _read(entry: object) -> list[Row]:
    """Rows of an entry; none for what is not about training. Raises EntryError."""
    if isinstance(entry, dict) and isinstance(entry.get("jsonPayload"), dict):
        entry = entry["jsonPayload"]
    if not isinstance(entry, dict):
        raise EntryError("no JSON object: is it cut?")
    if entry.get("event_type") in ORBAX:
        return _orbax(entry)
    if "elastic_slice_counts_timestamp" in entry:
        counts = [
            f"{entry[k]} {k.partition('_')[0]}" for k in sorted(entry) if k.endswith("_slices")
        ]
        return [_row(entry, "resize", "elastic_slice_counts_timestamp", ", ".join(counts)[:200])]
    times = [key for key in entry if key.endswith(("_start_time", "_end_time"))]
    return [_timed(entry, times[0])] if len(times) == 1 else []


def _timed(entry: Mapping[str, Any], key: str) -> Row:
    """The row of an entry with one time, by the name of its key. Raises EntryError."""
    if key == "step_start_time":
        step = entry.get("step_count")
        if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 1 << 40:
            raise EntryError("a step without its number")
        return _row(entry, "step", key) | {"step": step}
    name, _, edge = key.removesuffix("_time").rpartition("_")
    edge = "start" if edge == "start" else "stop"
    if name == "job" or name in SPANS:
        return _row(entry, f"{SPANS.get(name, name)}_{edge}", key)
    kind = str(entry.get("custom_badput_event_type", "unknown")) if name == CUSTOM else name
    span = "eval" if kind.lower().startswith("eval") else "custom"
    return _row(entry, f"{span}_{edge}", key, kind[:200])


def _orbax(entry: Mapping[str, Any]) -> list[Row]:
    """Start and stop of what training waited for; none from processes that did not time it."""
    name, stages = ORBAX[entry["event_type"]]
    stage = next((s for s in stages if entry.get(f"{s}_start_time") is not None), None)
    if stage is None:
        return []
    length = entry.get(f"{stage}_duration_secs")
    step = entry.get("step")
    known = {"step": step if isinstance(step, int) and 0 <= step < 1 << 40 else None}
    status = str(entry.get("directory") or "")[:200] or None
    start = _row(entry, f"{name}_start", f"{stage}_start_time", status) | known
    if isinstance(length, bool) or not isinstance(length, int | float) or not 0 <= length < 1e7:
        return [start]
    end = start | {"event": f"{name}_stop", "at_s": start["at_s"] + length}
    is_whole = name == "checkpoint_save" and entry.get("synchronous") is True
    return [start, end, *([end | {"event": "checkpoint_saved"}] if is_whole else [])]


def _row(entry: Mapping[str, Any], event: str, key: str, status: str | None = None) -> Row:
    job, at = entry.get("job_name") or entry.get("checkpoint_job"), entry[key]
    if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        raise EntryError(f"{key} is no number")
    if not EARLIEST_S <= at < LATEST_S:
        raise EntryError(f"{key} is not between 2000 and 2100")
    if not isinstance(job, str) or not job:
        raise EntryError("no job_name")
    if not is_utf8(job + (status or "")):
        raise EntryError("job_name or kind is not valid text")
    return {"job_id": job, "event": event, "at_s": float(at), "step": None, "status": status}


def _tables(rows: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Steps with the time to what ended them; all else as events."""
    ends = rows.filter(pl.col("event").is_in(["step", "job_start", "job_stop"])).sort(
        "job_id", "at_s", "line_no"
    )
    after = pl.col("at_s").shift(-1).over("job_id") - pl.col("at_s")
    next_event = pl.col("event").shift(-1).over("job_id")
    # Not every step need be recorded: the gap is then several steps long.
    count = (
        pl.when(next_event == "step")
        .then(pl.col("step").shift(-1).over("job_id") - pl.col("step"))
        .when(next_event == "job_stop")
        .then(1)
    )
    length = (after / count).round(9)
    steps = ends.with_columns(
        pl.when((count > 0) & length.is_between(0, MAX_STEP_S, closed="right"))
        .then(length)
        .alias("step_s"),
        pl.lit("absolute").alias("time_basis"),
        pl.lit("google_goodput").alias("framework"),
    ).filter(pl.col("event") == "step")
    steps = steps.with_columns(pl.col("step_s").is_not_null().cast(pl.Int32).alias("field_count"))
    events = rows.filter(pl.col("event") != "step")
    return {
        table.name: frame.select("line_no", *(c for c in table.column_names if c in frame.columns))
        for table, frame in ((TRAIN_STEP, steps), (TRAIN_EVENT, events))
    }


def _whole(reason: str) -> Parsed:
    return Parsed({}, pl.DataFrame({"line_no": 0, "reason": reason, "text": ""}, REJECTS_SCHEMA))
