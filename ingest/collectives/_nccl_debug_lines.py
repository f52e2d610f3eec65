"""Lines with NCCL's output, split into what single processes printed.

Many processes share an output: a line may hold the beginning of one message, another message whole,
and later the rest of the first. Every message begins with `host:pid:tid [device] NCCL LEVEL`, so a
line is split in front of each; what stands before the first is a launcher's prefix or the end of a
torn message, and says nothing by itself.
"""

from __future__ import annotations

import re

import polars as pl

_STAMP = r"(?:\[(?P<stamp>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)\] )?"
_PROCESS = r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) (?:\[(?P<cuda>\d{1,4})\] )?"
# Warnings name their place in the code in front of NCCL in some versions.
_LEVEL = r"(?:[\w./-]+:\d+ (?:\([^)]*\) )?)?NCCL (?P<level>[A-Z]{4,7}) "
_WATCHDOG = (
    r"(?:\[rank(?P<rank>\d{1,9})\]:)?\[(?P<severity>[A-Z])(?: ?(?P<month_day>\d{3,4}) "
    r"(?P<clock>\d\d:\d\d:\d\d\.\d{1,9}))? ProcessGroupNCCL\.cpp:\d+\] "
)
_HEAD = rf"(?:{_STAMP}{_PROCESS}{_LEVEL}|{_WATCHDOG})"
_ANYWHERE = re.sub(r"\(\?P<\w+>", "(?:", _HEAD)
_PLAIN_VERSION = r"(?:^|[\s\]>:|])([NR]CCL version\s?:? ?\d+\.\d+[\w.+:-]*)\s*$"
_MARKS = ["NCCL ", "ProcessGroupNCCL.cpp", "CCL version"]
_COLOUR = r"\x1b\[[0-9;?]*[A-Za-z]"
_SPLIT = "\x1e"
# What launchers put in front: [default7]: / [1,3]<stdout>: / vm-07-14: / 7: / (Worker pid=9) / times.
_LAUNCHER = (
    r"^(?:[|<\[(\]>]|[\w.-]+:? |[\w.-]+: ?|\[[^\]]*\]:?|<\w+>:?|\([^)]*\)|[\dTZ:.,+-]+|\s)*$"
)


def messages(lines: pl.DataFrame) -> pl.DataFrame:
    """Messages with line_no, part (from 1), host, pid, tid, cuda, level, stamp, rank, month_day,
    clock and message. Versions printed without a head have the level `VERSION`.

    `host` is NULL where it cannot be told from the end of a torn message.
    """
    found = lines.filter(pl.col("text").str.contains_any(_MARKS)).with_columns(
        pl.col("text").str.replace_all(_COLOUR, "").str.replace_all(_SPLIT, " ", literal=True)
    )
    heads = found.with_columns(
        pl.col("text").str.replace_all(f"({_ANYWHERE})", f"{_SPLIT}${{1}}").str.split(_SPLIT)
    )
    before = pl.col("text").list.first()
    parts = (
        heads.with_columns(before.alias("before"))
        .explode("text")
        .with_columns(pl.int_range(pl.len()).over("line_no").alias("part"))
    )
    whole = parts.filter(pl.col("part") > 0)
    whole = whole.with_columns(
        pl.col("text").str.extract_groups(rf"^{_HEAD}(?P<message>.*)$").alias("head")
    ).unnest("head")
    versions = parts.filter(pl.col("part") == 0).with_columns(
        pl.col("text").str.extract(_PLAIN_VERSION).alias("message"),
        pl.lit("VERSION").alias("level"),
    )
    together = pl.concat([_with_hosts(whole), versions.drop_nulls("message")], how="diagonal")
    return together.sort("line_no", "part")


def _with_hosts(parts: pl.DataFrame) -> pl.DataFrame:
    """What a torn message left in front of the next one's host cannot be told from its name. The
    host of a later message is known where it ends in the line's first host, which launchers'
    prefixes alone precede; mostly the ranks of one host tear each other's lines.
    """
    is_clean = (pl.col("part") == 1) & pl.col("before").str.contains(_LAUNCHER)
    is_clean &= ~pl.col("before").str.contains(r"Init |NCCL|comm |busId|via ")
    first = pl.when(is_clean).then("host").max().over("line_no")
    return parts.with_columns(
        pl.when(pl.col("host").str.ends_with(first)).then(first).alias("host")
    )
