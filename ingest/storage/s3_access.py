"""Amazon S3 server access log, text form."""

from __future__ import annotations

import re
from urllib.parse import unquote

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._redact import may_hold_secrets, redact
from .._typed_text import token_hash, whole
from ..tables.storage_access import STORAGE_ACCESS
from ._aws_identity import identity
from ._s3_fields import cut_columns, problems, typed_fields
from ._s3_line import NONE, read_lines

_TEXTS = {
    "owner": "bucket_owner",
    "ip": "ip",
    "uri": "request_uri",
    "error": "error",
    "referer": "referer",
    "agent": "user_agent",
    "host_id": "host_id",
    "signature": "signature_version",
    "cipher": "cipher",
    "host": "host_header",
    "tls": "tls_version",
    "access_point": "access_point_arn",
    "region": "source_region",
}
# Field 8 is INTERFACE.VERB.RESOURCE; the first pattern that fits decides.
_CLASSES = (
    (r"^REST\.COPY\.(?:OBJECT|PART)_GET$", "copy_read"),
    (r"(?:\.GET\.OBJECT(?:_?TORRENT)?|SELECT\w*|SOAP\.GetObject\w*)$", "read"),
    (r"^SOAP\.List", "list"),
    (r"^SOAP\.(?:Put|Copy)Object", "write"),
    (r"^SOAP\.DeleteObject", "delete"),
    (r"\.HEAD\.", "head"),
    (r"\.GET\.(?:BUCKET|BUCKETVERSIONS|BUCKET_?OBJECT_?VERSIONS|SERVICE|UPLOADS?)$", "list"),
    (r"\.DELETE\.(?:OBJECT|UPLOAD)$|MULTI_OBJECT_DELETE$|\.EXPIRE\.OBJECT$", "delete"),
    (r"\.CREATE\.DELETEMARKER$", "delete"),
    (r"\.(?:PUT|POST|COPY)\.(?:OBJECT|PART|UPLOADS?)$", "write"),
    (r"^(?:SOAP\.|(?:REST|WEBSITE)\.(?:GET|PUT|POST|DELETE)\.)", "config"),
)
AUTH_METHODS = {"AuthHeader": "header", "QueryString": "presigned", "HtmlForm": "form"}
_SIGNATURE = r"(?i)[?&](?:X-Amz-Signature|Signature)=([^&\s]+)"
_VALID = r"(?i)[?&]X-Amz-Expires=([0-9]+)"
_KEY_ID = r"(?i)[?&](?:X-Amz-Credential|AWSAccessKeyId)=([A-Z0-9]+)"
_LOOKS_LIKE = re.compile(
    rb"[0-9a-f-]+ [^ ]+ \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [-+]\d{4}\] +[^ ]+ "
    rb"+[^\"]+ [A-Z][A-Z0-9]*\.[A-Za-z0-9_.]+ "
)


def _known(name: str) -> pl.Expr:
    """The field, NULL where the log has `-`."""
    return pl.when(pl.col(name) != NONE).then(pl.col(name)).alias(name)


_IDENTITY = identity(_known("requester"))


def op_class(operation: pl.Expr) -> pl.Expr:
    """Class of field 8, INTERFACE.VERB.RESOURCE."""
    return pl.coalesce(
        *(pl.when(operation.str.contains(p)).then(pl.lit(c)) for p, c in _CLASSES), pl.lit("other")
    )


_OP_CLASS = op_class(pl.col("operation")).alias("op_class")
_SECONDS = {"total": "total_s", "turnaround": "turnaround_s"}
_ROW: tuple[str | pl.Expr, ...] = (
    "line_no",
    pl.lit("s3_access").alias("source"),
    pl.lit("s3").alias("store_kind"),
    "ts",
    *(_known(name).fill_null("").alias(name) for name in ("bucket", "version_id")),
    "object_key",
    "object_key_raw",
    "request_id",
    "operation",
    "op_class",
    "principal",
    "principal_type",
    "session",
    "job_hint",
    _known("requester"),
    "account",
    "access_key_id",
    "token_hash",
    "signed_ttl_s",
    *(_known(name).alias(column) for name, column in _TEXTS.items()),
    pl.coalesce(
        *(pl.when(pl.col("auth") == k).then(pl.lit(v)) for k, v in AUTH_METHODS.items()),
        _known("auth"),
    ).alias("auth_method"),
    pl.when(pl.col("acl") == "Yes").then(statement=True)
    .when(pl.col("acl") == NONE).then(statement=False)
    .alias("acl_required"),
    pl.col("more").alias("more_fields"),
    pl.col("status_value").alias("status"),
    pl.col("status_value").fill_null(0).alias("answer"),
    pl.col("sent_value").alias("sent_bytes"),
    pl.col("size_value").alias("object_bytes"),
    *((pl.col(f"{n}_value") / 1000).round(3).alias(column) for n, column in _SECONDS.items()),
)  # fmt: skip


def looks_like(head: bytes, _file_name: str) -> bool:
    """One of the first lines begins like an access line (files have no header)."""
    return any(_LOOKS_LIKE.match(line) for line in head.splitlines()[:20])


@source(outputs=(STORAGE_ACCESS,), reads="lines", sniff=looks_like)
def s3_access(lines: pl.DataFrame, context: Context) -> Parsed:
    """Amazon S3 server access log, text form: 27 fields, older lines with fewer, newer with more.

    Source of the fields: LogFormat.md of the Amazon S3 user guide. Times are UTC; `-` is NULL.
    Times in the log are milliseconds; the table has seconds. Bytes sent are `-` on some answers
    that did send a body, so NULL there does not mean 0. The key is decoded once; one whose
    bytes are no UTF-8 stays as written. The log holds no byte range and no bytes received. A line
    whose time has an offset is brought to UTC. Not read: the JSON form of CloudWatch delivery.

    Lines with six quotes are split as columns; all others, and those on which the columnar split
    finds anything odd, one by one (_s3_line.py).
    """
    pieces, left = cut_columns(lines)
    written = left.filter(pl.col("text").str.strip_chars(" \t") != "")
    exact, bad = read_lines(written)
    fields = typed_fields(pl.concat([pieces, exact], rechunk=True))
    odd = fields.filter(~pl.col("good"))
    if not odd.is_empty():
        doubtful = lines.join(odd, on="line_no", how="semi")
        exact, unreadable = read_lines(doubtful)
        again = typed_fields(exact)
        wrong = problems(again.filter(~pl.col("good")), doubtful)
        bad = pl.concat([bad, unreadable, wrong])
        fields = pl.concat([fields, again]).filter("good").rechunk()
    rows = _rows(fields)
    return Parsed(
        {"storage_access": rows.with_columns(cluster=pl.lit(context.options["cluster"]))},
        bad.with_columns(redact(pl.col("text"))),
        left.height - written.height,
    )


def _rows(fields: pl.DataFrame) -> pl.DataFrame:
    """Rows of storage_access, but for the cluster, from typed fields."""
    names = fields.lazy().select("requester", "operation")
    requesters = names.select(pl.col("requester").unique()).select("requester", *_IDENTITY)
    operations = names.select(pl.col("operation").unique()).with_columns(_OP_CLASS)
    named = (
        names.join(requesters, on="requester", how="left", maintain_order="left")
        .join(operations, on="operation", how="left", maintain_order="left")
        .drop("requester", "operation")
        .collect(engine="in-memory")
    )
    keys = _decoded(fields["key"])
    uri, key_id = _scrubbed(fields["uri"])
    referer, _ = _scrubbed(fields["referer"])
    key_ids = key_id.alias("access_key_id")
    signed = _signed(fields["uri"], fields["auth"])
    return fields.with_columns_seq(*named, *keys, uri, referer, key_ids, *signed).select_seq(_ROW)


def _decoded(keys: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Keys decoded once, and as written where that changed them.

    Python per distinct key that holds a percent sign, 230,000 a CPU second.
    """
    plain = keys.set(keys == NONE, "").alias("object_key")
    raw = pl.Series("object_key_raw", [None], dtype=pl.String).new_from_index(0, len(keys))
    where = keys.str.contains("%", literal=True).arg_true()
    if where.is_empty():
        return plain, raw
    encoded = keys.gather(where)
    names = {key: _unquoted(key) for key in encoded.unique()}
    decoded = pl.Series([names[key] for key in encoded], dtype=pl.String)
    return plain.scatter(where, decoded), raw.scatter(where, encoded.set(encoded == decoded, None))


def _unquoted(key: str) -> str:
    try:
        return unquote(key, errors="strict")
    except UnicodeDecodeError:
        return key


def _signed(uris: pl.Series, auth: pl.Series) -> tuple[pl.Series, pl.Series]:
    """What the uses of one signed URL share, and how long it was valid; NULL for other requests."""
    hashes = pl.Series("token_hash", [None], dtype=pl.String).new_from_index(0, len(uris))
    valid_s = pl.Series("signed_ttl_s", [None], dtype=pl.Int64).new_from_index(0, len(uris))
    where = (auth == "QueryString").arg_true()
    if where.is_empty():
        return hashes, valid_s
    found = (
        uris.gather(where)
        .to_frame("uri")
        .select(
            token_hash(pl.col("uri").str.extract(_SIGNATURE)).alias("hash"),
            whole(pl.col("uri").str.extract(_VALID)).alias("valid_s"),
        )
    )
    return hashes.scatter(where, found["hash"]), valid_s.scatter(where, found["valid_s"])


def _scrubbed(urls: pl.Series) -> tuple[pl.Series, pl.Series]:
    """URLs without secrets, and the access key ids in them."""
    key_ids = pl.Series([None], dtype=pl.String).new_from_index(0, len(urls))
    where = urls.to_frame("url").select(may_hold_secrets(pl.col("url"))).to_series().arg_true()
    if where.is_empty():
        return urls, key_ids
    url = pl.col("url")
    found = urls.gather(where).to_frame("url").select(redact(url), key=url.str.extract(_KEY_ID))
    return urls.scatter(where, found["url"]), key_ids.scatter(where, found["key"])
