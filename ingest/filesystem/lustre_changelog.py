"""Lustre changelog."""

from __future__ import annotations

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from .._json_records import fitting
from .._typed_text import address, unless
from ..tables.storage_access import STORAGE_ACCESS
from ._lustre_job import job_columns

# [target.]number, number and name of the type, time, date, flags, then fields and the name.
_RECORD = (
    r"^\s*(?:(?P<stream>[A-Za-z0-9_-]+-MDT[0-9a-fA-F]{4})[.:\s])?(?P<number>[0-9]{1,18}) "
    r"(?P<kind>[0-9]{2})(?P<type>[A-Z]{2,8}) +(?P<clock>[0-9:.]+) (?P<date>[0-9]{4}\.[0-9]{2}\.[0-9]{2}) "
    r"(?P<flags>0x[0-9a-fA-F]+)(?P<rest>.*)$"
)
_CLASSES = {
    "CREAT": "write", "MKDIR": "write", "HLINK": "write", "SLINK": "write", "MKNOD": "write", "UNLNK": "delete",
    "RMDIR": "delete", "RENME": "write", "TRUNC": "write", "MTIME": "write", "LYOUT": "write", "SATTR": "config",
    "XATTR": "config", "GXATR": "head", "NOPEN": "read",
}  # fmt: skip


def _looks_like(head: bytes, _file_name: str) -> bool:
    return b" t=[0x" in head and any(
        word in head for word in (b"OPEN ", b"CLOSE ", b"CREAT ", b"MTIME ", b"UNLNK ", b"SATTR ")
    )


@source(
    outputs=(STORAGE_ACCESS,),
    options=(Option("mdt", "metadata target the log is of, e.g. lustrefs-MDT0000", ""),),
    name_facts=r"(?P<mdt>[A-Za-z0-9]+-MDT[0-9a-fA-F]{4})",
    sniff=_looks_like,
)
def lustre_changelog(lines: pl.DataFrame, context: Context) -> Parsed:
    """Lustre changelog as `lfs changelog` prints it (Lustre 2.4 to 2.16).

    Metadata only: no record of reading and no bytes. An OPEN for reading (`m=r--`, or no mode) is a
    read of unknown bytes, one that can write is a write. The key is the name, which may hold spaces,
    else the target's FID; the FID is `object_ref`, the parent's FID the key's folder. `j=` tells the
    job or the program (`cp.0`), `u=` the user, `nid=` the node. Numbers run without gaps within a
    target: `log_stream` and `sequence_no` show lost records. Times are UTC as the server writes them.
    """
    blank = pl.col("text").str.strip_chars() == ""
    body = lines.filter(~blank)
    cut = body.with_columns(pl.col("text").str.extract_groups(_RECORD).alias("cut")).unnest("cut")
    typed = _typed(cut, context)
    is_good = pl.col("ts").is_not_null() & (pl.col("log_stream") != "")
    reason = (
        pl.when(pl.col("number").is_null()).then(pl.lit("no changelog record: number, type, time, date, flags"))
        .when(pl.col("ts").is_null()).then(pl.lit("time or date is none"))
        .otherwise(pl.lit("no metadata target named; --set mdt=lustrefs-MDT0000"))
    )  # fmt: skip
    bad = rejects(typed.filter(~is_good), reason).select(*REJECTS_SCHEMA)
    rows = fitting(typed.filter(is_good), STORAGE_ACCESS)
    return Parsed({"storage_access": rows}, bad, lines.height - body.height)


def _typed(cut: pl.DataFrame, context: Context) -> pl.DataFrame:
    rest = pl.col("rest")

    def field(name: str) -> pl.Expr:
        return unless(rest.str.extract(rf" {name}=(\S+)"))

    fid = r"\[?([0-9a-fx:]+)\]?"
    target, parent = field("t").str.extract(fid), field("p").str.extract(fid)
    # The name is what follows the last field, to the end of the line; it may look like a field.
    name = unless(
        rest.str.replace(r"^(?: (?:t|j|ef|u|nid|m|p|s|sp|x)=\S*)*", "").str.strip_prefix(" ")
    )
    key = pl.when(name.is_not_null() & parent.is_not_null()).then(
        pl.concat_str(pl.lit("["), parent, pl.lit("]/"), name)
    ).otherwise(pl.coalesce(name, pl.concat_str(pl.lit("["), target, pl.lit("]"))))  # fmt: skip
    mode = field("m")
    stream = pl.coalesce("stream", pl.lit(context.options.get("mdt", "")))
    clock = pl.concat_str("date", pl.lit(" "), pl.col("clock").str.head(15))
    label = unless(rest.str.extract(r" j=(\S*)"))
    known = pl.col("type").replace_strict(_CLASSES, default="other", return_dtype=pl.String)
    return cut.with_columns(
        clock.str.to_datetime("%Y.%m.%d %H:%M:%S%.f", time_unit="us", strict=False).alias("ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("lustre_changelog").alias("source"),
        pl.lit("lustre").alias("store_kind"),
        stream.alias("log_stream"),
        pl.col("number").cast(pl.Int64, strict=False).alias("sequence_no"),
        pl.concat_str(stream, pl.lit(":"), "number").alias("request_id"),
        stream.str.replace(r"-MDT[0-9a-fA-F]{4}$", "").alias("bucket"),
        key.fill_null("").alias("object_key"),
        target.alias("object_ref"),
        pl.lit("").alias("version_id"),
        pl.concat_str("kind", "type").alias("operation"),
        pl.when(pl.col("type") == "OPEN")
        .then(pl.when(mode.str.contains("w", literal=True)).then(pl.lit("write")).otherwise(pl.lit("read")))
        .otherwise(known).alias("op_class"),
        pl.lit(0, pl.Int16).alias("answer"),
        pl.when(pl.col("type") == "NOPEN").then(pl.lit("EACCES")).alias("error"),
        pl.concat_str(pl.lit("uid:"), field("u").str.extract(r"^([0-9]+)")).alias("principal"),
        pl.when(field("u").is_not_null()).then(pl.lit("uid")).alias("principal_type"),
        field("u").alias("requester"),
        field("nid").alias("node"),
        address(field("nid").str.extract(r"^([0-9.]+)@")).alias("ip"),
        label.alias("session"),
        *(e for e in job_columns(label) if e.meta.output_name() == "command"),
        label.str.extract(r"^([0-9]+(?:_[0-9]+)?)$").alias("job_hint"),
        unless(rest.str.extract(r" s=\[([^\]]+)\]")).alias("copy_key"),
    )  # fmt: skip
