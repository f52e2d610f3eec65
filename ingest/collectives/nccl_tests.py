"""Result tables of nccl-tests."""

from __future__ import annotations

import re
from datetime import datetime

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from ..tables.collective_bench import COLLECTIVE_BENCH
from ..telemetry._scrape_pages import read_time
from ._nccl_tests_json import REPORT, read_reports
from ._nccl_tests_runs import FUNCTIONS, SPELLINGS, function_of, marked, run_facts

_FIGURE = r"(?:\s+(?:[-+]?\d[\d.]*(?:[eE][-+]?\d+)?|N/A|[-+]?nan|[-+]?inf))"
_LABELS = (
    r"(?:^|[\s:>])(\d{1,19})\s+(\d{1,19})\s+([A-Za-z]\w*)(?:\s+([A-Za-z]\w*))?(?:\s+(-?\d{1,9}))?"
)
_LOOKS_LIKE_ROW = r"(?:^|[\s:>])\d+\s+\d+\s+[A-Za-z]\w*\s"
_ROW = (
    rf"{_LABELS}({_FIGURE}{{8}}|{_FIGURE}{{16}})"
    r"(?:\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)?\s*$"
)
_SNIFF = re.compile(
    rb"#\s+size\s+count\s+type\s.*\b(?:time|cputime)\s+algbw\s+busbw"
    rb"|# Collective test starting: \w+_perf"
    rb'|^\s*\{\s*"version"\s*:\s*\d+\s*,\s*"start_time".*_perf"'
)
_NOT_READ = "a result row that does not end in 8 figures (16 with per-iteration times)"
_NO_FUNCTION = (
    "the output does not say which function it measures: state --set function=NAME, one of "
    + ", ".join(FUNCTIONS.values())
)
_PLACEMENTS = ("out_of_place", "in_place")


@source(
    outputs=(COLLECTIVE_BENCH,),
    options=(
        Option("function", "function measured, where neither the output nor the file's name says"),
        Option("job_id", "job that ran the benchmark", "unknown"),
        Option("ts", "when it ran, which the table does not say: RFC 3339 with zone or epoch s"),
    ),
    name_facts=rf"(?i)(?:^|[^a-z])(?P<function>{SPELLINGS})(?:[^a-z]|$)",
    sniff=lambda head, file_name: bool(_SNIFF.search(head)),
)
def nccl_tests(lines: pl.DataFrame, context: Context) -> Parsed:
    """Result tables of nccl-tests and rccl-tests, alone or inside the output of a job.

    Read: rows of 11 (no reduction, until 2022), 12 (reduction or root) and 13 labels and figures;
    per-iteration layouts (four more figures per placement, which are not kept); a time of day
    behind the row (local without zone: not used). Labels are taken from the left, figures from
    the right, anywhere in the line, so prefixes of launchers do no harm. A file may hold several
    runs.

    The function is the program that the run names, or its command line in front of it, or stated,
    or in the file's name; it is never guessed. Ranks and hosts come from the list of devices.
    `N/A`, `nan` and `inf` are NULL; times are microseconds and bandwidths GB/s in the output. The
    check column is wrong elements (`#wrong`) or a deviation (`error`), as its heading says.

    The JSON file of `-J` is read too; its local start time without zone and its copy of the
    environment are not, and a report longer than 1 MiB (times per iteration) is a reject.

    Not read: rows with one placement only (trace replay), which do not say which. Other lines are
    skipped; a run is turned into rows as a whole, so the last one is held until the file ends.
    """
    is_report = pl.col("text").str.contains(REPORT)
    found = marked(lines.filter(~is_report), _LOOKS_LIKE_ROW)
    held_from = None
    if not context.at_end and found.height:
        held_from = int(found.filter(pl.col("run") == pl.col("run").max())["line_no"][0])
        lines = lines.filter(pl.col("line_no") < held_from)
        found = found.filter(pl.col("line_no") < held_from)
    rows = _judged(found, context)
    bad = rows.filter(pl.col("reason").is_not_null())
    stated = context.options.get("function", "")
    reported, unread = read_reports(
        lines.filter(is_report), stated, _NO_FUNCTION, _wrong_time(context)
    )
    printed = _placed(rows.filter(pl.col("reason").is_null()))
    good = pl.concat([printed, reported], how="diagonal_relaxed").with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit(context.options["job_id"]).alias("job_id"),
        pl.lit(_time(context), dtype=pl.Datetime("us")).alias("ts"),
    )
    return Parsed(
        {COLLECTIVE_BENCH.name: good},
        pl.concat([rejects(bad, pl.col("reason")), unread]).sort("line_no"),
        lines.height - rows.height - reported["line_no"].n_unique() - unread.height,
        held_from,
    )


def _time(context: Context) -> datetime | None:
    ts = context.options.get("ts")
    return read_time(ts) if ts else None


def _wrong_time(context: Context) -> str | None:
    """What is wrong with the stated time, if anything."""
    ts = context.options.get("ts")
    if not ts or read_time(ts):
        return None
    return f"option ts {ts!r} is no time: write 2026-03-20T12:23:43Z or seconds since 1970"


def _judged(found: pl.DataFrame, context: Context) -> pl.DataFrame:
    """Result rows with the facts of their run and, in `reason`, what keeps one out of the table.

    A line that only looks like a row is one where a run has begun; elsewhere it is other output.
    """
    stated = pl.lit(context.options.get("function"), dtype=pl.String)
    is_row = pl.col("text").str.contains(_ROW)
    reason = pl.coalesce(
        pl.when(~is_row).then(pl.lit(_NOT_READ)),
        pl.when(pl.col("function").is_null()).then(pl.lit(_NO_FUNCTION)),
        pl.lit(_wrong_time(context), dtype=pl.String),
    )
    return (
        found.filter(pl.col("kind") == "row")
        .join(run_facts(found), on="run", how="left", maintain_order="left")
        .filter(is_row | pl.col("is_headed"))
        .with_columns(pl.coalesce("function", function_of(stated)).alias("function"))
        .with_columns(reason.alias("reason"))
    )


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Two rows of the table, one per placement, from each line."""
    text = pl.col("text")
    names = ("size_bytes", "count", "dtype", "redop", "root", "figures")
    labelled = rows.with_columns(
        *(text.str.extract(_ROW, number).alias(name) for number, name in enumerate(names, 1)),
        pl.int_range(1, pl.len() + 1).over("run").alias("row_no"),
    ).with_columns(pl.col("figures").str.extract_all(r"\S+"))
    return pl.concat(
        labelled.select(
            "line_no", "run_id", "function", "row_no", "dtype", "time_source",
            "n_ranks", "group_count", "nodes", "gpu_models",
            pl.lit(placement).alias("placement"),
            pl.col("size_bytes", "count").cast(pl.Int64, strict=False),
            pl.when(pl.col("redop") != "none").then("redop").alias("redop"),
            pl.when(~pl.col("root").str.starts_with("-")).then("root")
            .alias("root").cast(pl.Int32, strict=False),
            *_measured(half),
        )
        for half, placement in enumerate(_PLACEMENTS)
    )  # fmt: skip


def _measured(half: int) -> tuple[pl.Expr, ...]:
    """Time, bandwidths and check of the first or the second half of the figures."""
    start = pl.col("figures").list.len() // 2 * half

    def figure(offset: int) -> pl.Expr:
        number = pl.col("figures").list.get(start + offset).cast(pl.Float64, strict=False)
        return pl.when(number.is_finite()).then(number)

    check = figure(3)
    return (
        # Rounded to ns: Polars divides a single value and many with different last bits.
        (figure(0) / 1e6).round(9).alias("time_s"),
        (figure(1) * 1e9).round().alias("algbw_bytes_per_s"),
        (figure(2) * 1e9).round().alias("busbw_bytes_per_s"),
        pl.when("has_wrong").then(check).cast(pl.Int64, strict=False).alias("wrong_count"),
        pl.when("has_error").then(check).alias("max_error"),
    )
