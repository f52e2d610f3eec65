"""Keys of objects as logs spell them: percent-encoded, inside a request path, or as a copy's source."""

from __future__ import annotations

from urllib.parse import unquote

import polars as pl


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
