"""Rules about failures, as rows: Fleetmark's collection, and your own."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._entries import Entries, EntryError
from ..tables.failure_rule import CONFIDENCE, DOMAINS, EVIDENCE, FAILURE_RULE

_ALLOWED = {"evidence": EVIDENCE, "failure_domain": DOMAINS, "confidence": CONFIDENCE}
_ENTRIES = Entries(
    FAILURE_RULE,
    ("evidence", "value", "failure_domain", "confidence", "precedence"),
    "evidence, value, failure domain, confidence and precedence",
)


def _looks_like_rules(head: bytes, _file_name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    return all(name in first for name in (b"evidence", b"failure_domain", b"precedence"))


@source(
    outputs=(FAILURE_RULE,),
    sniff=_looks_like_rules,
    packaged=(Path(__file__).with_suffix(".json"),),
)
def failure_rule(lines: pl.DataFrame, context: Context) -> Parsed:
    """Failure domains of signs: CSV with a header line (RFC 4180), or JSON lines; a rule a line.

    Fields are the columns of failure_rule under their names, in any order. A rule for the same evidence
    and value with a later recorded_ts replaces the one that ships.

        evidence,value,failure_domain,confidence,precedence,recorded_ts
        state,FAILED,user,low,10,2026-11-30

    Fleetmark's own collection is read with the first ingest into a store, and again when it changes.
    """
    rows, bad, skipped = _ENTRIES.read(lines, context.first_line, "", _finish)
    return Parsed({FAILURE_RULE.name: rows}, bad, skipped)


def _finish(rule: dict[str, object]) -> dict[str, object]:
    for name, allowed in _ALLOWED.items():
        if rule[name] not in allowed:
            raise EntryError(f"{name} {rule[name]!r} is none of {', '.join(allowed)}")
    return rule
