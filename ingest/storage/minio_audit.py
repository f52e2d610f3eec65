"""MinIO audit records."""

from __future__ import annotations

import json

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._json_records import Form, bounded_detail, fitting, read_records, scrubbed, timed
from .._typed_text import address, byte_range, instant, line_id, token_hash, unless, whole
from ..tables.storage_access import STORAGE_ACCESS
from ..tables.storage_event import STORAGE_EVENT
from ._object_path import copy_reads, copy_source
from ._s3_calls import bucket_events, op_class

_FORM = Form(
    marker=("$.api.name", "$.trigger"),
    envelopes=("$.records", "$.logs", "$.message", "$.log"),
    fields={
        "time": "$.time",
        "trigger": "$.trigger",
        "event": "$.event",
        "operation": "$.api.name",
        "bucket": "$.api.bucket",
        "object_key": "$.api.object",
        "objects": "$.api.objects",
        "status": "$.api.statusCode",
        "tx": "$.api.tx",
        "rx": "$.api.rx",
        "total_ns": "$.api.timeToResponseInNS",
        "total": "$.api.timeToResponse",
        "first": "$.api.timeToFirstByte",
        "error": "$.error",
        "error_code": '$.responseHeader."X-Minio-Error-Code"',
        "remote": "$.remotehost",
        "request_id": "$.requestID",
        "user_agent": "$.userAgent",
        "request_uri": "$.requestPath",
        "host_header": "$.requestHost",
        "access_key": "$.accessKey",
        "parent_user": "$.parentUser",
        "claim_parent": "$.requestClaims.parent",
        "claim_user": "$.requestClaims.preferred_username",
        "authorization": "$.requestHeader.Authorization",
        "range": "$.requestHeader.Range",
        "sent_range": '$.responseHeader."Content-Range"',
        "length": '$.responseHeader."Content-Length"',
        "copy": '$.requestHeader."X-Amz-Copy-Source"',
        "copy_range": '$.requestHeader."X-Amz-Copy-Source-Range"',
        "key_id": '$.responseHeader."X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"',
        "version": "$.requestQuery.versionId",
        "new_version": '$.responseHeader."X-Amz-Version-Id"',
        "query": "$.requestQuery",
        "credential": '$.requestQuery."X-Amz-Credential"',
        "old_key": "$.requestQuery.AWSAccessKeyId",
        "signature": '$.requestQuery."X-Amz-Signature"',
        "old_signature": "$.requestQuery.Signature",
        "ttl": '$.requestQuery."X-Amz-Expires"',
        "deployment": "$.deploymentid",
    },
)
_CREDENTIAL = r"(?:Credential=([^/,\s]+)/|^AWS ([^:\s]+):)"


def _looks_like(head: bytes, _file_name: str) -> bool:
    return b'"trigger"' in head and b'"requestID"' in head and b'"api"' in head


@source(outputs=(STORAGE_ACCESS, STORAGE_EVENT), sniff=_looks_like)
def minio_audit(lines: pl.DataFrame, context: Context) -> Parsed:
    """MinIO audit records, version "1", 2020 to 2025: files and webhook bodies, one or many a line.

    Fields after minio/minio@7aac2a2c internal/logger/audit.go and docs/logging/README.md. `tx` -1
    and records without `tx` (before 2021, gateways) are unknown bytes; the interval sent stands in
    Content-Range. Headers with signatures are read for the key's id and not kept. A batch delete
    gives a row per object, a copy a `copy_read` of its source. Calls on users, policies,
    replication and settings are rows of storage_event. Records without a request (healing,
    replication) have the principal NULL.
    """
    found = read_records(lines, context, _FORM)
    good, late = timed(_typed(found.rows, context), "time")
    is_object = pl.col("op_class").is_not_null()
    events = bucket_events(good.filter(~is_object), "minio").with_columns(
        bounded_detail(pl.col("query")).alias("detail")
    )
    return Parsed(
        {
            "storage_access": _access_rows(good.filter(is_object)),
            "storage_event": fitting(events, STORAGE_EVENT),
        },
        scrubbed(pl.concat([found.rejects, late])),
        found.skipped,
        found.held_from,
    )


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    signed = pl.coalesce(
        pl.col("authorization").str.extract(_CREDENTIAL, 1),
        pl.col("authorization").str.extract(_CREDENTIAL, 2),
        pl.col("credential").str.extract(r"^([^/]+)"),
        "old_key",
    )
    key = pl.coalesce(unless(pl.col("access_key")), signed)
    is_background = pl.col("remote").is_null() & pl.col("user_agent").is_null() & key.is_null()
    signature = pl.coalesce("signature", "old_signature")
    status = whole(pl.col("status"), pl.Int16)
    return rows.with_columns(
        instant(pl.col("time")).alias("ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("minio_audit").alias("source"),
        pl.lit("minio").alias("store_kind"),
        pl.coalesce("operation", "event", "trigger").alias("operation"),
        pl.col("bucket").fill_null(""),
        pl.col("object_key").fill_null(""),
        pl.coalesce("version", unless(pl.col("new_version"), "null"), pl.lit("")).alias("version_id"),
        pl.coalesce(unless(pl.col("request_id")), line_id(pl.col("text"))).alias("request_id"),
        key.alias("access_key_id"),
        pl.when(~is_background).then(pl.coalesce(key, pl.lit("anonymous"))).alias("principal"),
        pl.when(is_background).then(None).when(key.is_null()).then(pl.lit("anonymous"))
        .otherwise(pl.lit("user")).alias("principal_type"),
        key.alias("requester"),
        pl.coalesce(unless(pl.col("parent_user")), "claim_parent", "claim_user").alias("parent_principal"),
        address(pl.col("remote")).alias("ip"),
        pl.when(signature.is_not_null()).then(pl.lit("presigned"))
        .when(pl.col("authorization").is_not_null()).then(pl.lit("header")).alias("auth_method"),
        token_hash(signature).alias("token_hash"),
        whole(pl.col("ttl")).alias("signed_ttl_s"),
        status.alias("status"),
        status.fill_null(0).alias("answer"),
        pl.coalesce(unless(pl.col("error")), "error_code").alias("error"),
        unless(pl.col("user_agent")).alias("user_agent"),
    ).with_columns(op_class(pl.col("operation")).alias("op_class"))  # fmt: skip


def _access_rows(rows: pl.DataFrame) -> pl.DataFrame:
    start, end = byte_range(pl.coalesce("sent_range", "range"))
    total = pl.col("sent_range").str.extract(r"/(\d{1,18})\s*$").cast(pl.Int64, strict=False)
    is_whole = (pl.col("status") == 200) & pl.col("op_class").is_in(["read", "head"])
    seconds = whole(pl.coalesce("total_ns", pl.col("total").str.strip_suffix("ns"))) / 1e9
    base = rows.with_columns(
        whole(pl.col("tx")).alias("sent_bytes"),
        whole(pl.col("rx")).alias("received_bytes"),
        pl.coalesce(total, pl.when(is_whole).then(whole(pl.col("length")))).alias("object_bytes"),
        start.alias("range_start"),
        end.alias("range_end"),
        seconds.round(9).alias("total_s"),
        (whole(pl.col("first").str.strip_suffix("ns")) / 1e9).round(9).alias("turnaround_s"),
        pl.col("key_id").alias("encryption_key_id"),
    )
    base = copy_source(base, "copy")
    copies = copy_reads(base.filter(pl.col("copy_bucket").is_not_null()), "copy", "copy_range")
    several = base.filter(pl.col("objects").is_not_null() & (pl.col("object_key") == ""))
    names = pl.col("objects").map_elements(_names, return_dtype=pl.List(pl.String))
    each = several.with_columns(names.alias("object_key")).explode("object_key")
    one = base.join(several.select("line_no", "record"), on=["line_no", "record"], how="anti")
    return pl.concat([fitting(part, STORAGE_ACCESS) for part in (one, copies, each)])


def _names(objects: str) -> list[str]:
    """Names in the list of a batch call, row by row: such calls are few. Without any: the bucket."""
    try:
        found = json.loads(objects)
    except (ValueError, RecursionError):
        found = None
    entries = found if isinstance(found, list) else []
    names = [e.get("objectName") for e in entries if isinstance(e, dict)]
    return [name for name in names if isinstance(name, str)] or [""]
