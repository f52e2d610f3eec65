"""Golden values of Megatron-LM's functional tests."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.train_step import TRAIN_STEP

SERIES = {"iteration-time": "step_s", "lm loss": "loss"}
MAX_STEP_S = 86_400.0


def looks_golden(head: bytes, file_name: str) -> bool:
    """The name that Megatron-LM gives them."""
    return "golden_values" in file_name and head[:1] == b"{"


@source(
    outputs=(TRAIN_STEP,),
    reads="document",
    options=(
        Option("job_id", "job of the values, if the file is not named RUN.golden_values_….json"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
    ),
    name_facts=r"^(?P<job_id>.+?)\.?golden_values.*\.json$",
    sniff=looks_golden,
)
def megatron_golden(content: bytes, context: Context) -> Parsed:
    """JSON of Megatron-LM's golden values: per metric start_step, step_interval and values.

    Read are iteration-time (s) and lm loss, values keyed by step (since 2025) or as a list from
    start_step on. What was not sampled stands as "nan" and is skipped, one row per step that has a
    time. The file holds no clock: times are relative. `line_no` is the place of the value.
    """
    try:
        document = json.loads(content)
        times, losses = (_series(document, name) for name in SERIES)
        attempt = int(f"{context.options['attempt']:.18}")
    except (ValueError, RecursionError, TypeError, KeyError, OverflowError) as error:
        return _whole(f"no golden values of Megatron-LM: {error}"[:300])
    if not context.options.get("job_id"):
        return _whole(f"the name {context.file_name!r} does not state the job; --set job_id=JOB")
    found = [
        (place, step, seconds, losses.get(step, (0, None))[1])
        for step, (place, seconds) in times.items()
        if seconds is not None and 0 < seconds <= MAX_STEP_S and 0 <= step < 1 << 40
    ]
    rows = pl.DataFrame(
        found,
        schema={
            "line_no": pl.Int64(),
            "step": pl.Int64(),
            "step_s": pl.Float64(),
            "loss": pl.Float64(),
        },
        orient="row",
    ).with_columns(
        pl.from_epoch("step", time_unit="s").cast(pl.Datetime("us")).alias("ts"),
        pl.lit("relative").alias("time_basis"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit(context.options["job_id"]).alias("job_id"),
        pl.lit(attempt).cast(pl.Int64).alias("attempt"),
    )
    return Parsed({TRAIN_STEP.name: rows}, skipped=len(times) - len(found))


def _whole(reason: str) -> Parsed:
    return Parsed({}, pl.DataFrame({"line_no": 0, "reason": reason, "text": ""}, REJECTS_SCHEMA))


def _series(document: Any, name: str) -> dict[int, tuple[int, float | None]]:  # noqa: ANN401 - any JSON
    """By step: the value's place in the list, from 1, and the value; None where it is no number."""
    if not isinstance(document, dict) or "iteration-time" not in document:
        raise ValueError("no object with iteration-time")
    metric = document.get(name, {"values": {}})
    values = metric["values"]
    if not isinstance(values, Mapping):
        start, interval = int(metric["start_step"]), int(metric["step_interval"])
        values = {start + n * interval: value for n, value in enumerate(values)}
    return {int(s): (n, _number(value)) for n, (s, value) in enumerate(values.items(), 1)}


def _number(value: object) -> float | None:
    try:
        number = float(value)  # type: ignore[arg-type]  # whatever the JSON holds
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
