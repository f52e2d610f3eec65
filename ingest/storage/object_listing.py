"""Listings of buckets and folders."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.pipeline.files import split_lines
from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, rejects, source

from .._json_records import Form, fitting, read_document, read_records
from .._typed_text import instant, unless, whole
from ..tables.stored_object import STORED_OBJECT

# S3 (CLI, API), Google (gcloud, JSON API), Azure (CLI), MinIO (mc): each names the same few facts.
_NAMES = {
    "key": ("Key", "key", "name", "Name"),
    "size": ("Size", "size", "properties.contentLength", "ContentLength"),
    "etag": ("ETag", "etag", "md5Hash", "properties.etag"),
    "class": ("StorageClass", "storageClass", "storage_class", "properties.blobTier"),
    "version": ("VersionId", "versionId", "generation", "version_id"),
    "latest": ("IsLatest", "isLatest"),
    "modified": ("LastModified", "lastModified", "updated", "update_time", "properties.lastModified"),
    "bucket": ("Bucket", "bucket", "container"),
}  # fmt: skip
_FORM = Form(
    marker=("$.Key", "$.key", "$.name"),
    envelopes=("$.Contents", "$.Versions", "$.items", "$.objects"),
    fields={f"{n}_{i}": f"$.{path}" for n, paths in _NAMES.items() for i, path in enumerate(paths)},
)
_LINE = r"^(?P<modified>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s+(?P<size>[0-9]+) (?P<key>.+)$"
_FOUND = r"^(?P<size>[0-9]+)\s+(?P<modified>\d{4}-\d\d-\d\d[T ]\S+)\s+(?:s3|gs)://(?P<bucket>[^/]+)/(?P<key>.+)$"
_FRAMING = r"^\s*(?:PRE .*|Total (?:Objects|Size):.*|TOTAL: .*)?$"


# aws pads the size to ten places: a date, a time and a number alone stand in many logs.
_TEXT = re.compile(
    rb"^(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?=[ \d]{10}) *\d+ \S"
    rb"|\s*\d+\s+\d{4}-\d\d-\d\d[T ]\S+\s+(?:s3|gs)://\S)"
)
_JSON = (
    (b'"Key"', b'"Contents"'), (b'"Key"', b'"Versions"'),
    (b'"kind": "storage#object"',), (b'"storage_url"', b'"size"'), (b'"blobTier"', b'"contentLength"'),
    (b'"key"', b'"lastModified"', b'"size"', b'"type":"file"'),
)  # fmt: skip


def _looks_like(head: bytes, _file_name: str) -> bool:
    framing = re.compile(_FRAMING.encode())
    lines = [line for line in head.splitlines()[:20] if not framing.match(line)]
    is_text = sum(1 for line in lines if _TEXT.match(line)) * 2 > len(lines)
    return is_text or any(all(word in head for word in words) for words in _JSON)


@source(
    outputs=(STORED_OBJECT,),
    reads="document",
    options=(
        Option("bucket", "bucket that was listed; most listings do not name it", ""),
        Option("prefix", "what the listing left out in front of its keys", ""),
    ),
    sniff=_looks_like,
)
def object_listing(content: bytes, context: Context) -> Parsed:
    """Listings: `aws s3api list-objects-v2` and `list-object-versions` (JSON), `aws s3 ls --recursive`
    and `gsutil ls -l` (text), `gcloud storage objects list`, `az storage blob list`, `mc ls --json`.

    Times without a zone are taken as UTC (`aws s3 ls` prints local time: run it with TZ=UTC). Sizes
    that are missing are NULL. Delete markers and folder lines are no objects and are skipped.
    """
    found = read_document(content, _FORM)
    if found is not None and not found.rows.is_empty():
        rows, bad, skipped = found.rows, found.rejects, 0
    else:
        lines, damaged = split_lines(content, 1)
        is_json = pl.col("text").str.contains(r"^\s*[{\[\]}]")
        records = read_records(lines.filter(is_json), context, _FORM)
        texts, strange, blank = _text_rows(lines.filter(~is_json))
        rows = pl.concat([records.rows, texts], how="diagonal")
        bad = pl.concat([damaged, records.rejects, strange])
        skipped = records.skipped + blank
    typed = _typed(rows, context)
    no_bucket = pl.col("bucket") == ""
    reason = "no bucket named; state it with --set bucket=NAME"
    refused = [bad, rejects(typed.filter(no_bucket), reason).select(*REJECTS_SCHEMA)]
    good = fitting(typed.filter(~no_bucket), STORED_OBJECT)
    return Parsed({"stored_object": good}, pl.concat(refused), skipped)


def _text_rows(lines: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Lines of `aws s3 ls --recursive` and `gsutil ls -l`."""
    is_framing = pl.col("text").str.contains(_FRAMING)
    body = lines.filter(~is_framing).with_columns(text=pl.col("text").str.strip_chars_start())
    parts = []
    for pattern in (_LINE, _FOUND):
        fits = pl.col("text").str.contains(pattern)
        cut = body.filter(fits).with_columns(
            pl.col("text").str.extract_groups(pattern).alias("cut")
        )
        one = cut.unnest("cut")
        parts.append(one.rename({n: f"{n}_0" for n in _NAMES if n in one.columns}))
        body = body.filter(~fits)
    reason = "no line of a listing: date, time, size, key"
    return (
        pl.concat(parts, how="diagonal"),
        rejects(body, reason).select(*REJECTS_SCHEMA),
        int(lines.select(is_framing.sum()).item()),
    )


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    def one(name: str) -> pl.Expr:
        found = [f"{name}_{i}" for i in range(len(_NAMES[name])) if f"{name}_{i}" in rows.columns]
        return pl.coalesce(found) if found else pl.lit(None, pl.String)

    bare = one("modified").str.strip_chars()
    return rows.with_columns(
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("object_listing").alias("source"),
        pl.coalesce(unless(one("bucket")), pl.lit(context.options.get("bucket", ""))).alias(
            "bucket"
        ),
        pl.concat_str(pl.lit(context.options.get("prefix", "")), one("key")).alias("object_key"),
        unless(one("version"), "null").fill_null("").alias("version_id"),
        whole(one("size")).alias("object_bytes"),
        one("etag").str.strip_chars('"').alias("etag"),
        one("class").alias("storage_class"),
        (one("latest") == "true").alias("is_latest"),
        instant(bare).alias("modified_ts"),
    )
