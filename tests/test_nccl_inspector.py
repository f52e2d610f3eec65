"""NCCL Inspector: published arithmetic, markers over chunk ends, and no text that makes it raise."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.files import split_lines
from fleetmark.source import Context, Parsed

SOURCES = load_catalog().sources
SOURCE = SOURCES["nccl_inspector"]
CASES = Path(__file__).parent / "cases/sources/nccl_inspector"
TEXTS = {p.parent.name: p.read_text(encoding="utf-8") for p in CASES.glob("*/input.log")}
QUICK = settings(deadline=None, max_examples=50)


def run(lines: pl.DataFrame, *, at_end: bool = True) -> Parsed:
    options = {"cluster": "c", "job_id": "unknown", "attempt": "1"}
    return SOURCE.parse(lines, Context("x.log", options, at_end=at_end))  # type: ignore[arg-type]  # lines


def lines_of(text: str) -> pl.DataFrame:
    return split_lines(text.encode(), 1)[0]


def rows(parsed: Parsed) -> pl.DataFrame:
    return parsed.tables["collective_perf"].lazy().collect()


@pytest.mark.parametrize("name", ["golden_arithmetic", "a_real_record"])
def test_bandwidths_recompute(name: str) -> None:
    """Recorded sizes of ReduceScatter are one rank's; durations are whole us, so 110 us hides 0.5 %."""
    table = rows(run(lines_of(TEXTS[name])))
    for row in table.iter_rows(named=True):
        n = row["n_ranks"]
        scattered = row["function"] == "reduce_scatter"
        whole_bytes = row["size_bytes"] * (n if scattered else 1)
        factor = (n - 1) / n * (1 if scattered else 2)
        tolerance = 0.5e-6 / row["exec_s"]
        assert row["algbw_bytes_per_s"] == pytest.approx(whole_bytes / row["exec_s"], rel=tolerance)
        assert row["busbw_bytes_per_s"] == pytest.approx(
            row["algbw_bytes_per_s"] * factor, rel=1e-5
        )
        assert row["busbw_computed_bytes_per_s"] == pytest.approx(
            row["busbw_bytes_per_s"], rel=tolerance + 1e-5
        )


def test_all_to_all_has_a_bandwidth_although_the_recorder_writes_none() -> None:
    """8192 B for each of the others within 50 us, by the formula of nccl-tests."""
    table = rows(run(lines_of(TEXTS["hard_lines"]))).filter(pl.col("function") == "all_to_all")
    row = table.row(0, named=True)
    assert row["busbw_bytes_per_s"] is None
    assert row["busbw_computed_bytes_per_s"] == pytest.approx(8192 * (row["n_ranks"] - 1) / 50e-6)


@pytest.mark.parametrize("name", TEXTS)
def test_a_record_finds_its_marker_wherever_the_chunks_end(name: str) -> None:
    lines = lines_of(TEXTS[name])
    whole = run(lines)
    for cut in range(lines.height):
        first = run(lines.filter(pl.col("line_no") <= cut), at_end=False)
        held = first.held_from or cut + 1
        rest = run(lines.filter(pl.col("line_no") >= held))
        assert pl.concat([rows(first), rows(rest)]).equals(rows(whole))
        assert pl.concat([first.rejects, rest.rejects]).equals(whole.rejects)
        assert first.skipped + rest.skipped == whole.skipped


def test_a_line_that_the_core_refused_may_have_been_a_marker() -> None:
    lines = lines_of(TEXTS["v4_3_bare_records"])
    without = run(lines.filter(pl.col("line_no") != 6))
    assert 7 in without.rejects["line_no"]
    assert 7 not in rows(without)["line_no"]


LINES = [line for text in TEXTS.values() for line in text.split("\n")]
DAMAGED = st.builds(
    lambda line, at, piece: line[:at] + piece + line[at + len(piece) :],
    st.sampled_from(LINES), st.integers(0, 400),
    st.sampled_from(["null", "{}", "[]", '"', "\\u0000", "\\ud800", "-", "9" * 30, "}", "1e400"]),
)  # fmt: skip


@given(
    pieces=st.lists(st.one_of(DAMAGED, st.sampled_from(LINES), st.text(max_size=30)), max_size=12),
    at_end=st.booleans(),
)
@QUICK
def test_every_line_is_accounted_for(pieces: list[str], at_end: bool) -> None:
    lines = pl.DataFrame(
        {"line_no": range(1, len(pieces) + 1), "text": pieces},
        schema={"line_no": pl.Int64(), "text": pl.String()},
    )
    parsed = run(lines, at_end=at_end)
    seen = lines.height if parsed.held_from is None else parsed.held_from - 1
    assert rows(parsed).height + parsed.rejects.height + parsed.skipped == seen
    assert not at_end or parsed.held_from is None


def test_it_knows_its_own() -> None:
    for text in TEXTS.values():
        claimed = [s.name for s in SOURCES.values() if s.sniff(text.encode(), "h-pid1.log")]
        assert claimed == ["nccl_inspector"]
    assert not SOURCE.sniff(b'{"coll_perf": 1}', "x.log")
