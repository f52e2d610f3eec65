"""Figures against aims, recomputed on a given seed every time; nothing here prints a stored value.

Aims lie in docs/aims.toml. Each topic that can be measured is one file of this folder with a
function `measured(seed, folder) -> {figure: Measured}`; aims without a measured figure are shown
without a value.
"""

from __future__ import annotations

import operator
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from fleetmark.accuracy import gpu, mfu, planner, rank, security, speed
from fleetmark.accuracy.interval import Measured
from fleetmark.errors import InputError

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
PAGE_SEED = 1001
HEAD = """# Accuracy

Written by the commands below; do not edit. Simulated fleets use the seed and those after it, which
nothing was tuned on. `met` is judged at the interval's worse end, so a perfect score on few trials does
not meet a high aim. The aims' own words are in [aims.toml](aims.toml). A topic that is missing here has
not been measured at full size since its rules last changed; the command measures it.

"""

MEASURES: Mapping[str, Callable[[int, Path], Mapping[str, Measured]]] = {
    "gpu": gpu.measured,
    "rank": rank.measured,
    "mfu": mfu.measured,
    "planner": planner.measured,
    "security": security.measured,
    "speed": speed.measured,
}
# What the page is made with, where a topic has a larger size for it.
FULL = {**MEASURES, "gpu": gpu.measured_in_full, "rank": rank.measured_in_full,
        "mfu": mfu.measured_in_full, "security": security.measured_in_full}  # fmt: skip
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


def write_page(topic: str | None, seed: int, day: date) -> Path:
    """Recompute one topic, or all, at full size and put its section into docs/accuracy.md."""
    path = DOCS / "accuracy.md"
    for name in [topic] if topic else MEASURES:
        figures = measure(name, seed, full=True)
        old = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(page(old, name, section(name, figures, seed, day)), encoding="utf-8")
    return path


def page(old: str, topic: str, new: str) -> str:
    """The text of docs/accuracy.md with the section of one topic replaced, the others as they were."""
    found = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", old, re.MULTILINE | re.DOTALL)
    kept = {name: f"## {name}\n{text.rstrip()}\n" for name, text in found}
    sections = {**kept, topic: new}
    return HEAD + "\n".join(sections[name] for name in MEASURES if name in sections)


def section(topic: str, figures: Iterable[Figure], seed: int, day: date) -> str:
    """One topic's figures as a Markdown table."""
    head = (
        "| figure | value | 95 % interval | n | aim | met | method |\n|---|---|---|---|---|---|---|"
    )
    return (
        f"## {topic}\n\n`fleetmark accuracy {topic} --write --seed {seed}`, {day}.\n\n{head}\n"
        + "\n".join(_line(figure) for figure in figures)
        + "\n"
    )


def _line(row: Figure) -> str:
    shown = "-" if row.low is None or row.high is None else f"{row.low:.4g} to {row.high:.4g}"
    met = {True: "yes", False: "no", None: "-"}[row.met]
    value = "-" if row.value is None else f"{row.value:.4g}"
    return f"| {row.figure} | {value} | {shown} | {row.n} | {row.aim} | {met} | {row.method} |"
