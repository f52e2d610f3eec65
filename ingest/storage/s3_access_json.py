"""Amazon S3 server access log, JSON form."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._json_records import Form, fitting, read_records, scrubbed, timed
from .._redact import redact
from .._typed_text import instant, line_id, token_hash, unless, whole
from ..tables.storage_access import STORAGE_ACCESS
from ._aws_identity import identity
from ._object_path import unquoted
from .s3_access import AUTH_METHODS, op_class

# Each under the names of the JSON form and of common converters of the text form.
_NAMES = {
    "time": ("request_time", "requestdatetime", "time"),
    "bucket": ("bucket_name", "bucket"),
    "arn": ("bucket_arn",),
    "owner": ("bucket_owner_id", "bucket_owner", "bucketowner"),
    "ip": ("remote_ip", "remoteip"),
    "requester": ("requester",),
    "request_id": ("request_id", "requestid"),
    "operation": ("operation",),
    "key": ("object_key", "key"),
    "uri": ("request_uri", "requesturi"),
    "status": ("http_status", "httpstatus"),
    "error": ("error_code", "errorcode"),
    "sent": ("bytes_sent", "bytessent"),
    "size": ("object_size", "objectsize"),
    "total": ("total_time", "totaltime"),
    "turnaround": ("turn_around_time", "turnaroundtime"),
    "referer": ("referer", "referrer"),
    "agent": ("user_agent", "useragent"),
    "version": ("version_id", "versionid"),
    "host_id": ("host_id", "hostid"),
    "signature": ("signature_version", "sigv", "signatureversion"),
    "cipher": ("cipher_suite", "ciphersuite"),
    "auth": ("authentication_type", "authtype", "authenticationtype"),
    "host": ("host_header", "hostheader", "endpoint"),
    "tls": ("tls_version", "tlsversion", "tlsVersion"),
    "access_point": ("access_point_arn", "accesspointarn"),
    "acl": ("acl_required", "aclrequired"),
    "region": ("source_region", "sourceregion"),
}
_FORM = Form(
    marker=("$.operation",),
    envelopes=("$.logEvents", "$.message", "$.log"),
    fields={f"{n}_{i}": f"$.{name}" for n, names in _NAMES.items() for i, name in enumerate(names)},
)
_SIGNED = r"(?i)[?&]X-Amz-Signature=([^&\s]+)"


def _looks_like(head: bytes, _file_name: str) -> bool:
    return b'"schema_version_id"' in head or (
        (b'"requestid"' in head or b'"request_id"' in head) and b"REST." in head and head.lstrip()[:1] in b"{["
    )  # fmt: skip


@source(outputs=(STORAGE_ACCESS,), sniff=_looks_like)
def s3_access_json(lines: pl.DataFrame, context: Context) -> Parsed:
    """Amazon S3 server access log as CloudWatch Logs, Firehose and S3 Tables hold it: a JSON object a
    request, schema V_1_0, alone, in `logEvents`, or in a string.

    Fields of the page "Log format in CloudWatch Logs"; the lower-case names that converters of the
    text form write are taken too. NULL and `-` are both unknown. Keys are decoded once. Rows equal
    those of `s3_access` in grain, so a request that is in both logs is one row.
    """
    found = read_records(lines, context, _FORM)
    merged = found.rows.select(
        "line_no", "text",
        *(unless(pl.coalesce(*(f"{n}_{i}" for i in range(len(names)))), "-").alias(n) for n, names in _NAMES.items()),
    )  # fmt: skip
    good, late = timed(_typed(merged, context), "time")
    return Parsed(
        {"storage_access": fitting(good, STORAGE_ACCESS)},
        scrubbed(pl.concat([found.rejects, late])),
        found.skipped,
        found.held_from,
    )


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    key, raw = unquoted(pl.col("key"))
    status = whole(pl.col("status"), pl.Int16)
    text_time = (
        pl.col("time")
        .str.strip_chars("[]")
        .str.to_datetime("%d/%b/%Y:%H:%M:%S %z", time_unit="us", strict=False)
    )
    seconds = {"total": "total_s", "turnaround": "turnaround_s"}
    same = {
        "owner": "bucket_owner", "agent": "user_agent", "signature": "signature_version", "host": "host_header",
        "tls": "tls_version", "access_point": "access_point_arn", "region": "source_region",
    }  # fmt: skip
    return rows.with_columns(
        pl.coalesce(instant(pl.col("time")), text_time.dt.replace_time_zone(None)).alias("ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("s3_access_json").alias("source"),
        pl.lit("s3").alias("store_kind"),
        pl.coalesce("bucket", pl.col("arn").str.extract(r":::(.+)$"), pl.lit("")).alias("bucket"),
        key.fill_null("").alias("object_key"),
        raw.alias("object_key_raw"),
        pl.col("version").fill_null("").alias("version_id"),
        pl.coalesce("request_id", line_id(pl.col("text"))).alias("request_id"),
        *identity(pl.col("requester")),
        *(pl.col(one).alias(two) for one, two in same.items()),
        redact(pl.col("uri")).alias("request_uri"),
        redact(pl.col("referer")).alias("referer"),
        token_hash(pl.col("uri").str.extract(_SIGNED)).alias("token_hash"),
        whole(pl.col("uri").str.extract(r"(?i)[?&]X-Amz-Expires=(\d+)")).alias("signed_ttl_s"),
        pl.col("uri").str.extract(r"(?i)[?&](?:X-Amz-Credential|AWSAccessKeyId)=([A-Z0-9]+)").alias("access_key_id"),
        status.alias("status"),
        status.fill_null(0).alias("answer"),
        whole(pl.col("sent")).alias("sent_bytes"),
        whole(pl.col("size")).alias("object_bytes"),
        *((pl.col(c).cast(pl.Float64, strict=False) / 1000).round(3).alias(n) for c, n in seconds.items()),
        pl.col("auth").replace(AUTH_METHODS).alias("auth_method"),
        (pl.col("acl") == "Yes").alias("acl_required"),
        op_class(pl.col("operation")).alias("op_class"),
    )  # fmt: skip
