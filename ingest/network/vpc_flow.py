"""AWS VPC flow logs, text."""

from __future__ import annotations

import json
import re

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from ..tables.log_gap import LOG_GAP
from ..tables.net_flow import NET_FLOW
from ._vpc_fields import DEFAULT, USED, parsed

_STAMP = r"^\d{4}-\d\d-\d\dT[\d:.]+Z "


def _looks_like(head: bytes, _file_name: str) -> bool:
    first = head.split(b"\n", 1)[0]
    has_header = b"srcaddr" in first and b"interface-id" in first
    return has_header or _DEFAULT.search(head) is not None


# A record in the default order: alone, behind CloudWatch's stamp, or in a subscription's batch.
_DEFAULT = re.compile(
    rb'(?:^|^\S+Z |"message": ?")[2-9] (?:\d{12}|unknown) eni-[0-9a-f]+ \S+ \S+ ', re.MULTILINE
)


@source(
    outputs=(NET_FLOW, LOG_GAP),
    options=(
        Option(
            "format",
            "the log's fields in their order, `${version} ${account-id} …`, where the file has no header",
            "",
        ),
    ),
    sniff=_looks_like,
)
def vpc_flow(lines: pl.DataFrame, context: Context) -> Parsed:
    """AWS VPC flow logs, versions 2 to 8, plain text: files with a header, records without one in the
    default order or in that of `format`, CloudWatch exports with a stamp in front, subscription
    batches (`logEvents`).

    Fields after the page "Flow log records" of the Amazon VPC user guide. A record counts one
    direction: `sent_bytes` are IP bytes from source to destination. Behind a NAT gateway the
    addresses of the packet itself are in `packet_src_ip` and `packet_dst_ip`. NODATA records are
    skipped; SKIPDATA, records that were lost, are rows of log_gap.
    """
    header = context.first_line.strip().split()
    stated = context.options.get("format", "").replace("${", "").replace("}", "").split()
    has_header = "srcaddr" in header and "dstaddr" in header
    names = stated or (header if has_header else DEFAULT)
    if missing := [n for n in ("srcaddr", "dstaddr", "start", "bytes") if n not in names]:
        reason = f"the format names no {', '.join(missing)}; state it with --set format=…"
        return Parsed({}, rejects(lines, reason))
    opened = _unwrapped(lines)
    text = pl.col("text").str.replace(_STAMP, "").str.strip_chars()
    is_head = text.str.contains("srcaddr", literal=True) | (text == "")
    body = opened.filter(~is_head).with_columns(text.str.split(" ").alias("cells"))
    fits = pl.col("cells").list.len() == len(names)
    columns = [
        pl.col("cells").list.get(names.index(n)).alias(n) if n in names else pl.lit(None, pl.String).alias(n)
        for n in USED
    ]  # fmt: skip
    width = pl.format(
        "{} fields, the format has {}", pl.col("cells").list.len(), pl.lit(len(names))
    )
    rows = body.filter(fits).select("line_no", "text", *columns)
    bad = rejects(body.filter(~fits), width)
    return parsed(rows, bad, opened.height - body.height, context)


def _unwrapped(lines: pl.DataFrame) -> pl.DataFrame:
    """Lines, with the messages of CloudWatch batches in their batch's place."""
    is_batch = pl.col("text").str.starts_with("{")
    batches = lines.filter(is_batch)
    if batches.is_empty():
        return lines
    opened = [
        (n, m) for n, text in batches.select("line_no", "text").iter_rows() for m in _messages(text)
    ]
    inside = pl.DataFrame(opened, schema=dict(lines.select("line_no", "text").schema), orient="row")
    return pl.concat([lines.filter(~is_batch).select("line_no", "text"), inside]).sort("line_no")


def _messages(text: str) -> list[str]:
    """The messages of a batch, row by row; what is no batch stays as it is and is refused later."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return [text]
    events = found.get("logEvents", [found]) if isinstance(found, dict) else [found]
    messages = (
        [e.get("message") for e in events if isinstance(e, dict)]
        if isinstance(events, list)
        else []
    )
    return [m for m in messages if isinstance(m, str)] or [text]
