"""nccl-tests: the printed bandwidths recompute, and no text makes the source raise or lose a line."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.files import split_lines
from fleetmark.source import Context, Parsed

SOURCES = load_catalog().sources
SOURCE = SOURCES["nccl_tests"]
SAMPLES = files("fleetmark.samples") / "collectives" / "nccl_tests"
# Share of algbw that is busbw, for n ranks: nccl-tests doc/PERFORMANCE.md.
FACTORS = {"all_reduce": 2 * (8 - 1) / 8, "all_to_all": (8 - 1) / 8, "reduce": 1.0}
NAMES = {"nccl_allreduce.log": "all_reduce", "nccl_alltoall.log": "all_to_all", "nccl_reduce.log": "reduce"}  # fmt: skip
QUICK = settings(deadline=None, max_examples=50)
TEXT = (SAMPLES / "nccl_allreduce.log").read_text(encoding="utf-8")


def run(lines: pl.DataFrame, *, at_end: bool = True, **options: str) -> Parsed:
    values = {"cluster": "c", "job_id": "unknown"} | options
    return SOURCE.parse(lines, Context("x.log", values, at_end=at_end))  # type: ignore[arg-type]  # lines


def parse(text: str, **options: str) -> Parsed:
    return run(split_lines(text.encode(), 1)[0], at_end=True, **options)


def rows(parsed: Parsed) -> pl.DataFrame:
    return parsed.tables["collective_bench"].lazy().collect()


def test_printed_bus_bandwidth_recomputes() -> None:
    """From 1 MiB on, size / time * factor is within 0.044 % of the printed value, the digits lost."""
    worst = []
    for name, function in NAMES.items():
        text = (SAMPLES / name).read_text(encoding="utf-8")
        table = rows(parse(text, function=function)).filter(pl.col("size_bytes") >= 1 << 20)
        assert table.height == 2 * 14
        recomputed = pl.col("size_bytes") / pl.col("time_s") * FACTORS[function]
        error = (recomputed / pl.col("busbw_bytes_per_s") - 1).abs().max()
        worst.append(table.select((error * 100).round(3)).item())
    assert worst == [0.024, 0.044, 0.029]


@pytest.mark.parametrize("cut", [1, 20, 37, 53])
def test_a_run_is_whole_wherever_the_chunks_end(cut: int) -> None:
    both = TEXT + TEXT.replace("112424", "9")
    lines = split_lines(both.encode(), 1)[0]
    whole = rows(run(lines, function="reduce"))
    first = run(lines.filter(pl.col("line_no") <= cut), at_end=False, function="reduce")
    held = first.held_from or cut + 1
    rest = run(lines.filter(pl.col("line_no") >= held), function="reduce")
    assert (
        pl.concat([rows(first), rows(rest)])
        .sort("line_no", "placement")
        .equals(whole.sort("line_no", "placement"))
    )
    assert whole["run_id"].n_unique() == 2


def test_what_the_run_says_goes_before_what_is_stated() -> None:
    text = "# Collective test starting: reduce_scatter_perf\n" + TEXT
    assert set(rows(parse(text, function="reduce"))["function"]) == {"reduce_scatter"}
    assert set(rows(parse(TEXT, function="AllGather"))["function"]) == {"all_gather"}


@pytest.mark.parametrize(
    "options", [{}, {"function": "nothing"}, {"function": "reduce", "ts": "x"}]
)
def test_a_missing_fact_is_a_reject_with_its_remedy(options: dict[str, str]) -> None:
    parsed = parse(TEXT, **options)
    assert rows(parsed).is_empty()
    assert parsed.rejects.height == 34
    (reason,) = parsed.rejects["reason"].unique()
    assert "--set function=" in reason or "write 2026-03-20T12:23:43Z" in reason


PIECES = st.sampled_from(
    [*TEXT.split("\n"), "# nccl-tests version 2", "x/all_gather_perf -b 8", "", "\t", "8 2 float",
     "99999999999999999999 1 float" + " 1e999" * 8, "1 1 x" + " -nan" * 16, "8 2 f 0" + " 1..2" * 8]
)  # fmt: skip


@given(pieces=st.lists(st.one_of(PIECES, st.text(max_size=40)), max_size=30), at_end=st.booleans())
@QUICK
def test_every_line_is_accounted_for(pieces: list[str], at_end: bool) -> None:
    lines = pl.DataFrame(
        {"line_no": range(1, len(pieces) + 1), "text": pieces},
        schema={"line_no": pl.Int64(), "text": pl.String()},
    )
    parsed = run(lines, at_end=at_end, function="reduce")
    assert at_end or parsed.held_from is None or parsed.held_from >= 1
    seen = lines.height if parsed.held_from is None else parsed.held_from - 1
    assert rows(parsed).height % 2 == 0
    assert rows(parsed).height // 2 + parsed.rejects.height + parsed.skipped == seen
    assert not at_end or parsed.held_from is None


REPORT = (
    Path(__file__).parent / "cases/sources/nccl_tests/json_report/input.json"
).read_text(encoding="utf-8").split("\n")[0]  # fmt: skip
ODD = ["null", "{}", "[]", "[1]", '"\\ud800"', "-1", "1e400", "9" * 400, "true", "0.5", '""']
WORDS = re.findall(r'"[^"]*"|[0-9.]+|null', REPORT)


@given(changes=st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(ODD)), max_size=3))
@QUICK
def test_any_report_is_rows_or_a_reject_and_keeps_no_secret(changes: list[tuple[str, str]]) -> None:
    text = REPORT
    for old, new in changes:
        text = text.replace(old, new, 1)
    parsed = parse(text)
    assert (rows(parsed).height > 0) + parsed.rejects.height + parsed.skipped == 1
    assert "SECRET" not in f"{rows(parsed).rows()}{parsed.rejects.rows()}"


@pytest.mark.parametrize(
    ("old", "new"),
    [('"size":8', '"size":null'), ('"size":8', '"size":-8'), ("all_reduce_perf", "x")],
)
def test_a_refused_report_is_one_reject_without_its_text(old: str, new: str) -> None:
    parsed = parse(REPORT.replace(old, new))
    assert rows(parsed).is_empty()
    assert parsed.rejects["text"].to_list() == [""]
    assert parse(REPORT, ts="noon").rejects.height == 1


def test_it_knows_its_own() -> None:
    for name in NAMES:
        head = (SAMPLES / name).read_bytes()
        assert [s.name for s in SOURCES.values() if s.sniff(head, name)] == ["nccl_tests"]
    assert SOURCE.sniff(REPORT.encode(), "x.json")
    assert not SOURCE.sniff(b"size count type\n", "x")
