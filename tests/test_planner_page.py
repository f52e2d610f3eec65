"""docs/planner.md: every query runs, answers, and has the columns that the page names.

The data: a real Slurm (accounting, nodes, events, associations, queue), Kubernetes with queues, and the
rows of tests/planner for what no sample holds. Tables are computed in memory by their models.
"""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.model import tables_in
from fleetmark.testing import complete, derive, load_case, parse_file, read_rows, source_rows

TESTS = Path(__file__).parent
SLURM = TESTS.parent / "samples" / "scheduler" / "slurm-22.05"
PAGE = (TESTS.parent / "docs" / "planner.md").read_text(encoding="utf-8")
QUESTION = re.compile(r"^### (.+?)$(.*?)(?=^##|\Z)", re.MULTILINE | re.DOTALL)
QUERY = re.compile(r"^```sql\n(.*?)^```\n\nColumns: (.+?)$", re.MULTILINE | re.DOTALL)
QUESTIONS = QUESTION.findall(PAGE)
CATALOG = load_catalog()
STATED = {"tz": "UTC", "observed_at": "2026-11-30T10:49:29", "cluster": "testgpu"}
READ: tuple[tuple[str, Path, dict[str, str]], ...] = (
    ("sacct", SLURM / "sacct-parsable2-steps.txt", {"tz": "UTC", "duplicates": "yes"}),
    ("scontrol", SLURM / "scontrol-show-node.txt", STATED),
    ("sacctmgr", SLURM / "sacctmgr-events.txt", STATED),
    ("sacctmgr", SLURM / "sacctmgr-assoc.txt", STATED),
    ("slurm_json", SLURM / "squeue.json.gz", STATED),
    ("gpu_peak", TESTS.parent / "ingest" / "training" / "gpu_peak.json", {}),
    ("failure_rule", TESTS.parent / "ingest" / "scheduler" / "failure_rule.json", {}),
    ("reason_rule", TESTS.parent / "ingest" / "scheduler" / "reason_rule.json", {}),
)


@pytest.fixture(scope="module")
def frames() -> dict[str, pl.DataFrame]:
    """Rows by table, read from logs or stated; what models compute from them is added on the way."""
    parts: dict[str, list[pl.DataFrame]] = {}
    cases = [load_case(p) for p in sorted((TESTS / "cases/sources/kubernetes").iterdir())]
    pages = load_case(TESTS / "cases/sources/control_plane/two_pages")
    read = [
        *READ,
        *(("kubernetes", c.input, dict(c.options)) for c in cases),
        ("control_plane", pages.input, dict(pages.options)),
    ]
    for source, path, options in read:
        rows, _ = source_rows(
            CATALOG.sources[source], parse_file(CATALOG.sources[source], path, **options)
        )
        for written, frame in rows.items():
            parts.setdefault(written, []).append(frame)
    for path in sorted((TESTS / "planner").rglob("*.csv")):
        table = CATALOG.tables[path.stem]
        parts.setdefault(path.stem, []).append(complete(table, read_rows(path, table)))
    found = {}
    for name, group in parts.items():
        table = CATALOG.tables[name]
        whole = pl.concat([complete(table, frame) for frame in group])
        found[name] = whole.unique(table.grain, keep="last", maintain_order=True)
    return found


def test_the_page_answers_twenty_questions() -> None:
    assert len(QUESTIONS) >= 20
    assert all(len(QUERY.findall(text)) == 1 for _, text in QUESTIONS)


@pytest.mark.parametrize(("title", "text"), QUESTIONS, ids=[title for title, _ in QUESTIONS])
def test_query(title: str, text: str, frames: dict[str, pl.DataFrame]) -> None:
    sql, columns = QUERY.findall(text)[0]
    with duckdb.connect() as connection:
        for table in tables_in(sql, title, connection):
            connection.register(table, derive(CATALOG, frames, table).to_arrow())
        found = connection.sql(sql).pl()
    assert found.columns == columns.split(", ")
    assert found.height > 0
    # A column that is unknown in every row would be a query nobody could check.
    unknown = [name for name in found.columns if found[name].null_count() == found.height]
    assert unknown == []


CAUSES = (
    *("fit", "cpu", "fraction", "gang", "priority"),
    *("quota", "reservation", "constraint", "held", "unknown"),
)


def test_causes_exclude_each_other_and_sum(frames: dict[str, pl.DataFrame]) -> None:
    """What stood free while others waited, and why: one figure in two tables."""
    keys = ("cluster", "pool", "day_ts")
    idle = derive(CATALOG, frames, "idle_while_pending")
    why = derive(CATALOG, frames, "stranded_gpus")
    both = why.join(idle.select(*keys, pl.col("idle_while_pending_gpu_s").alias("whole")), on=keys)
    assert both.height > 1
    parts = both.select(f"{cause}_gpu_s" for cause in CAUSES)
    assert parts.min_horizontal().min() == pytest.approx(0, abs=1e-6)
    assert parts.sum_horizontal().to_list() == pytest.approx(both["whole"].to_list())


def test_losses_and_the_useful_rest_sum_to_what_is_installed(
    frames: dict[str, pl.DataFrame],
) -> None:
    flow = derive(CATALOG, frames, "gpu_hours_waterfall").drop_nulls("productive_lower_gpu_s")
    known = flow.drop_nulls("in_service_gpu_s")
    assert known.height > 1
    losses = ("out_of_service", "unallocated", "inactive", "unproductive", "productive_lower")
    whole = known.select(pl.sum_horizontal(pl.col(f"{name}_gpu_s").fill_null(0) for name in losses))
    assert whole.to_series().to_list() == pytest.approx(known["installed_gpu_s"].to_list())
