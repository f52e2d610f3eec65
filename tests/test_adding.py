"""Adding a source, a model, a detector is one file each: proved on a throw-away example."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from fleetmark.catalog import Catalog, catalog_of
from fleetmark.errors import ContractError, DefinitionError, SettingsError
from fleetmark.pipeline.build import build
from fleetmark.pipeline.detect import detect
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store
from fleetmark.testing import EPOCH

LINES = [f"2026-01-01T00:00:0{n} ann front\n" for n in range(4)] + [
    "2026-01-01T00:00:05 bob back\n"
]


def test_three_files_carry_a_line_to_a_finding(
    store: Store, example: Catalog, tmp_path: Path
) -> None:
    log = tmp_path / "gate.log"
    log.write_text("".join(LINES))
    (report,) = ingest(store, example, "auto", [log], {"cluster": "site"}, {}, EPOCH)
    assert (report.source, report.row_count, report.reject_count) == ("gate_log", 5, 0)
    build(store, example, {})
    detect(store, example, {}, EPOCH)
    rows = store.connection.execute("SELECT principal, evidence FROM lake.finding").fetchall()
    assert [(who, json.loads(evidence)) for who, evidence in rows] == [(["ann"], {"passages": 4})]


def test_a_parameter_is_a_setting(store: Store, example: Catalog, tmp_path: Path) -> None:
    log = tmp_path / "gate.log"
    log.write_text("".join(LINES))
    list(ingest(store, example, "gate_log", [log], {}, {}, EPOCH))
    build(store, example, {})
    for limit, expected in ((3, 1), (4, 0), (0, 2)):
        detect(store, example, {"restless": {"max_passages": limit}}, EPOCH)
        found = store.connection.execute("SELECT count(*) FROM lake.finding").fetchone()
        assert found == (expected,)
    with pytest.raises(SettingsError, match=r"no parameter max_passage;.*max_passages"):
        detect(store, example, {"restless": {"max_passage": 1}}, EPOCH)


def test_without_input_a_detector_is_not_evaluable(store: Store, example: Catalog) -> None:
    build(store, example, {})
    detect(store, example, {}, EPOCH)
    row = store.connection.execute("SELECT status, reason FROM lake.detector_status").fetchone()
    assert row == ("not_evaluable", "no rows in passage")


def test_without_the_values_it_needs_a_detector_is_not_evaluable(
    store: Store, example: Catalog, tmp_path: Path
) -> None:
    log = tmp_path / "gate.log"
    log.write_text("".join(LINES))
    list(ingest(store, example, "gate_log", [log], {}, {}, EPOCH))
    build(store, example, {})
    for least, expected in (
        (4, ("evaluated", None)),
        (5, ("not_evaluable", "no row of passage_day in which passage_count >= 5")),
    ):
        needs = {"passage_day": f"passage_count >= {least}"}
        needy = replace(example.detectors["restless"], needs=needs)
        detect(store, replace(example, detectors={"restless": needy}), {}, EPOCH)
        row = store.connection.execute("SELECT status, reason FROM lake.detector_status").fetchone()
        assert row == expected


Edit = Callable[[Path], object]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: shutil.copy(d / "ingest/gate_log.py", d / "ingest/again.py"), "defined twice"),
        (lambda d: shutil.copy(d / "models/passage_day.sql", d / "models/restless.sql"), "different names"),
        (lambda d: (d / "models/x.sql").write_text("SELECT 1"), r"x.sql: starts without a /\* TOML"),
        (lambda d: _replace(d / "models/passage_day.sql", "FROM passage", "FROM doors"), "no such"),
        (lambda d: _replace(d / "models/passage_day.sql", "grain =", "grian ="), "unknown header"),
        (lambda d: _replace(d / "detectors/restless.sql", "misses =", "mises ="), "lacks misses"),
        (lambda d: _replace(d / "detectors/restless.sql", "SELECT", "SELEC"), "syntax error"),
        (lambda d: _replace(d / "detectors/restless.sql", "severity =", 'needs = { door = "open" }\nseverity ='), "needs door, which it does not read"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_named(
    edit: Edit, message: str, tmp_path: Path, load_package: Callable[[Path, str], ModuleType]
) -> None:
    folder = tmp_path / "parts"
    shutil.copytree(Path(__file__).parent / "example", folder)
    edit(folder)
    with pytest.raises(DefinitionError, match=message):
        catalog_of(
            *(load_package(folder / n, f"broken_{n}") for n in ("ingest", "models", "detectors"))
        )


def test_a_model_that_breaks_its_contract_publishes_nothing(
    store: Store, tmp_path: Path, load_package: Callable[[Path, str], ModuleType]
) -> None:
    folder = tmp_path / "parts"
    shutil.copytree(Path(__file__).parent / "example", folder)
    _replace(folder / "models/passage_day.sql", "count(*) AS passage_count", "'x' AS passage_count")
    names = ("ingest", "models", "detectors")
    wrong = catalog_of(*(load_package(folder / n, f"contract_{n}") for n in names))
    log = tmp_path / "gate.log"
    log.write_text("".join(LINES))
    list(ingest(store, wrong, "gate_log", [log], {}, {}, EPOCH))
    with pytest.raises(ContractError, match="passage_count: VARCHAR instead of BIGINT"):
        build(store, wrong, {})
    assert store.connection.execute("SELECT count(*) FROM lake.passage_day").fetchone() == (0,)


def test_definitions_may_lie_in_a_folder_of_their_subject(
    example: Catalog, tmp_path: Path, load_package: Callable[[Path, str], ModuleType]
) -> None:
    folder = tmp_path / "parts"
    shutil.copytree(Path(__file__).parent / "example", folder)
    for kind, file in (("ingest", "gate_log.py"), ("models", "passage_day.sql")):
        subject = folder / kind / "doors"
        subject.mkdir()
        (subject / "__init__.py").touch()
        (folder / kind / file).rename(subject / file)
    names = ("ingest", "models", "detectors")
    sorted_by_subject = catalog_of(*(load_package(folder / n, f"subject_{n}") for n in names))
    assert sorted_by_subject.tables.keys() == example.tables.keys()


def _replace(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
