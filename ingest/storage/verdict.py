"""What people found out about findings."""

from __future__ import annotations

import polars as pl

from fleetmark.pipeline.files import split_lines
from fleetmark.source import Context, Parsed, source

from .._entries import Entries, EntryError
from ..tables.verdict import VERDICT

_REQUIRED = ("finding_id", "verdict", "actor", "judged_ts")
_ENTRIES = Entries(VERDICT, _REQUIRED, "a finding, a verdict, who gave it and when")
_VERDICTS = ("acknowledged", "true_positive", "false_positive", "benign")


def _looks_like(head: bytes, _file_name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    return all(name.encode() in first for name in _REQUIRED)


@source(outputs=(VERDICT,), reads="document", sniff=_looks_like)
def verdict(content: bytes, context: Context) -> Parsed:
    """Verdicts: CSV with a header line, or JSON lines, with the columns of the table `verdict`.

    finding_id,verdict,actor,judged_ts,note
    uncovered_coverage-0f3a,benign,alice,2026-03-02T10:00:00Z,conversion for release 7
    """
    lines, damaged = split_lines(content, 1)
    first_line = lines["text"][0] if lines.height and lines["line_no"][0] == 1 else ""
    rows, bad, skipped = _ENTRIES.read(lines, first_line, context.options["cluster"], _finish)
    return Parsed({"verdict": rows}, pl.concat([damaged, bad]), skipped)


def _finish(entry: dict[str, object]) -> dict[str, object]:
    if entry["verdict"] not in _VERDICTS:
        raise EntryError(f"verdict {entry['verdict']!r} is none of {', '.join(_VERDICTS)}")
    return entry
