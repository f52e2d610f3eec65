"""Every model and detector: contract, golden cases, and what must hold for any of them."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.detector import Detector
from fleetmark.model import Model
from fleetmark.pipeline.ranges import Range, cut_of
from fleetmark.table import quote
from fleetmark.testing import (
    Case,
    cases_of,
    complete,
    compute,
    compute_case,
    differences,
    read_rows,
)

CASES = Path(__file__).parent / "cases"
CATALOG = load_catalog()
MODELS = list(CATALOG.models.values())
DETECTORS = list(CATALOG.detectors.values())
MODEL_CASES = [(m, c) for m in MODELS for c in cases_of(CASES, "models", m.name)]
DETECTOR_CASES = [(d, c) for d in DETECTORS for c in cases_of(CASES, "detectors", d.name)]
ALL = [*MODELS, *(d.model for d in DETECTORS)]
ALL_CASES = [*MODEL_CASES, *((d.model, c) for d, c in DETECTOR_CASES)]


def ids(value: object) -> str:
    return getattr(value, "name", str(value))


def inputs_of(model: Model, case: Case) -> dict[str, pl.DataFrame]:
    found = {}
    for name in model.inputs:
        table, path = CATALOG.tables[name], case.folder / f"{name}.csv"
        found[name] = complete(table, read_rows(path, table) if path.exists() else table.empty())
    return found


@pytest.mark.parametrize("model", ALL, ids=ids)
def test_empty_in_empty_out_and_schema(model: Model) -> None:
    empty = {name: CATALOG.tables[name].empty() for name in model.inputs}
    assert compute(CATALOG, model, empty, {}).is_empty()


@pytest.mark.parametrize("model", MODELS, ids=ids)
def test_has_cases(model: Model) -> None:
    assert cases_of(CASES, "models", model.name), f"no case in tests/cases/models/{model.name}"


@pytest.mark.parametrize(("model", "case"), MODEL_CASES, ids=ids)
def test_golden(model: Model, case: Case) -> None:
    want = read_rows(case.folder / "expected.csv", model.output)
    assert differences(compute_case(CATALOG, model, case), want, case.tolerance) == []


@pytest.mark.parametrize("detector", DETECTORS, ids=ids)
def test_detector_has_cases_for_both(detector: Detector) -> None:
    names = [c.name for c in cases_of(CASES, "detectors", detector.name)]
    assert any(n.startswith("fires_") for n in names)
    assert any(n.startswith("quiet_") for n in names)
    assert all(n.startswith(("fires_", "quiet_")) for n in names)


@pytest.mark.parametrize(("detector", "case"), DETECTOR_CASES, ids=ids)
def test_detector_case(detector: Detector, case: Case) -> None:
    got = compute_case(CATALOG, detector.model, case)
    if case.name.startswith("quiet_"):
        assert got.is_empty()
        return
    assert not got.is_empty()
    assert got["score"].is_between(0, 1).all()
    assert (got["start_ts"] <= got["end_ts"]).all()
    assert got["finding_id"].is_unique().all()
    path = case.folder / "expected.csv"
    if path.exists():
        want = read_rows(path, detector.model.output)
        assert differences(got, want, case.tolerance) == []


@pytest.mark.parametrize("detector", [d for d in DETECTORS if d.needs], ids=ids)
def test_what_a_detector_needs_can_be_asked(detector: Detector) -> None:
    for name, condition in detector.needs.items():
        with duckdb.connect() as connection:
            connection.register(name, CATALOG.tables[name].empty().to_arrow())
            rows = connection.execute(f"FROM {quote(name)} WHERE {condition}").fetchall()
        assert rows == []


@pytest.mark.parametrize(("model", "case"), ALL_CASES, ids=ids)
def test_row_order_is_irrelevant(model: Model, case: Case) -> None:
    inputs = inputs_of(model, case)
    first = compute(CATALOG, model, inputs, case.params)
    shuffled = {n: f.sample(fraction=1, shuffle=True, seed=7) for n, f in inputs.items()}
    assert differences(compute(CATALOG, model, shuffled, case.params), first, 1e-12) == []


@pytest.mark.parametrize(("model", "case"), ALL_CASES, ids=ids)
def test_days_apart_equal_all_at_once(model: Model, case: Case) -> None:
    """The runner may cut anywhere between days: the parts must add up to the whole."""
    time = model.output.time
    if time is None or model.window != "day":
        return
    inputs = inputs_of(model, case)
    whole = compute(CATALOG, model, inputs, case.params)
    days = sorted({t.date() for t in whole[time]})
    parts = [whole.clear()]
    for day in days:
        cut = {n: cut_to(n, f, model, day) for n, f in inputs.items()}
        part = compute(CATALOG, model, cut, case.params)
        start = datetime(day.year, day.month, day.day)  # noqa: DTZ001 - UTC without zone
        parts.append(
            part.filter(pl.col(time).is_between(start, start + timedelta(1), closed="left"))
        )
    assert differences(pl.concat(parts), whole, 1e-9) == []


def cut_to(name: str, frame: pl.DataFrame, model: Model, day: date) -> pl.DataFrame:
    where = cut_of(CATALOG.tables[name], Range(day, day + timedelta(1)), model.lookback)
    with duckdb.connect() as connection:
        connection.register("f", frame.to_arrow())
        columns = ", ".join(map(quote, frame.columns))
        return connection.sql(f"SELECT {columns} FROM f WHERE {where}").pl()
