"""Google Cloud Storage usage logs."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, rejects, source

from .._csv_lines import cells_of
from .._json_records import fitting, scrubbed
from .._redact import redact
from .._typed_text import epoch, line_id, token_hash, unless, whole
from ..tables.storage_access import STORAGE_ACCESS

_COLUMNS = (
    "time_micros", "c_ip", "c_ip_type", "c_ip_region", "cs_method", "cs_uri", "sc_status", "cs_bytes", "sc_bytes",
    "time_taken_micros", "cs_host", "cs_referer", "cs_user_agent", "s_request_id", "cs_operation", "cs_bucket",
    "cs_object",
)  # fmt: skip
_CLASSES = (
    (r"(?i)^(?:GET_Object|storage\.objects\.get)$", "read"),
    (r"(?i)^(?:HEAD_|storage\.\w+\.getMetadata)", "head"),
    (r"(?i)^(?:GET_(?:Bucket|Service)$|storage\.(?:objects|buckets)\.list$)", "list"),
    (r"(?i)^(?:DELETE_|storage\.\w+\.delete$)", "delete"),
    (r"(?i)^(?:PUT_Object|POST_Object|storage\.objects\.(?:insert|compose|copy|rewrite))", "write"),
)
_SIGNED = r"(?i)[?&](?:X-Goog-Signature|Signature|X-Amz-Signature)=([^&\s]+)"


def _looks_like(head: bytes, _file_name: str) -> bool:
    return head[:80].replace(b'"', b"").startswith(b"time_micros,c_ip,")


@source(outputs=(STORAGE_ACCESS,), sniff=_looks_like)
def gcs_usage(lines: pl.DataFrame, context: Context) -> Parsed:
    """Google Cloud Storage usage logs: CSV with a header line, columns of the page "Usage logs &
    storage logs", in any order. Storage logs (bytes stored a day) are another table: rejects.

    They hold bytes and no principal, which is NULL: unknown, not anonymous. `gcs_audit` has the
    principal; the two share no id. Signed URLs lose their signatures; what is left of one is
    `token_hash`. Quoted cells may hold commas, never line breaks.
    """
    table = cells_of(lines, context, _COLUMNS, required=("time_micros", "cs_method", "sc_status"))
    rows = table.rows.with_columns(epoch(pl.col("time_micros"), 1).alias("ts"))
    status = whole(pl.col("sc_status"), pl.Int16)
    late = rejects(rows.filter(pl.col("ts").is_null()), "time_micros is no time in microseconds")
    signature = pl.col("cs_uri").str.extract(_SIGNED)
    typed = rows.filter(pl.col("ts").is_not_null()).with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("gcs_usage").alias("source"),
        pl.lit("gcs").alias("store_kind"),
        pl.col("cs_bucket").fill_null("").alias("bucket"),
        pl.col("cs_object").fill_null("").alias("object_key"),
        pl.col("cs_uri").str.extract(r"[?&]generation=(\d+)").fill_null("").alias("version_id"),
        pl.coalesce(unless(pl.col("s_request_id")), line_id(pl.col("text"))).alias("request_id"),
        pl.coalesce(unless(pl.col("cs_operation")), "cs_method").alias("operation"),
        pl.coalesce(
            *(pl.when(pl.col("cs_operation").str.contains(p)).then(pl.lit(c)) for p, c in _CLASSES),
            pl.lit("config"),
        ).alias("op_class"),
        unless(pl.col("c_ip")).alias("ip"),
        unless(pl.col("cs_user_agent")).alias("user_agent"),
        redact(unless(pl.col("cs_referer"))).alias("referer"),
        redact(pl.concat_str("cs_method", pl.lit(" "), "cs_uri")).alias("request_uri"),
        unless(pl.col("cs_host")).alias("host_header"),
        pl.when(signature.is_not_null()).then(pl.lit("presigned")).alias("auth_method"),
        token_hash(signature).alias("token_hash"),
        whole(pl.col("cs_uri").str.extract(r"(?i)[?&]X-Goog-Expires=(\d+)")).alias("signed_ttl_s"),
        status.alias("status"),
        status.fill_null(0).alias("answer"),
        whole(pl.col("sc_bytes")).alias("sent_bytes"),
        whole(pl.col("cs_bytes")).alias("received_bytes"),
        (whole(pl.col("time_taken_micros")) / 1e6).round(6).alias("total_s"),
    )
    bad = pl.concat([table.rejects, late.select("line_no", "reason", "text")])
    return Parsed({"storage_access": fitting(typed, STORAGE_ACCESS)}, scrubbed(bad), table.skipped)
