"""NCCL Inspector records."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from ..tables.collective_perf import COLLECTIVE_PERF
from ._nccl_inspector_records import read_records
from ._operation_names import operation

# Longer is no measurement: kernel times that end before they start wrap to 2^64 us, and some
# versions do that after every broadcast (NVIDIA/nccl pull request 2368).
MAX_EXEC_S = 86_400.0
# 2000 to 2100 in microseconds since 1970: outside of it the unit is another one.
EARLIEST_US, LATEST_US = 946_684_800_000_000, 4_102_444_800_000_000
_NO_MARKER = (
    "a record without header and metadata, and no readable marker of its dump in front of it"
)
_REQUIRED = {
    "comm_id": "header.id",
    "comm_rank": "header.rank",
    "node": "metadata.hostname",
    "pid": "metadata.pid",
    "dump_us": "metadata.dump_timestamp_us",
    "operation": "coll or p2p",
    "seq": "coll_sn or p2p_sn",
}


def _looks_like_inspector(head: bytes, file_name: str) -> bool:
    del file_name
    return head.lstrip()[:1] == b"{" and b'"inspector_output_format_version"' in head


@source(
    outputs=(COLLECTIVE_PERF,),
    options=(
        Option(
            "job_id",
            "job the process belongs to; the recorder names only a folder by it",
            "unknown",
        ),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
    ),
    sniff=_looks_like_inspector,
)
def nccl_inspector(lines: pl.DataFrame, context: Context) -> Parsed:
    """NCCL Inspector JSON lines (one file per process), NCCL 2.28.3 to 2.30, formats v4.0 to v4.3.

    Fields are known by their names, not by the version, which stayed v4.0 while they changed:
    `coll_perf` (all), `p2p_perf` (from 2.30.3), algorithm and protocol (v4.2). Markers
    (`dump_stats`) are skipped. Records without header and metadata (v4.3) take those of the last
    marker in front of them; the last dump of a chunk is held until it is complete, so that none
    loses its marker. Where the marker is damaged or missing they are rejects, never another
    communicator's. A dump of more than 64 MiB would lose it too.

    Times are microseconds and bandwidths GB/s in the file. `nan` (a string there), infinity and
    bandwidths of 0 (functions without a formula) are NULL; `busbw_computed_bytes_per_s` has a value
    for those too. A duration of 0 is none (NULL). Negative durations and those above a
    day are rejects: the sequence number then counts as missing. So are records of a rank that its
    communicator cannot have.

    Not read: per-channel traces of the verbose form, proxy operations (skipped), drop counters,
    the Prometheus form. Columnar: DuckDB decodes a chunk's JSON at once, 100,000 records (45 MB) a
    CPU second.
    """
    attempt = context.options["attempt"]
    if not re.fullmatch(r"[0-9]{1,18}", attempt):
        reason = f"attempt {attempt!r} is not a number; --set attempt=N"
        refused = pl.DataFrame([(0, reason, "")], schema=REJECTS_SCHEMA, orient="row")
        return Parsed({}, refused, lines.height)
    blank = pl.col("text").str.strip_chars() == ""
    written = lines.filter(~blank)
    records = read_records(written)
    held_from = None
    markers = records.filter("is_marker")
    if not context.at_end and markers.height:
        held_from = int(markers["line_no"][-1])
        lines = lines.filter(pl.col("line_no") < held_from)
        records = records.filter(pl.col("line_no") < held_from)
    rows = _typed(records.filter(~_is_silent()))
    good = rows.filter(pl.col("reason").is_null())
    bad = rows.filter(pl.col("reason").is_not_null())
    return Parsed(
        {
            COLLECTIVE_PERF.name: good.select(
                "line_no",
                *(name for name in COLLECTIVE_PERF.column_names if name in good.columns),
                pl.lit(context.options["cluster"]).alias("cluster"),
                pl.lit(context.options["job_id"]).alias("job_id"),
                pl.lit(int(attempt), pl.Int64).alias("attempt"),
            )
        },
        rejects(bad, pl.col("reason")),
        lines.height - rows.height,
        held_from,
    )


def _is_silent() -> pl.Expr:
    """Markers and proxy operations: read, and no row of the table."""
    return pl.col("is_marker") | (
        pl.col("has_proxy_trace") & ~pl.col("has_coll_perf") & ~pl.col("has_p2p_perf")
    )


def _typed(records: pl.DataFrame) -> pl.DataFrame:
    """The table's columns, and in `reason` what keeps a record out of it."""

    def either(collective: str, p2p: str) -> pl.Expr:
        return pl.when("has_p2p_perf").then(p2p).otherwise(collective)

    def number(text: pl.Expr) -> pl.Expr:
        value = text.cast(pl.Float64, strict=False)
        return pl.when(value.is_finite()).then(value)

    def bandwidth(text: pl.Expr) -> pl.Expr:
        value = number(text)
        return pl.when(value > 0).then((value * 1e9).round())

    def whole(text: pl.Expr, kind: type[pl.DataType], least: int = 0) -> pl.Expr:
        value = text.cast(kind, strict=False)
        return pl.when(value >= least).then(value)

    typed = records.with_columns(
        pl.col("has_p2p_perf").alias("is_p2p"),
        either("coll", "p2p").alias("operation"),
        pl.col("comm_id").str.to_lowercase(),
        *(whole(pl.col(name), pl.Int32).alias(name) for name in ("comm_rank", "p2p_peer")),
        *(whole(pl.col(name), pl.Int32, 1).alias(name) for name in ("n_ranks", "n_nodes")),
        *(whole(pl.col(name), pl.Int64).alias(name) for name in ("pid", "dump_us")),
        whole(either("coll_seq", "p2p_seq"), pl.Int64).alias("seq"),
        whole(either("coll_size", "p2p_size"), pl.Int64).alias("size_bytes"),
        either("coll_us", "p2p_us").alias("exec_us"),
        # Rounded to ns: Polars divides a single value and many with different last bits.
        (number(either("coll_us", "p2p_us")) / 1e6).round(9).replace(0.0, None).alias("exec_s"),
        either("coll_timing", "p2p_timing").alias("timing_source"),
        bandwidth(either("coll_algbw", "p2p_algbw")).alias("algbw_bytes_per_s"),
        bandwidth(either("coll_busbw", "p2p_busbw")).alias("busbw_bytes_per_s"),
        *(
            pl.when(pl.col(name) != "unknown").then(name).alias(name)
            for name in ("comm_name", "algorithm", "protocol")
        ),
    )
    return typed.with_columns(
        operation(pl.col("operation")).alias("function"),
        pl.from_epoch("dump_us", time_unit="us").alias("dump_ts"),
        _reason().alias("reason"),
    ).with_columns(_computed_busbw().alias("busbw_computed_bytes_per_s"))  # fmt: skip


# Bytes that cross a rank's busiest link, by the recorded size (nccl-tests doc/PERFORMANCE.md; the
# recorder's size is the argument of the call, which for these functions is one rank's share).
_SHARED = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_WHOLE = ("broadcast", "reduce", "send", "recv")


def _computed_busbw() -> pl.Expr:
    """Bus bandwidth by the documented factors, also where the recorder has no formula."""
    size, n_ranks = pl.col("size_bytes"), pl.col("n_ranks")
    function = pl.col("function")
    moved = (
        pl.when(function == "all_reduce").then(size * 2.0 * (n_ranks - 1) / n_ranks)
        .when(function.is_in(_SHARED)).then(size * 1.0 * (n_ranks - 1))
        .when(function.is_in(_WHOLE)).then(size * 1.0)
    )  # fmt: skip
    return pl.when(pl.col("exec_s") > 0).then((moved / pl.col("exec_s")).round())


def _reason() -> pl.Expr:
    """Why a typed record is no row; NULL if it is one."""
    lost = pl.col("is_bare") & pl.col("comm_id").is_null()
    is_blank = {"comm_id": ["", "0x"], "node": [""], "operation": [""]}
    both = pl.col("has_coll_perf") & pl.col("has_p2p_perf")
    exec_s = pl.col("exec_s")
    return pl.coalesce(
        pl.when(~pl.col("is_object")).then(pl.lit("not a JSON object: damaged or cut")),
        pl.when(~pl.col("has_payload")).then(pl.lit("neither a record nor a marker of a dump")),
        pl.when(both).then(pl.lit("both coll_perf and p2p_perf in one record")),
        pl.when(lost).then(pl.lit(_NO_MARKER)),
        *(
            pl.when(pl.col(name).is_null() | pl.col(name).is_in(is_blank.get(name, []))).then(
                pl.lit(f"{path} is missing or no such value")
            )
            for name, path in _REQUIRED.items()
        ),
        pl.when(pl.col("comm_rank") >= pl.col("n_ranks")).then(
            pl.format("rank {} of a communicator of {}", "comm_rank", "n_ranks")
        ),
        pl.when(~pl.col("dump_us").is_between(EARLIEST_US, LATEST_US)).then(
            pl.lit("dump_timestamp_us is not between 2000 and 2100")
        ),
        pl.when((exec_s < 0) | (exec_s > MAX_EXEC_S)).then(
            pl.format("a duration of {} us is no measurement", pl.col("exec_us").str.head(40))
        ),
    )
