"""Keys of objects as logs spell them: percent-encoded, inside a request path, or as a copy's source."""

from __future__ import annotations

from urllib.parse import unquote

import polars as pl

from .._typed_text import byte_range


def unquoted(key: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """The key decoded once, and as written where that changed it. A `+` stays a `+`; what would
    be no UTF-8 stays as written. Python per key that holds a percent sign, 230,000 a CPU second.
    """
    decoded = pl.when(key.str.contains("%", literal=True)).then(
        key.map_elements(_decoded, return_dtype=pl.String)
    ).otherwise(key)  # fmt: skip
    return decoded, pl.when(decoded != key).then(key)


def _decoded(key: str) -> str:
    if "%" not in key:
        return key
    try:
        return unquote(key, errors="strict")
    except UnicodeDecodeError:
        return key


def copy_source(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """`copy_bucket` and `copy_key` of an `x-amz-copy-source`: `bucket/key` or `/bucket/key`, encoded."""
    bare = pl.col(column).str.replace(r"^/", "").str.replace(r"\?versionId=[^?]*$", "")
    plain, _ = unquoted(bare)
    named = rows.with_columns(plain.alias("_source"))
    return named.with_columns(
        pl.col("_source").str.extract(r"^([^/]+)/").alias("copy_bucket"),
        pl.col("_source").str.extract(r"(?s)^[^/]+/(.+)$").alias("copy_key"),
    ).drop("_source")


def copy_reads(writes: pl.DataFrame, source: str, span: str) -> pl.DataFrame:
    """The reads of the source that copies are, as a second row for each.

    source   column with the `x-amz-copy-source`; span: with the copied range. Bytes are known only
             of a copied range: a whole object's are its size.
    """
    start, end = byte_range(pl.col(span))
    turned = writes.with_columns(
        pl.col("copy_bucket").alias("bucket"),
        pl.col("copy_key").alias("object_key"),
        pl.col("bucket").alias("copy_bucket"),
        pl.col("object_key").alias("copy_key"),
        pl.col(source).str.extract(r"[?&]versionId=([^&]+)").fill_null("").alias("version_id"),
        pl.lit("copy_read").alias("op_class"),
        pl.format("{}.Source", "operation").alias("operation"),
        pl.lit(None, pl.Int64).alias("received_bytes"),
        pl.lit(None, pl.Int64).alias("object_bytes"),
        start.alias("range_start"),
        end.alias("range_end"),
    )
    return turned.with_columns(
        (pl.col("range_end") - pl.col("range_start") + 1).alias("sent_bytes")
    )


def path_in_bucket(path: pl.Expr, bucket: pl.Expr) -> pl.Expr:
    """Key in a request path: what follows the bucket, or the whole where the host names it."""
    plain = path.str.replace(r"^/", "")
    inside = plain.str.strip_prefix(pl.concat_str(bucket, pl.lit("/")))
    return pl.when(plain == bucket).then(pl.lit("")).otherwise(inside)
