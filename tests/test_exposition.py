"""The exposition format, with prometheus_client as the independent reader."""

from __future__ import annotations

import math
import re
from importlib import import_module
from importlib.resources import files
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

# By name: type checkers cannot follow the mapping of top-level folders into the package, and
# prometheus_client has no types for its parsers.
exposition: Any = import_module("fleetmark.ingest.telemetry._exposition")
layout: Any = import_module("fleetmark.ingest.telemetry._exposition_layout")
read_samples: Any = import_module("fleetmark.ingest.telemetry._exposition_lines").read_samples
text_format: Any = import_module("prometheus_client.parser")

SAMPLES = files("fleetmark.samples") / "telemetry"
PAGES = [
    "dcgm_exporter_l4_1774009423.prom",
    "dcgm_exporter_t4.prom",
    "nvidia_gpu_exporter_h100_load.metrics",
]
# Machines under test are shared: no deadline per example.
QUICK = settings(deadline=None, max_examples=100)


def lines_of(text: str) -> pl.DataFrame:
    values = text.removesuffix("\n").split("\n")
    return pl.DataFrame(
        {"line_no": range(1, 1 + len(values)), "text": values},
        schema={"line_no": pl.Int64(), "text": pl.String()},
    )


NAMES = st.from_regex(re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,20}", re.ASCII), fullmatch=True)
KEYS = st.from_regex(re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,10}", re.ASCII), fullmatch=True)
TEXT = st.text(
    st.one_of(
        st.sampled_from('"\\\n}{, =#'),
        st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp"), exclude_characters="\x85"),
    ),
    max_size=12,
)
NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["NaN", "+Inf", "-Inf", "1e3", "1.98e+09", ".5", "5.", "+7"]),
)
SPACE = st.sampled_from(["", " "])
END = st.sampled_from(["", ","])
BARE = st.sampled_from(["", "{}"])


@st.composite
def sample_lines(draw: st.DrawFn) -> str:
    labels = draw(st.dictionaries(KEYS, TEXT, max_size=4))
    escape = {"\\": r"\\", '"': r"\"", "\n": r"\n"}
    pad = draw(SPACE)
    parts = [
        f'{key}{pad}={pad}"' + "".join(escape.get(c, c) for c in value) + '"'
        for key, value in labels.items()
    ]
    comma = draw(st.sampled_from([",", ", "]))
    body = comma.join(parts) + (draw(END) if parts else "")
    braces = "{" + body + "}" if parts else draw(BARE)
    time = draw(st.one_of(st.just(""), st.integers(0, 2**42).map(lambda t: f" {t}")))
    gap = draw(st.sampled_from([" ", "  ", "\t"]))
    return f"{draw(NAMES)}{braces}{gap}{draw(NUMBERS)}{time}"


@QUICK
@given(st.lists(sample_lines(), min_size=1, max_size=8))
def test_the_exact_reader_agrees_with_prometheus_client(lines: list[str]) -> None:
    for line in lines:
        (family,) = text_format.text_string_to_metric_families(line + "\n")
        (theirs,) = family.samples
        ours = exposition.read_sample(line)
        assert (ours.name, dict(ours.labels)) == (theirs.name, theirs.labels)
        assert float(ours.value) == float(theirs.value) or math.isnan(theirs.value)
        time = None if ours.time is None else float(ours.time) / 1000
        assert time == (None if theirs.timestamp is None else float(theirs.timestamp))


DAMAGE = st.sampled_from(
    ["", "% Total", "a", 'a{b="c" 1', "a{b=c} 1", "a 1 2 3", 'a{b="} 1', 'a{b="c"} N/A', "}", "a{ 1",
     'a{b="c"} 1 inf', 'a{b="c"} 1_0', '{"q x",b="c"} 1', 'a{b="c"} 2 # {id="} 3"} 0.5', 'a} {b="c"} 1',
     'a{b="1",b="2"} 1', '"x"{b="c"} 1', 'a{b="c"} <<<NULL>>>', 'a{b="c"}1', 'a{b="c"} 1 1e3']
)  # fmt: skip


@QUICK
@given(st.lists(st.one_of(sample_lines(), DAMAGE), max_size=12))
def test_many_lines_at_once_read_like_one_at_a_time(lines: list[str]) -> None:
    frame = lines_of("\n".join(lines))
    samples, bad = read_samples(frame)
    rejected = dict(bad.select("line_no", "reason").iter_rows())
    found = {row["line_no"]: row for row in samples.iter_rows(named=True)}
    blank = set(frame.filter(pl.col("text") == "")["line_no"])
    assert set(found) | set(rejected) == set(frame["line_no"]) - blank
    assert not set(found) & set(rejected)
    for line_no, line in frame.filter(pl.col("text") != "").iter_rows():
        if line_no in rejected:
            with pytest.raises(exposition.NotASampleError, match=r".") as refusal:
                exposition.read_sample(line)
            assert rejected[line_no] == f"not a sample: {refusal.value}"
            continue
        exact = exposition.read_sample(line)
        row = found[line_no]
        assert (row["name"], exposition.labels_of(row["labels"])) == (exact.name, exact.labels)
        assert row["time"] == (None if exact.time is None else float(exact.time))
        if exact.value.startswith("<"):
            assert row["value"] is None
        else:
            assert row["value"] == float(exact.value) or math.isnan(row["value"])
        assert row["value_text"] == exact.value


@pytest.mark.parametrize("name", PAGES)
def test_real_pages_read_like_prometheus_client(name: str) -> None:
    content = lines_of((SAMPLES / name).read_text(encoding="utf-8")).filter(
        ~pl.col("text").str.starts_with("#")
    )
    samples, bad = read_samples(content)
    assert bad.is_empty()
    ours = [
        (r["name"], dict(exposition.labels_of(r["labels"]) or ()), r["value"])
        for r in samples.to_dicts()
    ]
    # Without HELP and TYPE: a `_total` of type gauge is renamed by prometheus_client.
    bare = "\n".join(content["text"]) + "\n"
    families = text_format.text_string_to_metric_families(bare)
    theirs = [(s.name, dict(s.labels), s.value) for f in families for s in f.samples]
    assert sorted(ours, key=str) == sorted(theirs, key=str)


MARKER = "# fleetmark scrape"
FAMILIES = ("up_ratio", "power_w", "a:b", "temp_c")


@st.composite
def scrapes(draw: st.DrawFn) -> str:
    """Pages of a few hosts, most of them alike but for labels and values, some of them disturbed."""
    pages = []
    for _ in range(draw(st.integers(2, 5))):
        host = draw(st.sampled_from(["a", "b", r"c\"}\\ \n", "d} ", "e\\x"]))
        time = draw(st.sampled_from(["", "", " 1774009423500", " 1774009423.5", " inf"]))
        lines = [
            f'{name}{{gpu="{gpu}",host="{host}"}} {draw(NUMBERS)}{time}'
            for name in FAMILIES
            for gpu in range(3)
        ]
        for change in draw(
            st.lists(st.sampled_from(["drop", "swap", "again", "damage", "blank"]), max_size=2)
        ):
            at = draw(st.integers(0, len(lines) - 1))
            if change == "drop" and len(lines) > 1:
                del lines[at]
            elif change == "swap":
                lines[at], lines[-1] = lines[-1], lines[at]
            elif change == "again":
                lines.insert(at, draw(st.sampled_from(lines)))
            elif change == "damage":
                lines[at] = draw(st.one_of(DAMAGE, sample_lines(), st.just(lines[at] + "#")))
            else:
                lines.insert(
                    at, draw(st.sampled_from(["", "  ", "# HELP x y", lines[at].split("}")[0]]))
                )
        pages.append("\n".join([f"{MARKER} ts=1", *lines]))
    return "\n".join(pages)


@QUICK
@given(scrapes())
def test_pages_read_the_same_with_and_without_a_foreseen_layout(text: str) -> None:
    lines = lines_of(text)
    starts = lines.filter(pl.col("text").str.starts_with(MARKER))["line_no"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "_LEAST_LINES", 2)
        found, refused = read_samples(lines, starts)
    expected, rejects = read_samples(lines)
    words = pl.col("name", "labels").cast(pl.String)
    assert_frame_equal(found.with_columns(words), expected.with_columns(words))
    assert_frame_equal(refused, rejects)


def test_only_what_differs_from_the_layout_is_left() -> None:
    page = [f'{name}{{gpu="{gpu}"}} 1' for name in FAMILIES for gpu in range(160)]
    other = [line.replace('"}', '",pod="p"}') for line in page]
    lines = lines_of("\n".join([*page, *other, *page[:100], "power_w 3", *page[101:], "gone 1"]))
    starts = pl.Series([1, 641, 1281])
    found, left = layout.foreseen(lines, starts, pl.Categorical(pl.Categories.random()))
    assert lines.filter(left)["text"].to_list() == [*page[:100], "power_w 3", *page[101:], "gone 1"]
    assert found.height == 1280
    assert found["labels"][640] == 'gpu="0",pod="p"'
