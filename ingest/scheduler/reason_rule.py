"""Rules that sort reasons of drained nodes, waiting jobs and evictions: Fleetmark's, and your own."""

from __future__ import annotations

from pathlib import Path

import duckdb
import polars as pl

from fleetmark.source import Context, Parsed, source

from .._entries import Entries, EntryError
from ..tables.reason_rule import KINDS, REASON_RULE

_ENTRIES = Entries(
    REASON_RULE, ("kind", "pattern", "rank", "class"), "a kind, a pattern, a rank and a class"
)


def _looks_like_rules(head: bytes, _file_name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    return all(name in first for name in (b"kind", b"pattern", b"rank", b"class"))


@source(
    outputs=(REASON_RULE,),
    sniff=_looks_like_rules,
    packaged=(Path(__file__).with_suffix(".json"),),
)
def reason_rule(lines: pl.DataFrame, context: Context) -> Parsed:
    r"""Rules about reasons: CSV with a header line (RFC 4180), or JSON lines; a rule a line.

    Fields are the columns of reason_rule under their names, in any order. `kind`, `pattern`, `rank` and
    `class` must be there.

        kind,pattern,rank,class,is_planned,source
        node,rack move,1,planned_maintenance,true,fleet team 2026-11-02

    Fleetmark's own rules are read with the first ingest into a store, and again when they change.
    """
    rows, bad, skipped = _ENTRIES.read(lines, context.first_line, "", _finish)
    return Parsed({"reason_rule": rows}, bad, skipped)


def _finish(rule: dict[str, object]) -> dict[str, object]:
    if rule["kind"] not in KINDS:
        raise EntryError(f"kind {rule['kind']!r} is none of {', '.join(KINDS)}")
    pattern = str(rule["pattern"])
    with duckdb.connect() as connection:
        try:
            connection.execute("SELECT regexp_matches('', $1)", [pattern])
        except duckdb.Error as error:
            problem = str(error).splitlines()[0]
            raise EntryError(f"pattern {pattern!r} is no regular expression: {problem}") from None
    return rule
