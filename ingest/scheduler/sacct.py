"""Slurm accounting as text: `sacct --parsable2` (also `--parsable`, any delimiter)."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from ..tables.job_attempt import JOB_ATTEMPT
from ..tables.job_step import JOB_STEP
from ._sacct_header import Header, read_header, stated_header
from ._sacct_lines import read_fields
from ._sacct_rows import READ_FIELDS, accounting_rows, attempts, steps
from ._slurm_time import is_zone

TZ = Option("tz", "zone of times that carry none, as an IANA name; sacct prints the zone of its TZ")
COLUMNS = Option(
    "columns", "fields in order, comma separated, of a file collected without a header"
)
DELIMITER = Option("delimiter", "what separates the fields of a file without a header", "|")
DUPLICATES = Option(
    "duplicates",
    "yes if collected with sacct -D, no if without: then earlier attempts of requeued jobs are missing",
)
OBSERVED_AT = Option(
    "observed_at", "when sacct ran, ISO in UTC: until then open jobs are known to run"
)


def looks_like_sacct(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the name tells nothing
    """A first line of known field names with a job id and a state among them, also of what is not read."""
    first, _, more = head.partition(b"\n")
    header = read_header(first.decode("utf-8", "replace").rstrip("\r"))
    if not isinstance(header, Header):
        return first.lstrip().startswith(b"JobID ") and more.startswith(b"----")
    # squeue writes its names in capitals, sacct never does.
    if first == first.upper():
        return False
    return "state" in header.positions and not {"jobid", "jobidraw"}.isdisjoint(header.positions)


@source(
    outputs=(JOB_ATTEMPT, JOB_STEP),
    reads="lines",
    options=(TZ, COLUMNS, DELIMITER, DUPLICATES, OBSERVED_AT),
    sniff=looks_like_sacct,
)
def sacct(lines: pl.DataFrame, context: Context) -> Parsed:
    r"""Slurm `sacct --parsable2` with header, from 20.11 to 26.05: attempts, and steps apart.

    Any fields in any order; the table needs JobID (or JobIDRaw), State and one of Submit, Start, End.
    Times are epoch seconds, ISO with an offset, or ISO without one, which needs `tz`: a zone is never
    guessed. Collect with
    `TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -D --noconvert -P --delimiter=$'\x1f'`, with `--array` where sacct has it.
    `cluster` is the stated one, else the row's, else `default`. Planned/Reserved are not read: waits
    follow from the times. Not read: `sacct` for people (cut values); `--json` is `sacct_json`.
    """
    header = _header(context)
    if isinstance(header, str):
        blank = lines["text"] == ""
        return Parsed({}, rejects(lines.filter(~blank), header), skipped=int(blank.sum()))
    wanted = [name for name in READ_FIELDS if name in header.positions]
    read = read_fields(lines, header, wanted, at_end=context.at_end)
    missing = [pl.lit(None, pl.String).alias(n) for n in READ_FIELDS if n not in wanted]
    rows = accounting_rows(read.rows.with_columns(missing), context, len(wanted))
    is_bad = pl.col("problem").is_not_null()
    bad = rows.filter(is_bad).unique("line_no", maintain_order=True)
    refused = bad.select("line_no", pl.col("problem").alias("reason")).join(
        lines, on="line_no", how="left", maintain_order="left"
    )
    good = rows.filter(~is_bad)
    is_step = pl.col("step").is_not_null()
    return Parsed(
        tables={
            "job_attempt": attempts(good.filter(~is_step), context),
            "job_step": steps(good.filter(is_step)),
        },
        rejects=pl.concat([read.rejects, refused]),
        skipped=read.skipped,
        held_from=read.held_from,
    )


def _header(context: Context) -> Header | str:
    """The file's header, or the stated one; a reason when rows cannot be made with it."""
    header = read_header(context.first_line)
    if isinstance(header, str) and (columns := context.options.get("columns")):
        delimiter = context.options["delimiter"]
        is_trailing = context.first_line.endswith(delimiter)
        header = stated_header(columns, delimiter, is_trailing)
    if isinstance(header, str):
        return header
    has = header.positions
    if "state" not in has or {"jobid", "jobidraw"}.isdisjoint(has):
        return "the file has no JobID or no State: add them to sacct -o"
    if {"submit", "start", "end"}.isdisjoint(has):
        return "the file has no times, so attempts cannot be told apart: add Submit,Start,End to -o"
    zone = context.options.get("tz")
    if zone is not None and not is_zone(zone):
        return f"tz={zone} is no time zone name such as UTC or Europe/Berlin"
    return header
