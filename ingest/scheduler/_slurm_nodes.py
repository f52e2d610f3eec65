"""Slurm's folded lists: node lists (`gpu[01-03,7]-ib,login1`) and array task sets (`1-10:2%5`)."""

from __future__ import annotations

import itertools
import re

import polars as pl

# More nodes than any cluster has; a list that unfolds to more is damaged text.
MAX_NODES = 200_000
NO_NODES = frozenset({"", "None assigned", "(null)", "None", "Unknown", "N/A", "n/a"})

_ENTRY = re.compile(r"(?:[^\[\],\s]|\[[0-9,\-]+\])+")
_PART = re.compile(r"\[([0-9,\-]+)\]|([^\[\],\s]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand_nodes(text: str) -> list[str] | None:
    """Names of a folded node list, in order and each once; None when it cannot be read.

    Grammar: comma list of `text([ranges])*text`, any number of brackets, zero padding taken from the
    start of a range (slurm: src/common/hostlist.c). Names may hold `_`, `.` and `-`.
    """
    names: dict[str, None] = {}
    position = 0
    while True:
        entry = _ENTRY.match(text, position)
        if entry is None:
            return None
        parts: list[list[str]] = []
        for ranges, plain in _PART.findall(entry.group()):
            values = _expand_ranges(ranges) if ranges else [plain]
            if values is None:
                return None
            parts.append(values)
        size = 1
        for values in parts:
            size *= len(values)
        if size + len(names) > MAX_NODES:
            return None
        names |= dict.fromkeys(map("".join, itertools.product(*parts)))
        position = entry.end()
        if position == len(text):
            return list(names)
        if text[position] != ",":
            return None
        position += 1


def _expand_ranges(ranges: str) -> list[str] | None:
    values: list[str] = []
    for piece in ranges.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            return None
        first, last = match.group(1), match.group(2) or match.group(1)
        if not 0 <= int(last) - int(first) < MAX_NODES - len(values):
            return None
        values += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return values


def expand_tasks(text: str, limit: int) -> tuple[list[int], bool] | None:
    """Task indices of a waiting array's set and whether Slurm cut the list short (`...`).

    `text` is what stands between the brackets, such as `1-3,7,10-20:5%4`; `%4` caps how many run at
    once. None when it cannot be read or holds more than `limit` tasks.
    """
    tasks: dict[int, None] = {}
    body, _, _ = text.partition("%")
    is_cut = body.endswith("...")
    if is_cut:
        # The number before the dots may itself be cut off in the middle: leave it out.
        body, _, _ = body.removesuffix("...").rpartition(",")
    for piece in filter(None, body.split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", piece)
        if match is None or (match.group(3) and int(match.group(3)) == 0):
            return None
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        span = range(first, last + 1, int(match.group(3) or 1))
        if not span or len(span) + len(tasks) > limit:
            return None
        tasks |= dict.fromkeys(span)
    return (list(tasks), is_cut) if tasks else None


def node_lists(column: pl.Series) -> pl.DataFrame:
    """`nodes` (expanded; NULL for none) and `readable` for a column of folded lists.

    Each distinct list is expanded once, in Python: about 1 M node names a second on one core.
    """
    distinct = column.unique().drop_nulls()
    expanded = [None if text in NO_NODES else expand_nodes(text) for text in distinct]
    table = pl.DataFrame(
        {
            "text": distinct,
            "nodes": pl.Series(expanded, dtype=pl.List(pl.String)),
            "readable": [
                nodes is not None or text in NO_NODES
                for text, nodes in zip(distinct, expanded, strict=True)
            ],
        },
        schema_overrides={"text": pl.String, "readable": pl.Boolean},
    )
    return (
        column.to_frame("text")
        .join(table, on="text", how="left", maintain_order="left")
        .select("nodes", pl.col("readable").fill_null(value=True))
    )
