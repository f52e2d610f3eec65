"""Runs of an MLflow tracking server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from .._entries import is_utf8
from .._json_values import finite
from ..tables.model_shape import MODEL_SHAPE
from ..tables.train_event import TRAIN_EVENT
from ..tables.train_step import TRAIN_STEP
from ._mlflow_names import JOB, METRICS, metric
from ._mlflow_shape import TELLING, by_name, shape

WHOLE = ("token_count", "sample_count", "step_token_count")
MAX_STEP_S = 86_400.0
MAX_MS = 4_102_444_800_000
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - all times are UTC without zone
Run = dict[str, Any]


class RunError(ValueError):
    """The run cannot be read; the message says why."""


@source(
    outputs=(TRAIN_STEP, TRAIN_EVENT, MODEL_SHAPE),
    reads="document",
    options=(
        Option("job_tag", "tag or parameter that holds the scheduler's job; else SLURM_JOB_ID or "
               "job_id, else the run's id", ""),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
    ),
    sniff=lambda head, _name: (b'"runs"' in head[:64] and b'"run_id"' in head) or b'"run_uuid"' in head[:4096],
)  # fmt: skip
def mlflow(content: bytes, context: Context) -> Parsed:
    """Runs of MLflow (1.x to 3.x): the answer of its REST API's runs/search, as JSON.

    Parameters give the model's shape (`_mlflow_names.py` lists the spellings), a run's start and end
    are job_start and job_stop. Metrics give steps. runs/search holds the last value of each metric;
    `fleetmark pull mlflow` adds to each run what metrics/get-history says, as a list `history` of key,
    value, timestamp and step. A metric is logged at the end of its step. What the tokens per second
    of all GPUs mean per GPU needs the number of GPUs, or the length of the step. An MFU above 2 is
    taken for percent. Metrics of evaluation are not read; NaN is NULL.

    A run whose metrics all stand on step 0 does not number its steps: a reject. Runs that train no
    model and log no step are skipped. `line_no` is the run's place. The file store (mlruns/) is not
    read: serve it with `mlflow server`. Decoded value by value, 70,000 a second of CPU.
    """
    attempt = context.options["attempt"]
    if not attempt.isdigit() or len(attempt) > 18:
        return _whole("attempt is not a number; --set attempt=N")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        return _whole(f"not JSON: {error}"[:300])
    runs = document.get("runs") if isinstance(document, dict) else None
    if not isinstance(runs, list):
        return _whole("no list runs: is it an answer of runs/search?")
    found: dict[str, list[Run]] = {name: [] for name in _SCHEMAS}
    bad: list[tuple[int, str, str]] = []
    skipped = 0
    for place, run in enumerate(runs, 1):
        try:
            rows = _rows(run, context.options["job_tag"])
        except RunError as error:
            bad.append((place, str(error), json.dumps(run, default=str)[:200]))
            continue
        skipped += not rows
        for table, row in rows:
            found[table].append(row | {"line_no": place})
    cluster = pl.lit(context.options["cluster"]).alias("cluster")
    number = pl.lit(int(attempt)).alias("attempt")
    tables = {
        name: pl.DataFrame(found[name], schema=schema, orient="row").with_columns(
            cluster, *([] if name == MODEL_SHAPE.name else [number])
        )
        for name, schema in _SCHEMAS.items()
    }
    return Parsed(tables, pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row"), skipped)


_SCHEMAS = {
    table.name: {
        "line_no": pl.Int64(),
        **{n: t for n, t in table.polars_schema().items() if n not in ("cluster", "attempt")},
    }
    for table in (TRAIN_STEP, TRAIN_EVENT, MODEL_SHAPE)
}


def _rows(run: object, job_tag: str) -> list[tuple[str, Run]]:
    """Rows of a run with the table each belongs to. Raises RunError."""
    if not isinstance(run, dict) or not isinstance(run.get("info"), dict):
        raise RunError("a run without info")
    info: Run = run["info"]
    data: Run = run["data"] if isinstance(run.get("data"), dict) else {}
    run_id = info.get("run_id") or info.get("run_uuid")
    if not isinstance(run_id, str) or not run_id:
        raise RunError("a run without run_id")
    params = by_name(_pairs(data.get("params")))
    known = {**by_name(_pairs(data.get("tags"))), **params}
    names = (job_tag.lower().replace("-", "_"),) if job_tag else JOB
    job_id = next((known[n] for n in names if known.get(n)), run_id)
    told = shape(params)
    steps = _steps(run, told)
    started, ended = _ms(info.get("start_time")), _ms(info.get("end_time"))
    rows: list[tuple[str, Run]] = [(TRAIN_STEP.name, row) for row in steps]
    if any(told[name] for name in TELLING):
        columns = {k: v for k, v in told.items() if k in _SCHEMAS[MODEL_SHAPE.name]}
        rows.append((MODEL_SHAPE.name, columns | {"recorded_ts": _time(started)}))
    if rows:
        status = str(info.get("status") or "")[:40] or None
        edges = (("job_start", started, None), ("job_stop", ended, status))
        rows += [
            (TRAIN_EVENT.name, {"event": event, "ts": _time(at), "status": said})
            for event, at, said in edges
            if at is not None
        ]
    named = [(table, row | {"job_id": job_id}) for table, row in rows]
    if not all(is_utf8(v) for _, row in named for v in row.values() if isinstance(v, str)):
        raise RunError("a parameter or tag is not valid text")
    return named


def _pairs(entries: object) -> Iterator[tuple[str, str]]:
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            yield entry["key"], str(entry.get("value") or "")


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric: the column it fills, how good its name is for that, and when."""

    key: str
    column: str
    rank: int
    value: float | None
    at: int
    step: int


def _points(run: Mapping[str, Any]) -> list[Point]:
    """The metrics of training in the order they were logged."""
    history, data = run.get("history"), run.get("data")
    last = data.get("metrics") if isinstance(data, dict) else None
    entries = history if isinstance(history, list) else last
    points = []
    for entry in entries if isinstance(entries, list) else []:
        named = metric(str(entry.get("key"))) if isinstance(entry, dict) else None
        if named is None:
            continue
        at, step = _ms(entry.get("timestamp")), _whole_number(entry.get("step"))
        if at is None or step is None:
            continue
        column, rank, factor = named
        value = finite(entry.get("value"))
        if value is not None:
            value = value * factor if factor > 0 else 1 / value if value > 0 else None
        points.append(Point(entry["key"], column, rank, value, at, step))
    return sorted(points, key=lambda point: point.at)


def _steps(run: Mapping[str, Any], told: Mapping[str, object]) -> list[Run]:
    """One row per step and run of it. Raises RunError."""
    groups: dict[tuple[int, int], dict[str, Point]] = {}
    ends: dict[tuple[int, int], int] = {}
    seen: dict[tuple[str, int], list[int]] = {}
    for point in _points(run):
        logged = seen.setdefault((point.key, point.step), [])
        if point.at not in logged[-1:]:
            logged.append(point.at)
        # The second time that a metric is logged on a step is the step's second run.
        where = (point.step, len(logged))
        ends[where] = max(point.at, ends.get(where, 0))
        best = groups.setdefault(where, {}).get(point.column)
        if point.value is not None and (best is None or point.rank < best.rank):
            groups[where][point.column] = point
    if len(groups) > 1 and {step for step, _ in groups} == {0}:
        raise RunError("its metrics carry no step: log them with step=N")
    rows = (_step(where[0], ends[where], found, told) for where, found in sorted(groups.items()))
    return [row for row in rows if row]


def _step(step: int, at: int, found: Mapping[str, Point], told: Mapping[str, object]) -> Run | None:
    """A row of train_step; None if no column of it is known."""
    row: Run = {name: found[name].value if name in found else None for name in METRICS}
    row = {name: v if v is None else round(v, 9) for name, v in row.items()}
    if not any(v is not None for v in row.values()):
        return None
    length = row["step_s"]
    if length is not None and not 0 < length <= MAX_STEP_S:
        length = row["step_s"] = None
    for name in WHOLE:
        row[name] = int(row[name]) if row[name] is not None and 0 <= row[name] < 1 << 62 else None
    if (row["logged_mfu_ratio"] or 0) > 2:
        row["logged_mfu_ratio"] /= 100
    rate, gpus = row.pop("tokens_per_s"), told["gpu_count"]
    if rate is not None and isinstance(gpus, int):
        row["tokens_per_gpu_s"] = row["tokens_per_gpu_s"] or rate / gpus
    elif rate is not None and length is not None and rate * length < 1 << 62:
        row["step_token_count"] = row["step_token_count"] or round(rate * length)
    count = sum(v is not None for v in row.values())
    return row | {
        "step": step,
        "ts": _time(at - round((length or 0) * 1000)),
        "time_basis": "absolute",
        "framework": "mlflow",
        "global_batch_size": told["global_batch_size"],
        "seq_len": told["seq_len"],
        "field_count": count,
    }


def _whole_number(value: object) -> int | None:
    """int64 comes as a number or, by protobuf's JSON mapping, as text."""
    number = finite(value)
    return int(number) if number is not None and 0 <= number < 1 << 53 and number % 1 == 0 else None


def _ms(value: object) -> int | None:
    number = _whole_number(value)
    return number if number is not None and 946_684_800_000 <= number < MAX_MS else None


def _time(at: int | None) -> datetime | None:
    return None if at is None else EPOCH + timedelta(milliseconds=at)


def _whole(reason: str) -> Parsed:
    return Parsed({}, pl.DataFrame({"line_no": 0, "reason": reason, "text": ""}, REJECTS_SCHEMA))
