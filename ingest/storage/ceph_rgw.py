"""Ceph RADOS gateway ops log."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._json_records import Form, fitting, read_records, scrubbed, timed
from .._redact import redact
from .._typed_text import address, instant, line_id, unless, whole
from ..tables.storage_access import STORAGE_ACCESS
from ..tables.storage_event import STORAGE_EVENT
from ._object_path import path_in_bucket, unquoted
from ._s3_calls import bucket_events, op_class

_FORM = Form(
    marker=("$.operation",),
    envelopes=("$.message", "$.log"),
    fields={
        "bucket": "$.bucket",
        "object": "$.object",
        "time": "$.time",
        "remote": "$.remote_addr",
        "object_owner": "$.object_owner",
        "user": "$.user",
        "role": "$.sts_info.role_name",
        "role_session": "$.sts_info.role_session",
        "operation": "$.operation",
        "uri": "$.uri",
        "status": "$.http_status",
        "error": "$.error_code",
        "sent": "$.bytes_sent",
        "received": "$.bytes_received",
        "size": "$.object_size",
        "total_ms": "$.total_time",
        "agent": "$.user_agent",
        "referrer": "$.referrer",
        "request_id": "$.trans_id",
        "auth": "$.authentication_type",
        "key_id": "$.access_key_id",
        "temp_url": "$.temp_url",
        "headers": "$.http_x_headers",
    },
)
_ANONYMOUS = "anonymous"
_JOB = r"(?i)(?:^|[^a-z0-9])job[-_.]?([0-9]+(?:_[0-9]+)?)(?:$|[^a-z0-9])"


def _looks_like(head: bytes, _file_name: str) -> bool:
    return b'"trans_id"' in head and b'"bytes_sent"' in head and b'"operation"' in head


@source(outputs=(STORAGE_ACCESS, STORAGE_EVENT), sniff=_looks_like)
def ceph_rgw(lines: pl.DataFrame, context: Context) -> Parsed:
    """Ceph RADOS gateway ops log, Pacific to Squid: file, or socket stream (`[`, records that end
    in a comma, never closed).

    Fields after ceph/ceph@0165f384 src/rgw/rgw_log.cc. `bucket` may be `tenant/bucket`, kept so.
    The key stands in the request line (newer versions: `object`). HEAD requests are logged as
    `get_obj`: the method tells. `object_size` 0 is unknown except for a read that sent nothing.
    A copy's source is not logged, so copies are writes alone. Requests that fail authentication
    are in no ops log. `error_code` NoContent of a success is no error.
    """
    found = read_records(lines, context, _FORM)
    good, late = timed(_typed(found.rows, context), "time")
    is_object = pl.col("op_class").is_not_null()
    events = bucket_events(good.filter(~is_object), "ceph_rgw")
    return Parsed(
        {
            "storage_access": fitting(good.filter(is_object), STORAGE_ACCESS),
            "storage_event": fitting(events, STORAGE_EVENT),
        },
        scrubbed(pl.concat([found.rejects, late])),
        found.skipped,
        found.held_from,
    )


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    method = pl.col("uri").str.extract(r"^([A-Z]+) ")
    path = pl.col("uri").str.extract(r"^[A-Z]+ ([^? ]*)")
    name = pl.col("bucket").fill_null("").str.replace(r"^.*/", "")
    plain, raw = unquoted(path)
    key = pl.coalesce(unless(pl.col("object")), path_in_bucket(plain, name))
    status = whole(pl.col("status"), pl.Int16)
    is_success = status.is_between(200, 299)
    user = unless(pl.col("user"), _ANONYMOUS)
    is_known_size = (whole(pl.col("size")) > 0) | (whole(pl.col("sent")) == 0)
    size = pl.when(is_known_size & is_success).then(whole(pl.col("size")))
    is_read = pl.col("operation") == "get_obj"
    return rows.with_columns(
        instant(pl.col("time")).alias("ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("ceph_rgw").alias("source"),
        pl.lit("ceph_rgw").alias("store_kind"),
        pl.col("bucket").fill_null(""),
        key.fill_null("").alias("object_key"),
        pl.when(pl.col("object").is_null() & (raw != key)).then(path_in_bucket(raw, name)).alias("object_key_raw"),
        pl.col("uri").str.extract(r"[?&]versionId=([^& ]+)").fill_null("").alias("version_id"),
        pl.coalesce(unless(pl.col("request_id")), line_id(pl.col("text"))).alias("request_id"),
        pl.coalesce("role", user, pl.lit(_ANONYMOUS)).alias("principal"),
        pl.when(pl.col("role").is_not_null()).then(pl.lit("assumed_role"))
        .when(user.is_null()).then(pl.lit(_ANONYMOUS)).otherwise(pl.lit("user")).alias("principal_type"),
        pl.col("role_session").alias("session"),
        pl.col("role_session").str.extract(_JOB, 1).alias("job_hint"),
        pl.when(pl.col("role").is_not_null()).then(user).alias("parent_principal"),
        user.alias("requester"),
        unless(pl.col("key_id")).alias("access_key_id"),
        address(pl.col("remote")).alias("ip"),
        unless(pl.col("agent")).alias("user_agent"),
        redact(unless(pl.col("referrer"))).alias("referer"),
        redact(pl.col("uri")).alias("request_uri"),
        pl.when((pl.col("temp_url") == "true") | pl.col("uri").str.contains(r"[?&](?:X-Amz-Signature|Signature)="))
        .then(pl.lit("presigned")).when(user.is_not_null()).then(pl.lit("header")).alias("auth_method"),
        status.alias("status"),
        status.fill_null(0).alias("answer"),
        pl.when(~is_success.fill_null(value=False)).then(unless(pl.col("error"))).alias("error"),
        whole(pl.col("sent")).alias("sent_bytes"),
        whole(pl.col("received")).alias("received_bytes"),
        pl.when(is_read).then(size).alias("object_bytes"),
        (pl.col("total_ms").cast(pl.Float64, strict=False) / 1000).round(6).alias("total_s"),
        pl.when((method == "HEAD") & is_read).then(pl.lit("head")).otherwise(op_class(pl.col("operation")))
        .alias("op_class"),
    )  # fmt: skip
