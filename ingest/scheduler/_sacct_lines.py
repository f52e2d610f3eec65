"""From lines to fields: plain lines as columns, the few others record by record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from fleetmark.source import REJECTS_SCHEMA

from .._delimited import delimiter_counts, split_columns
from ._sacct_header import Header
from ._sacct_records import JOB_ID, Record, records, resolve
from ._slurm_state import STATE_PATTERN


@dataclass(frozen=True, slots=True)
class Fields:
    """`rows`: line_no and the wanted columns as text. `held_from`: see fleetmark.source.Parsed."""

    rows: pl.DataFrame
    rejects: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=REJECTS_SCHEMA))
    skipped: int = 0
    held_from: int | None = None


def read_fields(
    lines: pl.DataFrame, header: Header, wanted: Sequence[str], *, at_end: bool
) -> Fields:
    """Fields of every record that ends in these lines.

    The last record is held back unless the file ends: its comment may go on in the next chunk.
    """
    # A stated header stands in no line; nor does a NUL, which the core has quarantined.
    text = header.text or "\0"
    is_header = (pl.col("text") == text) | (pl.col("text") == f"\ufeff{text}")
    body = lines.filter(~is_header)
    headers = lines.height - body.height
    positions = {name: header.positions[name] for name in wanted}
    as_wide = delimiter_counts(body, header.delimiter) == header.delimiters_per_line
    if header.is_trailing:
        as_wide &= body["text"].str.ends_with(header.delimiter)
    split = split_columns(body.filter(as_wide), header.delimiter, positions)
    plain = split.filter(_looks_right(header))
    if plain.height == body.height:
        return _hold_last(plain, headers, at_end=at_end)
    runs = _runs(body, plain["line_no"], header)
    made = [record for run in runs for record in records(run, header, wanted)]
    used = {
        number
        for record in made
        for number, text in zip(record.line_nos, record.lines, strict=True)
        if text or record.fields is not None
    }
    plain = plain.filter(~pl.col("line_no").is_in(list(used)))
    held_from = None if at_end else _last_start(plain, made)
    if held_from is not None:
        plain = plain.filter(pl.col("line_no") < held_from)
        made = [record for record in made if record.line_nos[0] < held_from]
        headers = lines.filter(is_header & (pl.col("line_no") < held_from)).height
    blank = body.filter(pl.col("text") == "", ~pl.col("line_no").is_in(list(used)))
    if held_from is not None:
        blank = blank.filter(pl.col("line_no") < held_from)
    good = [record for record in made if record.fields is not None]
    rows = pl.DataFrame(
        [{"line_no": r.line_nos[0], **(r.fields or {})} for r in good], schema=split.schema
    ).with_columns(pl.col(pl.String).replace("", None))
    return Fields(
        rows=pl.concat([plain, rows]).sort("line_no"),
        rejects=_rejects(made),
        skipped=headers + blank.height + sum(len(r.line_nos) - 1 for r in good),
        held_from=held_from,
    )


def _looks_right(header: Header) -> pl.Expr:
    job_id = "jobid" if "jobid" in header.positions else "jobidraw"
    return pl.col(job_id).str.contains(f"^{JOB_ID}$") & pl.col("state").str.contains(
        f"^{STATE_PATTERN}$"
    )


def _hold_last(plain: pl.DataFrame, headers: int, *, at_end: bool) -> Fields:
    if at_end or plain.is_empty():
        return Fields(plain, skipped=headers)
    held_from = int(plain["line_no"][-1])
    return Fields(plain[:-1], skipped=headers, held_from=held_from)


def _runs(body: pl.DataFrame, plain: pl.Series, header: Header) -> list[list[tuple[int, str]]]:
    """Runs of neighbouring lines that are no plain records.

    A run that does not begin with a record may be what the plain record before it goes on with, so
    that one joins it. Blank lines at the ends of a run are no part of it.
    """
    numbered = body.with_row_index("at").filter(~pl.col("line_no").is_in(plain.to_list()))
    numbers, texts = body["line_no"], body["text"]
    runs: list[list[int]] = []
    for at in numbered["at"]:
        if not runs or at != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(at)
    found: list[list[tuple[int, str]]] = []
    for run in runs:
        filled = [at for at in run if texts[at]]
        if not filled:
            continue
        first, last = filled[0], filled[-1]
        alone = resolve((first,), (texts[first],), header, ())
        if alone.fields is None and run[0] > 0:
            first = run[0] - 1
        found.append([(numbers[at], texts[at]) for at in range(first, last + 1)])
    return found


def _last_start(plain: pl.DataFrame, made: Sequence[Record]) -> int | None:
    firsts = [record.line_nos[0] for record in made[-1:]]
    if not plain.is_empty():
        firsts.append(int(plain["line_no"][-1]))
    return max(firsts, default=None)


def _rejects(made: Sequence[Record]) -> pl.DataFrame:
    bad = [
        (line_no, record.reason, text)
        for record in made
        if record.fields is None
        for line_no, text in zip(record.line_nos, record.lines, strict=True)
        if text
    ]
    return pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row")
