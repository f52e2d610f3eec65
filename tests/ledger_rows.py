"""Rows of a job's attempts, steps and events, and the ledger that the models make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from fleetmark.accuracy.frames import needed
from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute

CATALOG = load_catalog()
START = datetime(2026, 3, 1, 22)  # noqa: DTZ001 - UTC without zone; two hours before midnight
KEY = {"cluster": "c", "job_id": "7"}
Rows = Sequence[Mapping[str, Any]]
Spans = Sequence[tuple[float, float, str, int]]  # start, length in s; state; GPUs


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def frame(name: str, rows: Rows) -> pl.DataFrame:
    """Rows of a table, the rest of their columns NULL."""
    table = CATALOG.tables[name]
    schema = table.polars_schema()
    given = {c for row in rows for c in row}
    found = pl.DataFrame(
        list(rows), schema={c: schema[c] for c in schema if c in given}, orient="row"
    )
    return complete(table, found).unique(list(table.grain), keep="first", maintain_order=True)


def attempt(
    number: int, start_s: float, end_s: float, state: str = "COMPLETED", gpus: int = 8
) -> dict[str, Any]:
    return {**KEY, "attempt": number, "attempt_ts": at(start_s), "start_ts": at(start_s),
            "end_ts": at(end_s), "state": state, "alloc_gpus": gpus, "node_list": ["n1"]}  # fmt: skip


def step(number: int, start_s: float, step_s: float | None, attempt: int = 1) -> dict[str, Any]:
    return {**KEY, "attempt": attempt, "step": number, "ts": at(start_s), "step_s": step_s,
            "time_basis": "absolute"}  # fmt: skip


def event(name: str, at_s: float, **more: Any) -> dict[str, Any]:
    return {**KEY, "attempt": 1, "ts": at(at_s), "event": name, **more}


# Evidence beside steps and events: given as rows, or absent, rather than computed from what it rests on.
BESIDE = ("incident", "job_step_parts", "job_telemetry_5min")


def built(tables: Mapping[str, Rows], name: str = "goodput_segment") -> dict[str, pl.DataFrame]:
    """All tables that `name` rests on, and itself, of some rows of source tables and BESIDE."""
    done: dict[str, pl.DataFrame] = {}
    for table in needed(CATALOG, [name], dict.fromkeys(BESIDE)):
        if table in CATALOG.models and table not in BESIDE:
            model = CATALOG.models[table]
            done[table] = compute(CATALOG, model, {n: done[n] for n in model.inputs}, {})
        else:
            done[table] = frame(table, tables.get(table, []))
    return done


def seconds(segments: pl.DataFrame) -> dict[str, float]:
    """Seconds per class, of all GPUs alike."""
    lasted = (pl.col("end_ts") - pl.col("start_ts")).dt.total_microseconds() / 1e6
    return dict(segments.group_by("class").agg(lasted.sum()).iter_rows())


def library_s(segments: pl.DataFrame) -> float:
    return sum(seconds(segments.filter("in_step")).values())
