"""Fields of VPC flow records, versions 2 to 8, as columns of net_flow."""

from __future__ import annotations

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, rejects

from .._json_records import fitting, scrubbed
from .._typed_text import epoch, unless, whole
from ..tables.log_gap import LOG_GAP
from ..tables.net_flow import NET_FLOW

DEFAULT = [
    "version",
    "account-id",
    "interface-id",
    "srcaddr",
    "dstaddr",
    "srcport",
    "dstport",
    "protocol",
    "packets",
    "bytes",
    "start",
    "end",
    "action",
    "log-status",
]
USED = (
    *DEFAULT, "vpc-id", "subnet-id", "instance-id", "pkt-srcaddr", "pkt-dstaddr", "region", "pkt-src-aws-service",
    "pkt-dst-aws-service", "flow-direction", "traffic-path",
)  # fmt: skip
_PROTOCOLS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "icmp6"}
_TEXTS = {
    "srcaddr": "src_ip", "dstaddr": "dst_ip", "pkt-srcaddr": "packet_src_ip", "pkt-dstaddr": "packet_dst_ip",
    "flow-direction": "direction", "interface-id": "interface_id", "instance-id": "instance_id", "vpc-id": "vpc_id",
    "subnet-id": "subnet_id", "region": "region", "account-id": "account", "pkt-src-aws-service": "src_service",
    "pkt-dst-aws-service": "dst_service",
}  # fmt: skip


def parsed(rows: pl.DataFrame, bad: pl.DataFrame, skipped: int, context: Context) -> Parsed:
    """Rows of net_flow and log_gap from the fields in USED as text, with line_no and text."""
    typed = _typed(rows, context)
    is_lost = pl.col("log-status") == "SKIPDATA"
    is_flow = ~pl.col("log-status").is_in(["SKIPDATA", "NODATA"]).fill_null(value=False)
    timed = pl.col("ts").is_not_null()
    late = rejects(typed.filter(~timed), "start is no time in seconds").select(*REJECTS_SCHEMA)
    gaps = typed.filter(is_lost & timed).with_columns(
        pl.col("interface_id").fill_null("").alias("log_stream"),
        pl.lit("SKIPDATA: records were skipped in the window").alias("reason"),
    )
    quiet = typed.filter((pl.col("log-status") == "NODATA") & timed).height
    return Parsed(
        {
            "net_flow": fitting(typed.filter(is_flow & timed), NET_FLOW),
            "log_gap": fitting(gaps, LOG_GAP),
        },
        scrubbed(pl.concat([bad.select(*REJECTS_SCHEMA), late])),
        skipped + quiet,
    )


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    known = [unless(pl.col(name), "-").alias(column) for name, column in _TEXTS.items()]
    key = ("interface-id", "srcaddr", "srcport", "dstaddr", "dstport", "protocol", "start", "action",
           "flow-direction", "pkt-srcaddr", "pkt-dstaddr")  # fmt: skip
    return rows.with_columns(
        *known,
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("vpc_flow").alias("source"),
        pl.concat_str(*(pl.col(n).fill_null("-") for n in key), separator="|").alias("flow_id"),
        epoch(pl.col("start"), 1_000_000).alias("ts"),
        epoch(pl.col("end"), 1_000_000).alias("end_ts"),
        whole(pl.col("srcport"), pl.Int32).alias("src_port"),
        whole(pl.col("dstport"), pl.Int32).alias("dst_port"),
        unless(pl.col("protocol").replace(_PROTOCOLS), "-").alias("protocol"),
        whole(pl.col("bytes")).alias("sent_bytes"),
        whole(pl.col("packets")).alias("sent_packet_count"),
        unless(pl.col("action").str.to_lowercase(), "-").alias("action"),
        whole(pl.col("traffic-path"), pl.Int16).alias("traffic_path"),
    )
