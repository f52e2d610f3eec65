"""From lines to fields: plain lines as columns, the few others record by record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from fleetmark.source import REJECTS_SCHEMA

from ._delimited import delimiter_counts, split_columns
from ._sacct_header import Header
from ._sacct_records import FREE_TEXT, JOB_ID, Record, records, starts
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
    is_header = pl.col("text").str.strip_prefix("\ufeff") == (header.text or None)
    body = lines.filter(~is_header.fill_null(value=False))
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
    used = {number for record in made for number in record.line_nos}
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

    A plain record whose last column is free text may go on in the run after it: then it joins it.
    """
    numbered = body.with_row_index("at").with_columns(
        is_plain=pl.col("line_no").is_in(plain.to_list())
    )
    other = numbered.filter(~pl.col("is_plain"))
    texts = body["text"]
    numbers = body["line_no"]
    runs: list[list[tuple[int, str]]] = []
    last_at = -2
    for at, line_no, text in other.select("at", "line_no", "text").iter_rows():
        if at != last_at + 1:
            runs.append([])
            ends_free = header.names[-1] in FREE_TEXT and not header.is_trailing
            found = text.count(header.delimiter)
            if at > 0 and text and ends_free and not starts(text, found, True, header):  # noqa: FBT003 - a plain line is full
                runs[-1].append((numbers[at - 1], texts[at - 1]))
        runs[-1].append((line_no, text))
        last_at = at
    return [_without_blank_ends(run) for run in runs]


def _without_blank_ends(run: list[tuple[int, str]]) -> list[tuple[int, str]]:
    while run and not run[0][1]:
        run.pop(0)
    while run and not run[-1][1]:
        run.pop()
    return run


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
    ]
    return pl.DataFrame(bad, schema=REJECTS_SCHEMA, orient="row")
