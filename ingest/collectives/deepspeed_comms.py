"""Communication log of DeepSpeed."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from ..scheduler._slurm_time import is_zone
from ..tables.collective_rate import COLLECTIVE_RATE
from ._operation_names import operation

_STAMP = r"\[(?P<stamp>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]"
_NUMBER = r"(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|inf)"
_SIZE = r"(?P<size>\d+(?:\.\d+)? ?[KMGTPEZY]?B)"
_SINGLE = (
    r"(?:rank=(?P<rank>\d{1,9}) \| )?comm op: (?P<name>\w+)(?: \| \[Caller Func: \S+\])? \| "
    rf"time \(ms\): (?P<exec_ms>{_NUMBER}) \| msg size: {_SIZE} \| "
    rf"algbw \(Gbps\): (?P<algbw>{_NUMBER}) +\| busbw \(Gbps\): (?P<busbw>{_NUMBER})"
)
_HEADING = r"^\s*(?P<name>[a-z_]+)(?: \| \[Caller Func: \S+\])?\s*$"
_ROW = (
    rf"^\s+{_SIZE}\s+(?P<op_count>\d+)\s+(?P<total_ms>{_NUMBER})\s+(?P<second>{_NUMBER})\s+"
    rf"(?P<third>{_NUMBER})\s+(?P<fourth>{_NUMBER})\s*$"
)
_TITLE = "Comm. Op "
_STRAGGLER = "Total straggler(ms)"
# DeepSpeed writes Gbit/s.
_BYTES_PER_GBIT = 1.25e8
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_NO_TIME = (
    "a summary without a stamped line in front of it: state its time with "
    "--set ts=2026-01-31T12:00:00Z"
)
_NO_TITLE = "a summary's row without title and function above it, or torn from them by another line"
_NO_TZ = "the log's stamps have no time zone: state it with --set tz=UTC or --set tz=Europe/Berlin"


def _looks_like_deepspeed_comms(head: bytes, file_name: str) -> bool:
    del file_name
    return b"| comm op: " in head or (b"Comm. Op " in head and b"Message Size" in head)


@source(
    outputs=(COLLECTIVE_RATE,),
    options=(
        Option("job_id", "job of the log", "unknown"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
        Option("tz", "zone of the log's stamps, as an IANA name"),
        Option("ts", "time of summaries that no stamped line precedes, RFC 3339 with zone"),
    ),
    sniff=_looks_like_deepspeed_comms,
)
def deepspeed_comms(lines: pl.DataFrame, context: Context) -> Parsed:
    """DeepSpeed's communication logger: a line per operation (verbose) and summary tables.

    Read anywhere in a training log, with and without caller's names (debug), and the second table
    with the effect of stragglers (show_straggler). Means leave out a tenth of the values at each
    end, as DeepSpeed prints them. Bandwidths are Gbit/s in the log. DeepSpeed's own algorithm
    bandwidth of an all_reduce counts the message twice and is halved here, so that all functions
    read alike. Sizes are rounded to two decimals of a power of 1024, and so is `size_bytes`.

    A summary has no time: it gets that of the last stamped line in front of it, or `ts`. The logger
    makes every operation synchronous: times hold for the logged run, not for one without it.

    Columnar: 500,000 lines a CPU second.
    """
    problem = _wrong_options(context)
    if problem is not None:
        refused = pl.DataFrame([(0, problem, "")], schema=REJECTS_SCHEMA, orient="row")
        return Parsed({}, refused, lines.height)
    stamped = lines.with_columns(pl.col("text").str.extract(_STAMP).alias("stamp"))
    held_from = None if context.at_end else _held_from(stamped)
    if held_from is not None:
        stamped = stamped.filter(pl.col("line_no") < held_from)
    stamped = stamped.with_columns(
        pl.col("stamp").is_not_null().cum_sum().alias("part"), pl.col("stamp").forward_fill()
    )
    found = _with_values(pl.concat([_singles(stamped), _summaries(stamped)], how="diagonal"))
    timed = _with_times(found, context)
    good = timed.filter(pl.col("reason").is_null())
    bad = timed.filter(pl.col("reason").is_not_null())
    names = [n for n in ("line_no", *COLLECTIVE_RATE.column_names) if n in good.columns]
    return Parsed(
        {COLLECTIVE_RATE.name: good.select(names)},
        rejects(bad, pl.col("reason")),
        stamped.height - timed.height,
        held_from,
    )


def _wrong_options(context: Context) -> str | None:
    zone, attempt = context.options.get("tz"), context.options["attempt"]
    if zone is not None and not is_zone(zone):
        return f"tz={zone} is no time zone name such as UTC or Europe/Berlin"
    if not re.fullmatch(r"[0-9]{1,18}", attempt):
        return f"attempt {attempt!r} is not a number; --set attempt=N"
    return None


def _held_from(stamped: pl.DataFrame) -> int | None:
    """The last stamped line waits with what follows it: a summary belongs to the stamp before. In
    a log without stamps the last title does.
    """
    is_title = pl.col("text").str.contains(_TITLE, literal=True)
    for anchors in (stamped.drop_nulls("stamp"), stamped.filter(is_title)):
        if anchors.height:
            return int(anchors["line_no"][-1])
    return None


def _singles(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines of single operations; those of the kind that do not fit have a reason."""
    marked = lines.filter(pl.col("text").str.contains("comm op: ", literal=True))
    groups = marked.with_columns(pl.col("text").str.extract_groups(_SINGLE).alias("g")).unnest("g")
    return groups.with_columns(
        pl.coalesce("rank", pl.col("text").str.extract(r"\[Rank (\d{1,9})\]")).alias("rank"),
        pl.lit("single").alias("statistic"),
        pl.lit(1, pl.Int64).alias("op_count"),
        pl.when(pl.col("name").is_null())
        .then(pl.lit("an operation that is cut or of an unknown form"))
        .alias("reason"),
    )


def _summaries(lines: pl.DataFrame) -> pl.DataFrame:
    """Rows of summary tables under the function and the title that stand above them."""
    text = pl.col("text")
    is_title = text.str.contains(_TITLE, literal=True)
    heading = pl.when(is_title).then(pl.lit("")).otherwise(text.str.extract(_HEADING))
    straggler = pl.when(is_title).then(text.str.contains(_STRAGGLER, literal=True))
    # Nothing is carried over a stamped line: chunks begin there.
    named = lines.with_columns(
        straggler.forward_fill().over("part").alias("has_straggler"),
        heading.forward_fill().over("part").alias("name"),
        text.str.extract_groups(_ROW).alias("g"),
    ).unnest("g")
    rows = named.filter(pl.col("op_count").is_not_null())
    is_told = pl.col("has_straggler").is_not_null() & (pl.col("name") != "")
    plain = ~pl.col("has_straggler")
    return rows.with_columns(
        pl.lit("mean").alias("statistic"),
        pl.col("op_count").cast(pl.Int64, strict=False),
        pl.when(plain).then("second").otherwise("third").alias("exec_ms"),
        pl.when(plain).then("third").alias("algbw"),
        pl.when(plain).then("fourth").alias("busbw"),
        pl.when(~plain).then("fourth").alias("straggler_ms"),
        pl.when(~is_told.fill_null(value=False)).then(pl.lit(_NO_TITLE)).alias("reason"),
    )


def _with_values(rows: pl.DataFrame) -> pl.DataFrame:
    def number(name: str) -> pl.Expr:
        present = name in rows.columns
        value = (pl.col(name) if present else pl.lit(None, pl.String)).cast(
            pl.Float64, strict=False
        )
        return pl.when(value.is_finite()).then(value)

    def rate(name: str) -> pl.Expr:
        value = number(name)
        # 0.00 is what a barrier, an empty message or a rate below 5 Mbit/s reads.
        return pl.when(value > 0).then(value * _BYTES_PER_GBIT)

    size = pl.col("size").str.extract_groups(r"([\d.]+) ?([A-Z]+)").struct
    power = size.field("2").replace_strict(
        _UNITS, range(len(_UNITS)), default=None, return_dtype=pl.Int64
    )
    function = operation(pl.col("name"))
    twice = pl.when(function == "all_reduce").then(2.0).otherwise(1.0)
    return rows.with_columns(
        function.alias("function"),
        pl.col("size").alias("size_label"),
        (size.field("1").cast(pl.Float64) * pl.lit(1024.0).pow(power)).round().cast(pl.Int64, strict=False)
        .alias("size_bytes"),
        (number("exec_ms") / 1e3).round(9).alias("exec_s"),
        (number("total_ms") / 1e3).round(9).alias("total_s"),
        (number("straggler_ms") / 1e3).round(9).alias("straggler_s"),
        (rate("algbw") / twice).alias("algbw_bytes_per_s"),
        rate("busbw").alias("busbw_bytes_per_s"),
        pl.col("rank").cast(pl.Int32, strict=False),
        pl.coalesce(pl.format("rank {}", "rank"), pl.lit("unknown")).alias("reporter"),
        pl.lit("deepspeed_comms").alias("origin"),
        pl.col("line_no").alias("report_no"),
    )  # fmt: skip


def _with_times(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    zone, stated = context.options.get("tz"), context.options.get("ts")
    local = pl.col("stamp").str.to_datetime("%Y-%m-%d %H:%M:%S,%3f", time_unit="us", strict=False)
    ts = pl.lit(None, pl.Datetime("us"))
    if zone is not None:
        aware = local.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
        ts = aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    given = pl.lit(stated, pl.String).str.to_datetime(
        "%Y-%m-%dT%H:%M:%S%.f%#z", time_unit="us", strict=False
    )
    ts = (
        pl.when(pl.col("stamp").is_null())
        .then(given.dt.convert_time_zone("UTC").dt.replace_time_zone(None))
        .otherwise(ts)
    )
    why = (
        pl.when(pl.col("stamp").is_null()).then(pl.lit(_NO_TIME))
        .when(pl.lit(zone is None)).then(pl.lit(_NO_TZ))
        .otherwise(pl.format("{} is no time in zone {}", "stamp", pl.lit(zone or "")))
    )  # fmt: skip
    return rows.with_columns(
        ts.alias("ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit(context.options["job_id"]).alias("job_id"),
        pl.lit(int(context.options["attempt"]), pl.Int64).alias("attempt"),
    ).with_columns(pl.coalesce("reason", pl.when(pl.col("ts").is_null()).then(why)).alias("reason"))
