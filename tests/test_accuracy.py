"""Intervals against published tables, aims against rows, and honesty about what is not measured."""

from __future__ import annotations

import tomllib
from datetime import date
from pathlib import Path

import pytest

from fleetmark import accuracy
from fleetmark.accuracy.interval import (
    Measured,
    between,
    exact,
    middle,
    nothing,
    rate,
    resampled,
    share,
)
from fleetmark.errors import InputError

AIMS = Path(__file__).parent.parent / "docs" / "aims.toml"


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        # Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in
        # Medicine 17 (1998) 857, table I, method 3 (Wilson score without correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_equals_the_published_table(hits: int, n: int, low: float, high: float) -> None:
    got = share(hits, n)
    assert got.low == pytest.approx(low, abs=5e-5)
    assert got.high == pytest.approx(high, abs=5e-5)


@pytest.mark.parametrize(("n", "rank"), [(6, 1), (8, 1), (9, 2), (10, 2), (20, 6), (25, 8)])
def test_the_medians_interval_has_the_tabled_ranks(n: int, rank: int) -> None:
    """Ranks of the 95 % sign-test interval, e.g. Conover, Practical Nonparametric Statistics."""
    got = middle([float(v) for v in range(1, n + 1)])
    assert (got.low, got.high) == (rank, n + 1 - rank)


@pytest.mark.parametrize(
    ("events", "low", "high"),
    # Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28 (1936) 437: 95 % limits.
    [(0, 0.0, 3.689), (1, 0.0253, 5.572), (3, 0.619, 8.767), (10, 4.795, 18.39)],
)
def test_poisson_limits_equal_the_published_table(events: int, low: float, high: float) -> None:
    got = rate(events, 2_000, 1_000)
    assert got.low == pytest.approx(low / 2, abs=1e-3)
    assert got.high == pytest.approx(high / 2, rel=1e-3)
    assert got.value == events / 2


def test_resampling_clusters_spans_what_they_differ_by() -> None:
    alike = resampled([(9, 1)] * 5, lambda a, b: a / (a + b), 50)
    assert (alike.value, alike.low, alike.high) == (0.9, 0.9, 0.9)
    unlike = resampled([(10, 0), (8, 2), (9, 1), (7, 3)], lambda a, b: a / (a + b), 40)
    assert unlike.low is not None
    assert unlike.high is not None
    assert 0.7 <= unlike.low < 0.85 < unlike.high <= 1


def test_too_few_values_have_a_median_but_no_interval() -> None:
    got = middle([3.0, 1.0, 2.0])
    assert (got.value, got.low, got.high) == (2.0, None, None)
    assert accuracy.meets(got, "<=", 10) is None
    assert middle([]).value is None


@pytest.mark.parametrize(
    ("got", "comparator", "aim", "met"),
    [
        (share(20, 20), ">=", 0.99, False),  # its worse end is 0.84
        (share(2000, 2000), ">=", 0.99, True),
        (share(0, 100), "<=", 0.001, False),
        (exact(1.0, 15), "=", 1, True),
        (exact(14 / 15, 15), "=", 1, False),
        (between(1.3, 3, 1.1, 1.5), ">=", 1.2, False),
        (nothing("no input"), ">=", 0.5, None),
        (Measured(None), "=", 0, None),
    ],
)
def test_an_aim_is_met_at_the_worse_end_only(
    got: Measured, comparator: str, aim: float, met: bool | None
) -> None:
    assert accuracy.meets(got, comparator, aim) is met


def test_figures_that_nothing_measures_say_so() -> None:
    figures = list(accuracy._rows("mfu", {"unexplained": exact(0.002, 6)}))
    assert len(figures) == len(tomllib.loads(AIMS.read_text())["mfu"])
    unknown = [figure for figure in figures if figure.method == "not measured yet"]
    assert {"goodput_error", "class_error"} <= {figure.figure for figure in unknown}
    for figure in unknown:
        assert (figure.value, figure.met, figure.low, figure.high) == (None, None, None, None)


def test_every_aim_is_complete_and_named_once() -> None:
    aims = tomllib.loads(AIMS.read_text())
    assert set(aims) == set(accuracy.MEASURES)
    for topic in aims.values():
        aimed = [a for a in topic if "value" in a]
        assert all(set(a) == {"figure", "text", "comparator", "value", "unit"} for a in aimed)
        assert all(a["comparator"] in accuracy.COMPARE for a in aimed)
        assert all(set(a) == {"figure", "text", "unit"} for a in topic if a not in aimed)
        assert len({a["figure"] for a in topic}) == len(topic)


def test_an_unknown_topic_is_told() -> None:
    with pytest.raises(InputError, match="there are gpu, rank"):
        accuracy.measure("weather", 1)


def test_the_page_shows_a_missing_figure_as_missing() -> None:
    text = accuracy.section("mfu", accuracy._rows("mfu", {}), 1, date(2026, 11, 30))
    assert (
        "| goodput_error | - | - | 0 | <= 0.01 ratio of the allocation | - | not measured yet |"
        in text
    )


def test_a_section_is_replaced_and_the_others_stay() -> None:
    old = accuracy.page(accuracy.page("", "rank", "## rank\n\none\n"), "gpu", "## gpu\n\ntwo\n")
    assert old.endswith("## gpu\n\ntwo\n\n## rank\n\none\n")
    new = accuracy.page(old, "gpu", "## gpu\n\nthree\n")
    assert new == old.replace("two", "three")


@pytest.mark.long
@pytest.mark.parametrize("topic", ["gpu", "rank", "mfu", "planner", "security"])
def test_measured_figures_are_recomputed_from_logs(topic: str) -> None:
    """Everything published comes out as published; what is sampled has an interval around it."""
    figures = {figure.figure: figure for figure in accuracy.measure(topic, accuracy.PAGE_SEED)}
    published = {"rank": "published_verdicts", "planner": "helios_quartiles"}
    if topic in published:
        assert figures[published[topic]].met
    for figure in figures.values():
        if figure.value is not None and figure.low is not None and figure.high is not None:
            assert figure.low <= figure.value <= figure.high
            assert figure.n > 0
