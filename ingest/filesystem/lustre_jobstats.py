"""Lustre job statistics."""

from __future__ import annotations

import polars as pl

from fleetmark.pipeline.files import split_lines
from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from .._json_records import fitting
from .._typed_text import epoch, whole
from ..tables.storage_job_stat import STORAGE_JOB_STAT
from ._lustre_job import job_columns

_NAME = r"(?P<target>[A-Za-z0-9]+-(?:OST|MDT)[0-9a-fA-F]{4})"
_METADATA = (
    "open", "close", "mknod", "link", "unlink", "mkdir", "rmdir", "rename", "getattr", "setattr", "getxattr",
    "setxattr", "statfs", "sync", "samedir_rename", "crossdir_rename", "destroy", "create", "punch", "quotactl",
)  # fmt: skip
_COUNTS = {
    "open_count": ("open",), "create_count": ("mknod", "create"), "unlink_count": ("unlink", "destroy"),
    "getattr_count": ("getattr",),
}  # fmt: skip


def _looks_like(head: bytes, _file_name: str) -> bool:
    return b"job_stats:" in head and b"- job_id:" in head


@source(
    outputs=(STORAGE_JOB_STAT,),
    reads="document",
    options=(Option("target", "server target, e.g. lustrefs-OST0000, where nothing names it", ""),),
    name_facts=_NAME,
    sniff=_looks_like,
)
def lustre_jobstats(content: bytes, context: Context) -> Parsed:
    """Lustre `job_stats` of MDTs and OSTs (Lustre 2.5 to 2.16): procfs files and `lctl get_param`
    output of many targets, which name theirs (`mdt.lustrefs-MDT0000.job_stats=`).

    Counters since the entry was made or cleared. An id may be empty, quoted, a job's number or
    `program.uid`. Newer servers add start_time, elapsed_time, read and write in us. The target comes
    from the output, the file's name or the option; entries without one are rejects.
    """
    lines, damaged = split_lines(content, 1)
    text = pl.col("text").str.strip_chars()
    marked = lines.with_columns(
        text.str.extract(r"(?:^|\.)([A-Za-z0-9_-]+-(?:OST|MDT)[0-9a-fA-F]{4})\.job_stats=?")
        .forward_fill().fill_null(context.options.get("target", "")).alias("target"),
        text.str.starts_with("- job_id:").cum_sum().alias("entry"),
        text.str.extract(r"^(?:- )?([a-z_]+):", 1).alias("name"),
        text.str.extract(r"^(?:- )?[a-z_]+:\s*(.*)$", 1).alias("value"),
    )  # fmt: skip
    inside = marked.filter((pl.col("entry") > 0) & pl.col("name").is_not_null())
    inside = inside.filter(~pl.col("name").is_in(["job_stats"]))
    entries = inside.group_by("entry", maintain_order=True).agg(
        pl.col("line_no").first(), pl.col("text").first(), pl.col("target").first(), *_entry()
    )
    outside = marked.filter((pl.col("entry") == 0) | pl.col("name").is_null())
    is_frame = (text == "") | text.str.contains(r"job_stats:?=?$")
    strange = rejects(outside.filter(~is_frame), "neither a counter nor an entry's beginning")
    is_good = pl.col("ts").is_not_null() & (pl.col("target") != "")
    reason = (
        pl.when(pl.col("target") == "").then(pl.lit("no target named; --set target=lustrefs-OST0000"))
        .otherwise(pl.lit("snapshot_time is missing or no time"))
    )  # fmt: skip
    bad = rejects(entries.filter(~is_good), reason)
    rows = entries.filter(is_good).with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.when(pl.col("target").str.contains("-MDT")).then(pl.lit("mdt")).otherwise(pl.lit("ost")).alias("target_kind"),
        *job_columns(pl.col("job_label")),
    )  # fmt: skip
    refused = pl.concat([damaged, *(part.select(*REJECTS_SCHEMA) for part in (strange, bad))])
    skipped = lines.height - entries.height - strange.height
    return Parsed({"storage_job_stat": fitting(rows, STORAGE_JOB_STAT)}, refused, skipped)


def _entry() -> list[pl.Expr]:
    """An entry's columns, from its lines' names and values."""

    def value(name: str) -> pl.Expr:
        return pl.col("value").filter(pl.col("name") == name).first()

    def count(*names: str) -> pl.Expr:
        found = value(names[0]).str.extract(r"samples:\s*([0-9]+)")
        return whole(found) if len(names) == 1 else pl.coalesce(whole(found), count(*names[1:]))

    seconds = r"^([0-9]+(?:\.[0-9]+)?)"
    read, write = value("read_bytes"), value("write_bytes")
    is_metadata = pl.col("name").is_in(_METADATA)
    counts = pl.col("value").filter(is_metadata).str.extract(r"samples:\s*([0-9]+)")
    return [
        value("job_id").str.strip_chars(" \"'").fill_null("").alias("job_label"),
        epoch(value("snapshot_time").str.extract(seconds), 1_000_000).alias("ts"),
        epoch(value("start_time").str.extract(seconds), 1_000_000).alias("start_ts"),
        whole(read.str.extract(r"sum:\s*([0-9]+)")).alias("read_bytes"),
        whole(write.str.extract(r"sum:\s*([0-9]+)")).alias("write_bytes"),
        pl.coalesce(count("read"), whole(read.str.extract(r"samples:\s*([0-9]+)"))).alias("read_count"),
        pl.coalesce(count("write"), whole(write.str.extract(r"samples:\s*([0-9]+)"))).alias("write_count"),
        *(count(*names).alias(column) for column, names in _COUNTS.items()),
        whole(counts).sum().alias("metadata_count"),
    ]  # fmt: skip
