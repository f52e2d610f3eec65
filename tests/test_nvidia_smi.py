"""nvidia-smi output: cut anywhere, in any chunks, mixed, hostile; dcgmi dmon cut anywhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from fleetmark.catalog import load_catalog
from fleetmark.source import Context, Parsed

SAMPLES = files("fleetmark.samples") / "telemetry" / "nvidia_smi"
TEXT, CSV, XML, LINKS = (
    (SAMPLES / name).read_text(encoding="utf-8")
    for name in (
        "h100_query.txt",
        "h100_query_gpu.csv",
        "a100_mig_v12.xml",
        "h100_nvlink_status.txt",
    )
)
DMON = (
    "#Entity   SMCLK  POWER\nID               W\nGPU 1     345    69.850\nGPU 0     1980   629.450\n"
    "GPU 1     346    70.850\nGPU 0     1981   630.450\n"
)
STATED = {"cluster": "c", "node": "n", "tz": "UTC", "ts": "2026-03-20T12:00:00Z"}
CATALOG = load_catalog()
nvidia_smi, dcgmi_dmon = CATALOG.sources["nvidia_smi"], CATALOG.sources["dcgmi_dmon"]
# Machines under test are shared: no deadline per example.
QUICK = settings(deadline=None, max_examples=25)


def lines_of(text: str) -> pl.DataFrame:
    values = text.split("\n")
    return pl.DataFrame({"line_no": range(1, len(values) + 1), "text": values})


def parse(lines: pl.DataFrame, *, at_end: bool = True, first: str = "") -> Parsed:
    context = Context("x.txt", STATED, first, at_end=at_end)
    return nvidia_smi.parse(lines, context)  # type: ignore[arg-type]  # a source that reads lines


def tables(parsed: Parsed) -> dict[str, pl.DataFrame]:
    return {name: rows.lazy().collect() for name, rows in parsed.tables.items()}


def joined(parts: list[Parsed]) -> dict[str, pl.DataFrame]:
    names = parts[0].tables
    frames = {n: [p.tables[n].lazy().collect() for p in parts] for n in names}
    return {n: pl.concat(f, how="diagonal_relaxed").sort("line_no") for n, f in frames.items()}


def cells(frame: pl.DataFrame) -> set[tuple[Any, ...]]:
    """(node, GPU, instance or field or link, ts, column, value) of everything that is known."""
    keys = [k for k in ("gpu_uuid", "mig_instance", "field", "link", "ts") if k in frame.columns]
    found = set()
    for row in frame.drop("line_no", "quality", strict=False).to_dicts():
        who = tuple(row[k] for k in keys)
        found |= {(*who, k, v) for k, v in row.items() if v is not None}
    return found


@QUICK
@given(st.lists(st.integers(1, 1100), min_size=1, max_size=4))
def test_chunks_give_what_the_whole_gives(cuts: list[int]) -> None:
    lines = lines_of(f"{TEXT}\n{XML}\n{LINKS}\n{TEXT}\n{LINKS}")
    whole = parse(lines)
    parts, start = [], 0
    for cut in sorted({*cuts}):
        if cut > start:
            part = parse(lines.slice(start, cut - start), at_end=False)
            start = cut if part.held_from is None else part.held_from - 1
            parts.append(part)
    parts.append(parse(lines.slice(start)))
    assert whole.rejects.is_empty()
    assert sum(part.rejects.height for part in parts) == 0
    for name, rows in joined(parts).items():
        want = tables(whole)[name].sort("line_no")
        got = rows.unique(
            [c for c in want.columns if c not in ("line_no", "quality")], keep="first"
        )
        assert cells(got) == cells(want), name


@pytest.mark.parametrize("text", [TEXT, XML, LINKS], ids=["text", "xml", "links"])
def test_a_cut_output_says_nothing_that_the_whole_does_not(text: str) -> None:
    whole = tables(parse(lines_of(text)))
    known = {name: cells(rows) for name, rows in whole.items()}

    @QUICK
    @given(st.integers(0, len(text)))
    def check(at: int) -> None:
        for name, rows in tables(parse(lines_of(text[:at]))).items():
            assert cells(rows) <= known[name], (at, name)

    check()


def test_csv_rows_of_another_width_are_refused() -> None:
    header, row, *_ = CSV.split("\n")
    parsed = parse(lines_of("\n".join([header, row, row.rpartition(",")[0], row[:400]])))
    assert tables(parsed)["gpu_sample"].height == 1
    assert parsed.rejects["line_no"].to_list() == [3, 4]


def test_a_later_chunk_of_csv_takes_the_header_from_the_first_line() -> None:
    header, row, *_ = CSV.split("\n")
    later = pl.DataFrame({"line_no": [900], "text": [row]})
    (got,) = tables(parse(later, at_end=False, first=header))["gpu_sample"].to_dicts()
    assert (got["sm_clock_mhz"], got["line_no"]) == (345, 900)


@QUICK
@given(st.lists(st.sampled_from([*TEXT.split("\n")[:60], *XML.split("\n")[:60], *CSV.split("\n"),
                                 *LINKS.split("\n"), "\x00\x7f", "<a>" * 50, "GPU 0: x (UUID: )"]),
                max_size=60))  # fmt: skip
def test_lines_in_any_order_never_raise_and_are_accounted_for(lines: list[str]) -> None:
    parsed = parse(lines_of("\n".join(lines)))
    assert set(parsed.rejects["line_no"]) <= set(range(1, len(lines) + 2))
    for rows in tables(parsed).values():
        assert rows["gpu_uuid"].null_count() == 0


def test_deep_xml_is_refused() -> None:
    deep = "<nvidia_smi_log>" + "<a>" * 100_000
    parsed = parse(lines_of(f'<?xml version="1.0"?>\n{deep}'))
    assert "more than 32 deep" in parsed.rejects["reason"][0]


@QUICK
@given(st.integers(0, len(DMON)))
def test_cut_dmon_says_nothing_that_the_whole_does_not(at: int) -> None:
    stated = STATED | {"gpus": "GPU-0,GPU-1", "delay_ms": "1000"}

    def read(text: str) -> pl.DataFrame:
        context = Context("x.txt", stated)
        parsed = dcgmi_dmon.parse(text.encode(), context)  # type: ignore[arg-type]  # a document
        return tables(parsed)["gpu_sample"]

    assert cells(read(DMON[:at])) <= cells(read(DMON))


def test_order_of_gpus_does_not_matter() -> None:
    stated = STATED | {"gpus": "GPU-0,GPU-1", "delay_ms": "1000"}
    head, units, a, b, c, d, _ = DMON.split("\n")
    frames = []
    for rows in ((a, b, c, d), (b, a, d, c)):
        text = "\n".join([head, units, *rows, ""])
        parsed = dcgmi_dmon.parse(text.encode(), Context("x", stated))  # type: ignore[arg-type]  # a document
        frames.append(tables(parsed)["gpu_sample"].drop("line_no").sort("gpu_uuid", "ts"))
    assert_frame_equal(*frames)
