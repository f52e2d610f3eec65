"""Zeek connection log."""

from __future__ import annotations

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from .._json_records import Form, fitting, read_records, scrubbed
from .._typed_text import address, epoch, instant, unless, whole
from ..tables.net_flow import NET_FLOW

_NAMES = (
    "ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto", "service", "duration", "orig_bytes",
    "resp_bytes", "conn_state", "local_orig", "local_resp", "missed_bytes", "history", "orig_pkts", "orig_ip_bytes",
    "resp_pkts", "resp_ip_bytes", "tunnel_parents",
)  # fmt: skip
_USED = tuple(
    n for n in _NAMES if n not in ("history", "tunnel_parents", "local_orig", "local_resp")
)
_FORM = Form(
    marker=("$.uid",),
    envelopes=("$.message", "$.zeek"),
    fields={name: f'$."{name}"' for name in _USED}
    | {f"flat_{n}": f"$.{n.replace('.', '_')}" for n in _USED if "." in n},
)
_FIELDS = "#fields\t"


def _looks_like(head: bytes, _file_name: str) -> bool:
    return (b'"conn_state"' in head and b'"uid"' in head) or (
        b"#path\tconn" in head or (b"#fields\t" in head and b"\tconn_state\t" in head)
    )


@source(
    outputs=(NET_FLOW,),
    options=(
        Option("fields", "names of the columns in a tab-separated log, where no #fields tells", ""),
    ),
    sniff=_looks_like,
)
def zeek_conn(lines: pl.DataFrame, context: Context) -> Parsed:
    """Zeek conn.log: tab-separated with `#fields` (Bro 2 to Zeek 7) and JSON lines, dots in names as
    they are or as underscores, times since 1970 or ISO 8601.

    `sent_bytes` is the payload the opener sent; where it was not counted (`-`, missing), the IP
    bytes. Rows are written when a connection ends: one that is open has none. The columns of a
    tab-separated log are those of the last `#fields` above, in later chunks of a long file those of
    the option `fields`, otherwise Zeek's own order; columns after those known are passed over.
    """
    is_tsv = pl.col("text").str.contains("\t", literal=True) | pl.col("text").str.starts_with("#")
    tabbed = lines.filter(is_tsv)
    found = read_records(lines.filter(~is_tsv), context, _FORM)
    flat = [pl.coalesce(pl.col(n), pl.col(f"flat_{n}")).alias(n) for n in _USED if "." in n]
    typed = _typed(found.rows.with_columns(flat).select("line_no", "text", *_USED), context)
    cut, damaged, skipped = _cut(tabbed, context.options.get("fields", ""))
    rows = pl.concat([typed, _typed(cut, context)])
    is_good = pl.col("ts").is_not_null() & pl.col("flow_id").is_not_null()
    bad = rejects(rows.filter(~is_good), "no time or no uid")
    return Parsed(
        {"net_flow": fitting(rows.filter(is_good), NET_FLOW)},
        scrubbed(pl.concat([found.rejects, damaged, bad.select(*REJECTS_SCHEMA)])),
        found.skipped + skipped,
        found.held_from,
    )


def _cut(tabbed: pl.DataFrame, stated: str) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Fields of tab-separated lines as columns, under the names that hold for each line."""
    is_head = pl.col("text").str.starts_with("#")
    heads = tabbed.filter(pl.col("text").str.starts_with(_FIELDS))
    marked = tabbed.with_columns(
        pl.when(pl.col("text").str.starts_with(_FIELDS)).then("text").forward_fill().alias("head")
    ).filter(~is_head)
    default = _FIELDS + "\t".join(stated.replace(",", " ").split() or _NAMES)
    marked = marked.with_columns(pl.col("head").fill_null(default))
    schema = {"line_no": pl.Int64, "text": pl.String} | dict.fromkeys(_USED, pl.String)
    parts, bad = [pl.DataFrame(schema=schema)], [pl.DataFrame(schema=REJECTS_SCHEMA)]
    for head in [*heads["text"].unique(maintain_order=True), default]:
        names = head.removeprefix(_FIELDS).split("\t")
        own = marked.filter(pl.col("head") == head).with_columns(
            pl.col("text").str.split("\t").alias("cells")
        )
        fits = pl.col("cells").list.len() >= min(len(names), _names_needed(names))
        columns = [
            pl.col("cells").list.get(names.index(n), null_on_oob=True).alias(n)
            if n in names
            else pl.lit(None, pl.String).alias(n)
            for n in _USED
        ]
        parts.append(own.filter(fits).select("line_no", "text", *columns))
        bad.append(rejects(own.filter(~fits), "fewer columns than the log's header names"))
        marked = marked.filter(pl.col("head") != head)
    return pl.concat(parts), pl.concat(bad), int(tabbed.select(is_head.sum()).item())


def _names_needed(names: list[str]) -> int:
    """How far a line must reach to hold every column that is read."""
    return 1 + max((names.index(n) for n in _USED if n in names), default=len(names))


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    unset = ("-", "(empty)")
    start = pl.coalesce(epoch(pl.col("ts"), 1_000_000), instant(pl.col("ts")))
    length = pl.col("duration").cast(pl.Float64, strict=False)
    sane = pl.when(length.is_between(0, 31_536_000)).then(length)
    return rows.select(
        "line_no",
        "text",
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("zeek_conn").alias("source"),
        unless(pl.col("uid"), *unset).alias("flow_id"),
        start.alias("ts"),
        (start + pl.duration(microseconds=(sane * 1e6).round().cast(pl.Int64))).alias("end_ts"),
        address(pl.col("id.orig_h")).alias("src_ip"),
        whole(pl.col("id.orig_p"), pl.Int32).alias("src_port"),
        address(pl.col("id.resp_h")).alias("dst_ip"),
        whole(pl.col("id.resp_p"), pl.Int32).alias("dst_port"),
        unless(pl.col("proto"), *unset).alias("protocol"),
        unless(pl.col("service"), *unset).alias("service"),
        pl.coalesce(whole(pl.col("orig_bytes")), whole(pl.col("orig_ip_bytes"))).alias("sent_bytes"),
        pl.coalesce(whole(pl.col("resp_bytes")), whole(pl.col("resp_ip_bytes"))).alias("received_bytes"),
        whole(pl.col("orig_pkts")).alias("sent_packet_count"),
        whole(pl.col("resp_pkts")).alias("received_packet_count"),
        whole(pl.col("missed_bytes")).alias("missed_bytes"),
        unless(pl.col("conn_state"), *unset).alias("conn_state"),
    )  # fmt: skip
