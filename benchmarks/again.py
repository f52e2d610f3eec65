"""Inputs that the lake holds already: what it costs to find that out, beside reading them the first time."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store

from .logs.access_lines import write_lines
from .workload import Goal, Workload, cpu_share

FILES, LINES = 24, 1_000_000
NOW = datetime(2026, 1, 1)  # noqa: DTZ001 - times are UTC without zone
Given = tuple[Store, Catalog, Path]


def prepare(folder: Path, scale: float) -> Path:
    """A million access lines at scale 1, in a file an hour."""
    target = folder / "hours"
    target.mkdir(exist_ok=True)
    whole = write_lines(folder / "whole.log", max(FILES, round(LINES * scale)))
    lines = whole.read_text(encoding="utf-8").splitlines(keepends=True)
    each = -(-len(lines) // FILES)
    for hour in range(FILES):
        part = "".join(lines[hour * each : (hour + 1) * each])
        (target / f"{hour:02}.log").write_text(part, encoding="utf-8")
    return target


def load(folder: Path) -> Given:
    """A new store and the definitions."""
    root = folder.with_name("hours-lake")
    shutil.rmtree(root, ignore_errors=True)
    store, catalog = Store(root), load_catalog()
    store.ensure(catalog.tables.values())
    return store, catalog, folder


def first(given: Given) -> int:
    """Read the files: lines. Raises RuntimeError unless each became a row."""
    store, catalog, folder = given
    reports = list(ingest(store, catalog, "s3_access", [folder], {"cluster": "bench"}, {}, NOW))
    rows = sum(report.row_count for report in reports)
    if rows != sum(report.line_count for report in reports):
        raise RuntimeError(f"{rows} rows of {reports}")
    return rows


def load_read(folder: Path) -> Given:
    """A store that holds the files."""
    given = load(folder)
    first(given)
    return given


def again(given: Given) -> int:
    """Offer the same files: how many. Raises RuntimeError unless each is known to be unchanged."""
    store, catalog, folder = given
    reports = list(ingest(store, catalog, "s3_access", [folder], {"cluster": "bench"}, {}, NOW))
    if {report.state for report in reports} != {"unchanged"}:
        raise RuntimeError(f"files were read again: {reports}")
    return len(reports)


FIRST = Workload(
    name="first_ingest",
    doc="a million access lines in 24 files into a new lake, the command's start left out",
    unit="lines",
    prepare=prepare,
    load=load,
    run=first,
)
UNCHANGED = Workload(
    name="unchanged",
    doc="the same 24 files offered again: nothing to read; the command's start (about 1 CPU s) left out",
    unit="files",
    prepare=prepare,
    load=load_read,
    run=again,
    goals=(
        Goal("of the first run's CPU", 0.02, 0.005, of=cpu_share, beside=FIRST.name, at_most=True),
    ),
)
