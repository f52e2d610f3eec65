"""Figures against aims, recomputed on a given seed every time; nothing here prints a stored value.

Aims lie in docs/aims.toml. Each topic that can be measured is one file of this folder with a
function `measured(seed, folder) -> {figure: Measured}`; aims without a measured figure are shown
without a value.
"""

from __future__ import annotations

import operator
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fleetmark.accuracy import gpu, mfu, planner, rank, security, speed
from fleetmark.accuracy.interval import Measured
from fleetmark.errors import InputError

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGE_SEED = 1001

MEASURES: Mapping[str, Callable[[int, Path], Mapping[str, Measured]]] = {
    "gpu": gpu.measured,
    "rank": rank.measured,
    "mfu": mfu.measured,
    "planner": planner.measured,
    "security": security.measured,
    "speed": speed.measured,
}
# What the page is made with, where a topic has a larger size for it.
FULL = {**MEASURES, "gpu": gpu.measured_in_full, "rank": rank.measured_in_full}
COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "<": operator.lt,
    "=": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure and its aim.

    value, low, high   None where nothing was measured
    met                judged at the interval's worse end; None where that is unknown
    method             how the interval was found, or that nothing was measured
    """

    figure: str
    value: float | None
    aim: str
    met: bool | None
    n: int
    low: float | None
    high: float | None
    method: str
    topic: str


def measure(topic: str | None, seed: int, *, full: bool = False) -> list[Figure]:
    """Recompute the figures of one topic, or of all. Raises InputError for an unknown topic.

    `full` takes the size of the page, which for some topics is a matter of a quarter of an hour.
    """
    if topic is not None and topic not in MEASURES:
        raise InputError(f"no topic {topic}; there are {', '.join(MEASURES)}")
    rows: list[Figure] = []
    for name in [topic] if topic else MEASURES:
        with tempfile.TemporaryDirectory(prefix="fleetmark-accuracy-") as folder:
            found = (FULL if full else MEASURES)[name](seed, Path(folder))
        rows += _rows(name, found)
    return rows


def _rows(topic: str, found: Mapping[str, Measured]) -> Iterable[Figure]:
    aims = {aim["figure"]: aim for aim in _aims()[topic]}
    if unknown := set(found) - set(aims):
        raise InputError(f"docs/aims.toml has no aim for {', '.join(sorted(unknown))} of {topic}")
    for name, aim in aims.items():
        got = found.get(name, Measured(None))
        yield Figure(
            figure=name,
            value=got.value,
            aim=f"{aim['comparator']} {aim['value']} {aim['unit']}" if "value" in aim else "-",
            met=meets(got, aim["comparator"], aim["value"]) if "value" in aim else None,
            n=got.n,
            low=got.low,
            high=got.high,
            method=got.method,
            topic=topic,
        )


def meets(got: Measured, comparator: str, aim: float) -> bool | None:
    """Whether the aim holds at both ends of the interval; None when an end is unknown."""
    if got.low is None or got.high is None:
        return None
    return COMPARE[comparator](got.low, aim) and COMPARE[comparator](got.high, aim)


@cache
def _aims() -> Mapping[str, list[dict[str, Any]]]:
    path = DOCS / "aims.toml"
    if not path.exists():
        raise InputError(
            f"{path} is missing: run `fleetmark accuracy` in a checkout of the project"
        )
    return tomllib.loads(path.read_text(encoding="utf-8"))


def write_page(seed: int = PAGE_SEED) -> Path:
    """Recompute everything and write docs/accuracy.md."""
    figures = measure(None, seed, full=True)
    path = DOCS / "accuracy.md"
    path.write_text(page(figures, seed), encoding="utf-8")
    return path


def page(figures: Iterable[Figure], seed: int) -> str:
    """The text of docs/accuracy.md."""
    head = (
        "| figure | value | 95 % interval | n | aim | met | method |\n|---|---|---|---|---|---|---|"
    )
    rows = list(figures)
    topics = [f"## {topic}\n\n{head}\n" + "\n".join(_line(f) for f in rows if f.topic == topic)
              for topic in MEASURES]  # fmt: skip
    return (
        "# Accuracy\n\n"
        f"Written by `fleetmark accuracy --write --seed {seed}`; do not edit. Every value was "
        "recomputed for this page; simulated fleets use the seed and those after it, which nothing "
        "was tuned on. `met` is judged at the interval's worse end, so a perfect score on few trials "
        "does not meet a high aim. The aims' own words are in [aims.toml](aims.toml).\n\n"
        + "\n\n".join(topics)
        + "\n"
    )


def _line(row: Figure) -> str:
    shown = "-" if row.low is None or row.high is None else f"{row.low:.4g} to {row.high:.4g}"
    met = {True: "yes", False: "no", None: "-"}[row.met]
    value = "-" if row.value is None else f"{row.value:.4g}"
    return f"| {row.figure} | {value} | {shown} | {row.n} | {row.aim} | {met} | {row.method} |"
