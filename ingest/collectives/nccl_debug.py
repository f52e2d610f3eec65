"""Text that NCCL prints under NCCL_DEBUG."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..scheduler._slurm_time import is_zone
from ..tables.nccl_log_event import NCCL_LOG_EVENT
from ..tables.rank_map import RANK_MAP
from ._nccl_debug_facts import find_facts, typed
from ._nccl_debug_lines import messages

_BENCHMARK = (b"out-of-place", b"# nThread")


def _looks_like_nccl_debug(head: bytes, file_name: str) -> bool:
    """NCCL's lines, and not those inside a result of nccl-tests, which has its own source."""
    del file_name
    marks = (b" NCCL INFO ", b" NCCL WARN ", b"ProcessGroupNCCL.cpp:")
    return any(mark in head for mark in marks) and not any(m in head for m in _BENCHMARK)


@source(
    outputs=(NCCL_LOG_EVENT, RANK_MAP),
    options=(
        Option("job_id", "job that printed it", "unknown"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
        Option("tz", "zone of the machine's clock, as an IANA name: stamps carry none"),
        Option("year", "year of the watchdog's stamps, which carry none"),
    ),
    sniff=_looks_like_nccl_debug,
)
def nccl_debug(lines: pl.DataFrame, context: Context) -> Parsed:
    """NCCL_DEBUG output of NCCL 2.7 to 2.30 and RCCL, and PyTorch's NCCL watchdog, in any log.

    Facts: communicators begun, complete, destroyed and how long that took, rings, channels with
    their transport, networks used or missing, the host's address, operations (subsystem COLL),
    tuning choices (TUNING), link speeds that changed, devices that failed, warnings, versions,
    timed-out collectives and how far the watchdog saw the group. Messages are found anywhere in a
    line: prefixes of launchers and colours do no harm, and a line torn by another process gives
    every message that is whole; its `node` is NULL where the end of the torn one runs into the
    host's name. A message of these kinds that is not whole is a reject. Everything else is counted
    as skipped.

    Most lines carry no time. Stamps (warnings since 2.26.2) are local: without `tz`, or in an hour
    that a clock change skips or repeats, `ts` is NULL; so is the watchdog's without `year` as well.
    Ranks are those of the communicator; only the watchdog (from PyTorch 2.2) and RCCL state global
    ones. `opCount` is hexadecimal. Communicators without commId (before 2.16.2, splits) are known
    by their pointer, within their process.

    Columnar: 150,000 lines with facts, 2,000,000 without, per CPU second.
    """
    problem = _wrong_options(context)
    if problem is not None:
        refused = pl.DataFrame([(0, problem, "")], schema=REJECTS_SCHEMA, orient="row")
        return Parsed({}, refused, lines.height)
    found = messages(lines)
    facts, torn = find_facts(found)
    bad = torn.with_columns(
        pl.format("the message ({}) is torn or cut", pl.col("event").replace("phase", "init"))
        .alias("reason")
    ).unique("line_no", keep="first", maintain_order=True)  # fmt: skip
    rows = _rows(typed(facts), context)
    told = pl.concat([rows["line_no"], bad["line_no"]]).n_unique()
    return Parsed(
        {NCCL_LOG_EVENT.name: rows.drop("parent_pointer"), RANK_MAP.name: _rank_map(rows)},
        bad.join(lines.rename({"text": "line"}), on="line_no", how="left")
        .select("line_no", "reason", pl.col("line").alias("text"))
        .sort("line_no"),
        lines.height - told,
    )


def _wrong_options(context: Context) -> str | None:
    zone, year = context.options.get("tz"), context.options.get("year")
    attempt = context.options["attempt"]
    if zone is not None and not is_zone(zone):
        return f"tz={zone} is no time zone name such as UTC or Europe/Berlin"
    if year is not None and not re.fullmatch(r"(?:19[789]|20\d)\d", year):
        return f"year={year} is no year between 1970 and 2099"
    if not re.fullmatch(r"[0-9]{1,18}", attempt):
        return f"attempt {attempt!r} is not a number; --set attempt=N"
    return None


def _rows(facts: pl.DataFrame, context: Context) -> pl.DataFrame:
    """Rows of `nccl_log_event`, and the parent's pointer for `rank_map`."""
    options = context.options
    own = [name for name in NCCL_LOG_EVENT.column_names if name in facts.columns]
    is_named = pl.col("level") == "VERSION"
    return facts.with_columns(
        pl.col("host").alias("node"),
        pl.when(~is_named).then("level").alias("level"),
        pl.col("message").str.strip_chars().str.slice(0, 1024),
        _times(options.get("tz"), options.get("year")).alias("ts"),
        pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("line_no", order_by="part").alias("event_no"),
    ).select(
        "line_no", "ts", "node", "event_no", "parent_pointer",
        *(name for name in own if name not in {"ts", "node", "event_no"}),
        pl.col("line_no").alias("log_line"),
        pl.lit(context.file_name).alias("log_name"),
        pl.lit(options["cluster"]).alias("cluster"),
        pl.lit(options["job_id"]).alias("job_id"),
        pl.lit(int(options["attempt"]), pl.Int64).alias("attempt"),
    )  # fmt: skip


def _times(zone: str | None, year: str | None) -> pl.Expr:
    """Stamps as UTC; NULL where zone or year is not stated, or the clock does not tell."""
    if zone is None:
        return pl.lit(None, pl.Datetime("us"))
    stamp = pl.col("stamp").str.replace("T", " ", literal=True).str.replace(",", ".", literal=True)
    local = stamp.str.to_datetime("%Y-%m-%d %H:%M:%S%.f", time_unit="us", strict=False)
    if year is not None:
        day = pl.col("month_day").str.zfill(4)
        text = pl.concat_str(pl.lit(year), day, pl.lit(" "), "clock")
        watchdog = text.str.to_datetime("%Y%m%d %H:%M:%S%.f", time_unit="us", strict=False)
        local = pl.coalesce(local, watchdog)
    aware = local.dt.replace_time_zone(zone, ambiguous="null", non_existent="null")
    return aware.dt.convert_time_zone("UTC").dt.replace_time_zone(None)


def _rank_map(rows: pl.DataFrame) -> pl.DataFrame:
    """Who holds which rank of a communicator, from the lines that begin and complete it, and by
    which address hosts are known.
    """
    # A rank of more than 32 bits is a torn number: the event stays, nobody is named by it.
    is_member = pl.col("event").is_in(["init_start", "init_complete"])
    begun = rows.filter(is_member & pl.col("comm_rank").is_not_null()).with_columns(
        pl.coalesce("comm_id", "local:" + pl.col("comm_pointer")).alias("comm_id"),
        ("local:" + pl.col("parent_pointer")).alias("parent_comm_id"),
    )
    hosts = rows.filter(pl.col("event") == "bootstrap").with_columns(
        pl.lit("").alias("comm_id"),
        pl.lit(-1, pl.Int32).alias("comm_rank"),
        pl.lit(None, pl.String).alias("parent_comm_id"),
        # One process may drive several devices: the line is about all of them.
        pl.lit(None, pl.Int32).alias("cuda_device"),
    )
    return pl.concat([hosts, begun]).select(
        "line_no", "cluster", "job_id", "attempt", pl.col("node").fill_null("unknown"), "pid", "comm_id", "comm_rank", "n_ranks",
        "parent_comm_id", "cuda_device", "nvml_device", "pci_bus_id", "address",
        pl.lit("nccl_debug").alias("origin"),
        pl.col("ts").alias("stated_ts"),
    )  # fmt: skip
