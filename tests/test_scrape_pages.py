"""Pages of an exporter: when each was scraped, and that none is cut in two."""

from __future__ import annotations

import re
from importlib.resources import files

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from fleetmark.catalog import load_catalog
from fleetmark.source import Context, Parsed

dcgm_exporter = load_catalog().sources["dcgm_exporter"]

SAMPLES = files("fleetmark.samples") / "telemetry"
L4 = (SAMPLES / "dcgm_exporter_l4_1774009423.prom").read_text(encoding="utf-8")
T4 = (SAMPLES / "dcgm_exporter_t4.prom").read_text(encoding="utf-8")
TS = "2026-03-20T12:23:43Z"


LABELS = '{gpu="0",UUID="GPU-1",Hostname="h"}'
# Machines under test are shared: no deadline per example.
QUICK = settings(deadline=None, max_examples=30)


def lines_of(text: str, first: int = 1) -> pl.DataFrame:
    values = text.removesuffix("\n").split("\n")
    return pl.DataFrame(
        {"line_no": range(first, first + len(values)), "text": values},
        schema={"line_no": pl.Int64(), "text": pl.String()},
    )


def parse(text: str, **options: str) -> Parsed:
    return run(lines_of(text), at_end=True, **options)


def run(lines: pl.DataFrame, *, at_end: bool, **options: str) -> Parsed:
    return dcgm_exporter.parse(
        lines,  # type: ignore[arg-type]  # a source that reads lines
        Context("page.prom", {"cluster": "c"} | options, at_end=at_end),
    )


def table(parsed: Parsed, name: str = "gpu_sample") -> pl.DataFrame:
    return parsed.tables[name].lazy().collect()


def reasons(parsed: Parsed) -> list[str]:
    return parsed.rejects["reason"].to_list()


def test_a_page_without_time_is_rejected_with_the_remedy() -> None:
    parsed = parse(T4)
    assert table(parsed).is_empty()
    assert len(reasons(parsed)) == 20
    assert all("--set ts=TIME" in reason for reason in reasons(parsed))


@pytest.mark.parametrize("ts", ["yesterday", "2026-03-20T12:23:43", "12", "1774009423000"])
def test_a_time_that_is_none_is_never_guessed(ts: str) -> None:
    assert all(ts in reason for reason in reasons(parse(T4, ts=ts)))
    marked = parse(f"# fleetmark scrape ts={ts}\n{T4}", ts=TS)
    assert table(marked).is_empty()
    assert len(reasons(marked)) == 21


def test_the_nearest_statement_of_time_and_node_wins() -> None:
    page = (
        "# fleetmark scrape ts=2026-03-20T13:00:00+01:00 node=marker\n"
        'dcgm_gpu_temp{gpu="0",uuid="GPU-1"} 40\n'
        'dcgm_gpu_temp{gpu="1",uuid="GPU-2",Hostname="label"} 41\n'
        'dcgm_gpu_temp{gpu="2",uuid="GPU-3"} 42 1774009423000\n'
        "# fleetmark scrape ts=1774009483.25\n"
        'dcgm_gpu_temp{gpu="0",uuid="GPU-1"} 43\n'
    )
    rows = table(parse(page, ts=TS, node="option")).select("node", "ts", "gpu_temp_c")
    assert [(n, str(ts), t) for n, ts, t in rows.rows()] == [
        ("marker", "2026-03-20 12:00:00", 40),
        ("label", "2026-03-20 12:00:00", 41),
        ("marker", "2026-03-20 12:23:43", 42),
        ("option", "2026-03-20 12:24:43.250000", 43),
    ]


@pytest.mark.parametrize(
    "name",
    ["page_1774009423.prom", "n1-2026-03-20T12-23-43Z.txt", "20260320T122343Z.prom",
     "2026-03-20T12:23:43Z", "a.2026-03-20T14-23-43+0200.prom"],
)  # fmt: skip
def test_a_time_in_the_file_name_is_a_fact(name: str) -> None:
    assert dcgm_exporter.name_facts
    found = re.search(dcgm_exporter.name_facts, name)
    assert found
    parsed = parse(L4, ts=found["ts"])
    assert str(table(parsed)["ts"][0]) == "2026-03-20 12:23:43"


def test_other_digits_in_a_file_name_are_no_time() -> None:
    assert dcgm_exporter.name_facts
    for name in ("node1234567890a.prom", "GPU-1774009423ab.prom", "2026-03-20.prom"):
        assert not re.search(dcgm_exporter.name_facts, name)


def test_what_cannot_be_placed_is_rejected_with_the_remedy() -> None:
    no_node = parse('dcgm_gpu_temp{gpu="0",uuid="GPU-1"} 40\n', ts=TS)
    assert "--set node=NAME" in reasons(no_node)[0]
    no_gpu = parse('DCGM_FI_DEV_GPU_TEMP{gpu="0",Hostname="h"} 40\n', ts=TS)
    assert "UUID" in reasons(no_gpu)[0]
    early = parse(f"DCGM_FI_DEV_GPU_TEMP{LABELS} 40 12\n", ts=TS)
    assert "timestamp" in reasons(early)[0]


# -- chunks ------------------------------------------------------------------------------------

PAGES = "".join(
    f"# fleetmark scrape ts={1774009423 + 15 * i}\n{L4}garbage {i} x\n" for i in range(4)
)


@QUICK
@given(st.lists(st.integers(1, PAGES.count("\n") - 1), max_size=4))
def test_a_scrape_is_never_cut_in_two(cuts: list[int]) -> None:
    lines = lines_of(PAGES)
    whole = run(lines, at_end=True)
    rows, bad, skipped, start = [], 0, 0, 1
    for cut in [*sorted(set(cuts)), lines.height]:
        at_end = cut == lines.height
        shown = lines.filter(pl.col("line_no").is_between(start, cut))
        part = run(shown, at_end=at_end)
        rows.append(table(part))
        bad += part.rejects.height
        skipped += part.skipped
        if part.held_from is None:
            assert at_end
        else:
            start = part.held_from
    found = pl.concat([r for r in rows if r.height], how="diagonal")
    assert_frame_equal(found, table(whole), check_column_order=False)
    assert (bad, skipped) == (whole.rejects.height, whole.skipped) == (4, 4 * 47)


@pytest.mark.parametrize("text", ["", "\n\n", "# EOF\n", "no page at all\n", "\t\n  # x\n"])
def test_nothing_in_nothing_out(text: str) -> None:
    parsed = parse(text, ts=TS)
    assert table(parsed).is_empty()
    assert table(parsed, "gpu_sample_extra").is_empty()
    assert parsed.skipped + parsed.rejects.height == lines_of(text).height
