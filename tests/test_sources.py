"""Every source: its golden cases, and what must hold for any source."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.run import ingest
from fleetmark.source import Source
from fleetmark.store import Store
from fleetmark.summary import summarise
from fleetmark.testing import (
    EPOCH,
    Case,
    cases_of,
    differences,
    parse_file,
    read_rows,
    source_rows,
)

CASES = Path(__file__).parent / "cases"
CATALOG = load_catalog()
SOURCES = list(CATALOG.sources.values())
GOLDEN = [(s, c) for s in SOURCES for c in cases_of(CASES, "sources", s.name)]
# Each needs two stores and six ingests, so not every case: of each source the two with the largest inputs.
LARGEST = [
    (s, c)
    for s in SOURCES
    for c in sorted(
        cases_of(CASES, "sources", s.name), key=lambda c: c.input.stat().st_size, reverse=True
    )[:2]
]
GARBAGE = [
    b"",
    b"\n\n\n",
    b"\x00\x01\x02\xff\xfe" * 50,
    b"%PDF-1.4 not a log\n" * 3,
    "ünïcödé — ✓\n".encode(),
    b'{"a": [1, 2, {"b": null}]}\n',
    b"a,b,c\n1,2,3\n",
    b"x" * 3000,
]
NUMBER = re.compile(rb"\d+(?:\.\d+)?")
EXTREMES = [
    b"-1",
    b"1e400",
    b"99999999999999999999999",
    b"18446744073709551615",
    b"nan",
    b'"x"',
    b"\xff",
]


def ids(value: object) -> str:
    return getattr(value, "name", str(value))


@pytest.mark.parametrize("source", SOURCES, ids=ids)
def test_has_cases(source: Source) -> None:
    assert cases_of(CASES, "sources", source.name), f"no case in tests/cases/sources/{source.name}"


@pytest.mark.parametrize(("source", "case"), GOLDEN, ids=ids)
def test_golden(source: Source, case: Case) -> None:
    rows, refused = source_rows(source, parse_file(source, case.input, **case.options))
    for table in source.outputs:
        path = case.folder / ("expected.csv" if len(source.outputs) == 1 else f"{table.name}.csv")
        if path.exists():
            want = read_rows(path, table.with_provenance())
            got = rows.get(table.name, table.with_provenance().empty())
            assert differences(got, want, case.tolerance) == []
    path = case.folder / "rejects.csv"
    want_rejects = (
        pl.read_csv(path, schema_overrides={"line_no": pl.Int64, "reason": pl.String})
        if path.exists()
        else pl.DataFrame(schema={"line_no": pl.Int64, "reason": pl.String})
    )
    assert differences(refused, want_rejects, 0) == []


@pytest.mark.parametrize("source", SOURCES, ids=ids)
def test_garbage_is_quarantined(
    source: Source, tmp_path: Path, new_store: Callable[[str], Store]
) -> None:
    paths = [tmp_path / f"garbage{number}" for number in range(len(GARBAGE))]
    for path, content in zip(paths, GARBAGE, strict=True):
        path.write_bytes(content)
    with new_store("store") as store:
        reports = list(ingest(store, CATALOG, source.name, paths, {}, {}, EPOCH))
    for report, content in zip(reports, GARBAGE, strict=True):
        assert report.row_count == 0, content
        if content.strip():
            assert report.reject_count + report.skipped_count > 0, content


@pytest.mark.parametrize("source", [s for s in SOURCES if s.reads != "frame"], ids=ids)
def test_damaged_bytes_never_raise(source: Source, tmp_path: Path) -> None:
    """Numbers out of every range, bytes changed, parts missing and repeated, in the smallest case."""
    case = min(cases_of(CASES, "sources", source.name), key=lambda c: c.input.stat().st_size)
    content = case.input.read_bytes()
    chance = random.Random(source.name)  # noqa: S311 - the same damage in every run, no secret
    for number, value in enumerate(EXTREMES):
        damaged = NUMBER.sub(lambda m, v=value: v if chance.random() < 0.1 else m[0], content)  # type: ignore[misc]  # a default binds v
        start, end = sorted(chance.choices(range(len(content) + 1), k=2))
        for part in (damaged, damaged[:start] + damaged[end:], damaged[:end] + content[start:]):
            path = tmp_path / str(number) / case.input.name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(part)
            rows, refused = source_rows(source, parse_file(source, path, **case.options))
            assert all(
                frame["cluster"].null_count() == 0 for frame in rows.values() if "cluster" in frame
            )
            assert refused["reason"].null_count() == 0


def hashes(store: Store, source: Source) -> dict[str, tuple[int, str]]:
    names = [*(t.name for t in source.outputs), "reject", "ingest_file"]
    found = summarise(store, [CATALOG.tables[n] for n in names])
    return {s.name: (s.row_count, s.content_hash) for s in found}


@pytest.mark.parametrize(("source", "case"), LARGEST, ids=ids)
def test_twice_or_cut_and_then_whole_is_once(
    source: Source, case: Case, tmp_path: Path, new_store: Callable[[str], Store]
) -> None:
    content = case.input.read_bytes()
    whole = tmp_path / "whole" / case.input.name
    whole.parent.mkdir()
    whole.write_bytes(content)
    with new_store("once") as store:
        list(ingest(store, CATALOG, source.name, [whole], case.options, {}, EPOCH))
        once = hashes(store, source)
        list(ingest(store, CATALOG, source.name, [whole], case.options, {}, EPOCH))
        assert hashes(store, source) == once
    with new_store("step_by_step") as store:
        growing = tmp_path / "grown" / case.input.name
        growing.parent.mkdir()
        for share in (0.13, 0.5, 0.97, 1):
            growing.write_bytes(content[: int(len(content) * share)])
            list(ingest(store, CATALOG, source.name, [growing], case.options, {}, EPOCH))
        assert hashes(store, source) == once
