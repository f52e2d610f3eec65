"""What stands before the values of pages that follow each other, foreseen.

An exporter prints the same metrics in the same order on every page; from host to host and from pod
to pod only the few label texts change, which repeat over the metrics. So of each page those label
texts are read where they first occur, and what its lines begin with is put together from them and
from the metrics of the first page. A line that begins so needs no cut: its value is the rest. Any
other line (a metric more or less, another order, a damaged line) is left to `_exposition_lines`,
so that a wrong guess costs time and never changes a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import polars as pl

from ._exposition import NAME, labels_of
from ._exposition_cut import SAMPLES_SCHEMA, cut_lines, with_numbers

# Fewer lines, or labels that repeat less often, are not worth a guess.
_LEAST_LINES = 1000
_LEAST_REPEATS = 3


@dataclass(frozen=True, eq=False)
class _Lines:
    """Metric and number of the label text of each line of a page; the same object for the same ones."""

    names: tuple[str, ...]
    slots: tuple[int, ...]


@lru_cache(maxsize=1 << 4)
def _lines(names: tuple[str, ...], slots: tuple[int, ...]) -> _Lines:
    return _Lines(names, slots)


# Hosts print the same label texts in chunk after chunk. 256 pages of 480 lines of 330 bytes are 40 MB.
@lru_cache(maxsize=1 << 8)
def _openings(lines: _Lines, labels: tuple[str | None, ...]) -> pl.Series:
    """What the lines of a page with these label texts begin with; NULL where there is none."""
    each = ((name, labels[slot]) for name, slot in zip(lines.names, lines.slots, strict=True))
    openings = [None if text is None else f"{name}{{{text}}} " for name, text in each]
    return pl.Series(openings, dtype=pl.String)


class _Layout(NamedTuple):
    """What pages of one length are thought to hold.

    names  the metric on each line
    slots  number of the label text on each line
    first  the lines on which the label texts first occur
    """

    names: pl.Series
    slots: pl.Series
    first: pl.Series


def foreseen(
    lines: pl.DataFrame, page_starts: pl.Series, category: pl.DataType
) -> tuple[pl.DataFrame, pl.Series]:
    """The lines that begin as foreseen, as samples in SAMPLES_SCHEMA whose names and labels are
    categories; and for each line whether it is left.

    `page_starts` are the line numbers at which pages begin, the first of `lines` left out.
    """
    found = [pl.DataFrame(schema=SAMPLES_SCHEMA | dict.fromkeys(("name", "labels"), category))]
    left = pl.Series([True]).new_from_index(0, lines.height)
    pages = page_starts.search_sorted(lines["line_no"], side="right").rle().struct.unnest()
    pages = pages.select(length="len", at=pl.col("len").cum_sum().cast(pl.Int64) - pl.col("len"))
    for (length,), alike in pages.group_by("length", maintain_order=True):
        if alike.height == 1 or alike.height * length < _LEAST_LINES:
            continue
        layout = _layout(lines.slice(alike["at"][0], length))
        if layout is not None:
            samples, rows = _read(lines, alike["at"], layout, category)
            left = left.scatter(rows, False)  # noqa: FBT003 - a value, no switch
            found.append(samples)
    return pl.concat(found), left


def _layout(page: pl.DataFrame) -> _Layout | None:
    """The layout of a page whose lines are all cut as samples with labels; None of any other."""
    cut = cut_lines(page)
    names, labels = cut["name"], cut["labels"]
    if names.has_nulls() or labels.has_nulls():
        return None
    numbers = {text: number for number, text in enumerate(labels.unique(maintain_order=True))}
    if len(numbers) * _LEAST_REPEATS > labels.len():
        return None
    if not all(NAME.fullmatch(name) for name in names.unique()):
        return None
    slots = pl.Series([numbers[text] for text in labels], dtype=pl.Int64)
    return _Layout(names, slots, slots.arg_unique().sort().cast(pl.Int64))


def _read(
    lines: pl.DataFrame, at: pl.Series, layout: _Layout, category: pl.DataType
) -> tuple[pl.DataFrame, pl.Series]:
    """Samples of the pages that begin at `at`, of the lines that begin as foreseen; and those lines."""
    length, width = layout.names.len(), layout.first.len()
    page, slot = _places(at.len(), width)
    labels = cut_lines(lines[at.gather(page) + layout.first.gather(slot)])["labels"]
    wrong = [text for text in labels.unique().drop_nulls() if labels_of(text) is None]
    labels = labels.set(labels.is_in(wrong), None)
    coded = labels.cast(category)
    kind, first_pages = _kinds(coded.to_physical().to_list(), width)
    # Pages with the same label texts begin their lines alike: those are put together once.
    page, line = _places(first_pages.len(), length)
    label = first_pages.gather(page) * width + layout.slots.gather(line)
    shape, texts = _lines(tuple(layout.names), tuple(layout.slots)), labels.to_list()
    openings = pl.concat(
        [_openings(shape, tuple(texts[n * width : (n + 1) * width])) for n in first_pages],
        rechunk=True,
    )
    page, line = _places(at.len(), length)
    opening = kind.gather(page) * length + line
    rows = at.gather(page) + line
    cut = (
        lines[rows]
        .select_seq(
            "line_no",
            layout.names.cast(category).gather(line).alias("name"),
            coded.gather(label.gather(opening)).alias("labels"),
            openings.gather(opening).alias("opening"),
            "text",
        )
        .with_columns_seq(value_text=pl.col("text").str.strip_prefix(pl.col("opening")))
    )
    sizes = [cut[part].str.len_bytes() for part in ("opening", "value_text", "text")]
    samples = with_numbers(cut)
    fits = (sizes[0] + sizes[1] == sizes[2]) & samples["value"].is_not_null()
    if fits.all() and not fits.has_nulls():
        return samples, rows
    return samples.filter(fits), rows.filter(fits)


def _places(count: int, length: int) -> tuple[pl.Series, pl.Series]:
    """`count` times `length` things, one after another: which of the `count` each is in, and where."""
    number = pl.int_range(count * length, eager=True)
    return number // length, number % length


def _kinds(codes: list[int | None], width: int) -> tuple[pl.Series, pl.Series]:
    """A number for each page by its `width` codes, and the first page of each number."""
    kinds: dict[tuple[int | None, ...], int] = {}
    first: list[int] = []
    kind = []
    for page, start in enumerate(range(0, len(codes), width)):
        number = kinds.setdefault(tuple(codes[start : start + width]), len(kinds))
        if number == len(first):
            first.append(page)
        kind.append(number)
    return pl.Series(kind, dtype=pl.Int64), pl.Series(first, dtype=pl.Int64)
