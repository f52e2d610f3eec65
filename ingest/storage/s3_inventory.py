"""Amazon S3 Inventory, CSV."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from .._csv_lines import cells_of
from .._json_records import fitting
from .._typed_text import instant, unless, whole
from ..tables.stored_object import STORED_OBJECT
from ._object_path import unquoted

_DEFAULT = "Bucket, Key, Size, LastModifiedDate, ETag, StorageClass"
_KNOWN = (
    "Bucket", "Key", "VersionId", "IsLatest", "IsDeleteMarker", "Size", "LastModifiedDate", "ETag", "StorageClass",
    "ReplicationStatus", "EncryptionStatus",
)  # fmt: skip


@source(
    outputs=(STORED_OBJECT,),
    options=(
        Option("schema", "fileSchema of the inventory's manifest.json", _DEFAULT),
        Option("listed", "creation time of the inventory, ISO 8601", ""),
    ),
)
def s3_inventory(lines: pl.DataFrame, context: Context) -> Parsed:
    """Amazon S3 Inventory in CSV, which has no header: the order of its columns is `fileSchema` in its
    manifest.json and must be stated where it is not the default. Keys are URL-encoded, decoded once.
    """
    names = [name.strip() for name in context.options["schema"].split(",")]
    header = Context(context.file_name, context.options, ",".join(names), context.at_end)
    shifted = lines.with_columns(pl.col("line_no") + 1)  # no header line: line 1 is a row
    table = cells_of(shifted, header, _KNOWN, required=("Bucket", "Key"))
    key, _ = unquoted(pl.col("Key"))
    rows = table.rows.with_columns(
        pl.col("line_no") - 1,
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("s3_inventory").alias("source"),
        pl.col("Bucket").alias("bucket"),
        key.alias("object_key"),
        unless(pl.col("VersionId"), "null").fill_null("").alias("version_id"),
        whole(pl.col("Size")).alias("object_bytes"),
        unless(pl.col("ETag")).alias("etag"),
        unless(pl.col("StorageClass")).alias("storage_class"),
        (unless(pl.col("IsLatest")).str.to_lowercase() == "true").alias("is_latest"),
        (unless(pl.col("IsDeleteMarker")).str.to_lowercase() == "true").alias("is_delete_marker"),
        unless(pl.col("EncryptionStatus")).alias("encryption"),
        unless(pl.col("ReplicationStatus")).alias("replication_status"),
        instant(pl.col("LastModifiedDate")).alias("modified_ts"),
        instant(pl.lit(context.options.get("listed", ""))).alias("listed_ts"),
    )
    unnamed = (pl.col("Bucket") == "") | (pl.col("Key") == "")
    bad = table.rejects.with_columns(pl.col("line_no") - 1)
    empty = rejects(rows.filter(unnamed), "bucket or key is empty").select(bad.columns)
    good = fitting(rows.filter(~unnamed), STORED_OBJECT)
    return Parsed({"stored_object": good}, pl.concat([bad, empty]), table.skipped)
