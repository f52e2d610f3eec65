"""AWS CloudTrail."""

from __future__ import annotations

import polars as pl

from fleetmark.pipeline.files import split_lines
from fleetmark.source import Context, Option, Parsed, source

from .._json_records import (
    Form,
    Records,
    bounded_detail,
    fitting,
    read_document,
    read_records,
    scrubbed,
    timed,
)
from .._typed_text import byte_range, instant, line_id, unless, whole
from ..tables.storage_access import STORAGE_ACCESS
from ..tables.storage_event import STORAGE_EVENT
from ._aws_event_class import event_class, op_class
from ._aws_grants import accounts, destination, granted_to, loaded, owner_of
from ._aws_identity import identity
from ._object_path import copy_reads, copy_source

_EXTRA = "$.additionalEventData"
_REQUEST = "$.requestParameters"
_WHO = "$.userIdentity"
# What a call is about, where its request names no bucket.
_TARGETS = (
    "name", "trailName", "roleArn", "snapshotId", "imageId", "dBSnapshotIdentifier", "keyId", "secretId", "roleName",
    "userName", "policyArn", "volumeId", "instanceId", "detectorId", "logGroupName",
    "DeleteFlowLogsRequest.FlowLogId.content", "CreateFlowLogsRequest.ResourceId.content",
)  # fmt: skip
_FORM = Form(
    marker=("$.eventName", "$.insightDetails.eventName"),
    envelopes=("$.Records", "$.Events", "$.detail", "$.CloudTrailEvent", "$.log", "$.message"),
    fields={
        "time": "$.eventTime",
        "name": "$.eventName",
        "event_source": "$.eventSource",
        "insight_name": "$.insightDetails.eventName",
        "insight_source": "$.insightDetails.eventSource",
        "category": "$.eventCategory",
        "event_id": "$.eventID",
        "request_id": "$.requestID",
        "read_only": "$.readOnly",
        "region": "$.awsRegion",
        "source_ip": "$.sourceIPAddress",
        "agent": "$.userAgent",
        "error": "$.errorCode",
        "recipient": "$.recipientAccountId",
        "vpc_endpoint_id": "$.vpcEndpointId",
        "user_type": f"{_WHO}.type",
        "arn": f"{_WHO}.arn",
        "user_account": f"{_WHO}.accountId",
        "user_name": f"{_WHO}.userName",
        "principal_id": f"{_WHO}.principalId",
        "key_id": f"{_WHO}.accessKeyId",
        "invoked_by": f"{_WHO}.invokedBy",
        "source_identity": f"{_WHO}.sessionContext.sourceIdentity",
        "on_behalf_of": f"{_WHO}.onBehalfOf.userId",
        "request": _REQUEST,
        "bucket": f"{_REQUEST}.bucketName",
        "key": f"{_REQUEST}.key",
        "version": f"{_REQUEST}.versionId",
        "response_version": '$.responseElements."x-amz-version-id"',
        "copy": f'{_REQUEST}."x-amz-copy-source"',
        "copy_range": f'{_REQUEST}."x-amz-copy-source-range"',
        "range": f"{_REQUEST}.Range",
        "ttl": f'{_REQUEST}."X-Amz-Expires"',
        "host": f"{_REQUEST}.Host",
        "sent": f"{_EXTRA}.bytesTransferredOut",
        "received": f"{_EXTRA}.bytesTransferredIn",
        "auth": f"{_EXTRA}.AuthenticationMethod",
        "signature": f"{_EXTRA}.SignatureVersion",
        "cipher": f"{_EXTRA}.CipherSuite",
        "host_id": f'{_EXTRA}."x-amz-id-2"',
        "kms_key": '$.responseElements."x-amz-server-side-encryption-aws-kms-key-id"',
        "tls": "$.tlsDetails.tlsVersion",
        "resources": "$.resources",
        **{f"target:{path}": f"{_REQUEST}.{path}" for path in _TARGETS},
    },
)
_AUTH = {"AuthHeader": "header", "QueryString": "presigned", "HtmlForm": "form"}
_IP = r"^(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]*)$"
_ANONYMOUS = "ANONYMOUS_PRINCIPAL"
# Insight and some service events name nobody, which is not the same as an anonymous request.
_IS_NAMED = pl.any_horizontal(
    pl.col(name).is_not_null()
    for name in ("requester", "user_type", "user_account", "principal_id")
)
_BUCKET_OWNER = r'"accountId"\s*:\s*"([0-9]{12})"'
# Classes of which it is asked who gains: all others give nothing to anybody.
_GIVES = (
    "policy", "public_access", "grant", "replication", "transfer", "snapshot_share", "image_share", "log_config",
    "network_log", "export",
)  # fmt: skip
_NAME_TIME = r"_(?P<delivered>\d{8}T\d{4}Z)_"


def _looks_like(head: bytes, _file_name: str) -> bool:
    is_call = b'"userIdentity"' in head or b'"insightDetails"' in head
    return is_call and b'"eventSource"' in head and b'"eventName"' in head


@source(
    outputs=(STORAGE_ACCESS, STORAGE_EVENT),
    reads="document",
    options=(Option("delivered", "when the file was delivered, YYYYMMDDTHHMMZ", ""),),
    name_facts=_NAME_TIME,
    sniff=_looks_like,
)
def cloudtrail(content: bytes, context: Context) -> Parsed:
    """AWS CloudTrail, event versions 1.00 to 1.11: log files (`Records`), arrays, an event a line,
    EventBridge's `detail`, lookup-events' `CloudTrailEvent`.

    Object calls of S3 (Express and Outposts too) are rows of storage_access, all else of
    storage_event: management, Insight and network activity events. A server-side copy gives two
    rows, as in S3's own log: a write of the destination and a `copy_read` of the source.
    `bytesTransferredOut` may be 500, 500.0 or "500"; missing is NULL. CloudTrail holds no HTTP
    status: success is that there is no error code. The bytes of a failed call are its error body.
    A role's principal is its ARN without the session, as in s3_access. The file's name tells when
    it was delivered. `detail` is the request, secrets taken out; responses (they hold session
    tokens) are not kept. Digest files are no events: rejects.
    """
    records = read_document(content, _FORM)
    if records is None:
        lines, damaged = split_lines(content, 1)
        found = read_records(lines, context, _FORM)
        bad = pl.concat([damaged, found.rejects])
        records = Records(found.rows, bad, found.skipped, None)
    typed = _typed(_with_insights(records.rows), context)
    good, late = timed(typed, "time")
    is_object = pl.col("op_class").is_not_null()
    return Parsed(
        {
            "storage_access": _access_rows(good.filter(is_object)),
            "storage_event": _event_rows(good.filter(~is_object)),
        },
        scrubbed(pl.concat([records.rejects, late])),
        records.skipped,
    )


def _with_insights(rows: pl.DataFrame) -> pl.DataFrame:
    """An Insight event names the call it is about in `insightDetails`, nowhere else."""
    return rows.with_columns(
        pl.coalesce("name", "insight_name").alias("name"),
        pl.coalesce("event_source", "insight_source").alias("event_source"),
    )


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    """What both tables have."""
    service = pl.col("event_source").fill_null("").str.replace(r"\.amazonaws\.com(?:\.cn)?$", "")
    own = [unless(pl.col(name), _ANONYMOUS) for name in ("user_account", "principal_id")]
    requester = pl.coalesce("arn", "invoked_by", "user_name", own[1], own[0])
    is_ip = pl.col("source_ip").str.contains(_IP)
    delivered = pl.lit(context.options.get("delivered", "")).str.to_datetime(
        "%Y%m%dT%H%MZ", time_unit="us", strict=False
    )
    return rows.with_columns(
        instant(pl.col("time")).alias("ts"),
        delivered.alias("received_ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("cloudtrail").alias("source"),
        service.alias("service"),
        requester.alias("requester"),
        pl.when(is_ip).then("source_ip").alias("ip"),
        pl.coalesce(
            "source_identity", "on_behalf_of", "invoked_by", pl.when(~is_ip).then("source_ip")
        ).alias("parent_principal"),
        pl.col("agent").str.replace(r"^\[(.*)\]$", "${1}").alias("user_agent"),
        pl.col("key_id").alias("access_key_id"),
        (pl.col("read_only") == "true").alias("is_read_only"),
    ).with_columns(
        *identity(pl.col("requester")), op_class(pl.col("service"), pl.col("name")).alias("op_class")
    ).with_columns(
        pl.coalesce(pl.col("account"), own[0]).alias("account"),
        *(pl.when(_IS_NAMED).then(name).alias(name) for name in ("principal", "principal_type")),
    )  # fmt: skip


def _access_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of storage_access, with a second one for the source of each copy."""
    start, end = byte_range(pl.col("range"))
    owners = pl.col("resources").str.extract_all(_BUCKET_OWNER).list.n_unique() > 1
    base = rows.with_columns(
        pl.lit("s3").alias("store_kind"),
        pl.col("bucket").fill_null(""),
        pl.col("key").fill_null("").alias("object_key"),
        pl.coalesce("version", "response_version", pl.lit("")).alias("version_id"),
        pl.coalesce("request_id", "event_id", line_id(pl.col("text"))).alias("request_id"),
        pl.col("name").alias("operation"),
        pl.lit(0, pl.Int16).alias("answer"),
        whole(pl.col("sent")).alias("sent_bytes"),
        whole(pl.col("received")).alias("received_bytes"),
        start.alias("range_start"),
        end.alias("range_end"),
        whole(pl.col("ttl")).alias("signed_ttl_s"),
        pl.col("auth").replace(_AUTH).alias("auth_method"),
        pl.col("signature").alias("signature_version"),
        unless(pl.col("tls"), "-").alias("tls_version"),
        pl.col("host").alias("host_header"),
        pl.col("kms_key").alias("encryption_key_id"),
        owners.fill_null(value=False).alias("spans_accounts"),
        pl.coalesce(pl.col("resources").str.extract(_BUCKET_OWNER), "recipient").alias(
            "bucket_account"
        ),
    )
    base = _copy_owners(copy_source(base, "copy")).with_columns(
        pl.when(pl.col("account").is_not_null() & pl.col("bucket_account").is_not_null())
        .then((pl.col("account") != pl.col("bucket_account")) | pl.col("spans_accounts"))
        .alias("is_cross_account")
    )  # fmt: skip
    copies = copy_reads(base.filter(pl.col("copy_bucket").is_not_null()), "copy", "copy_range")
    sides = (
        pl.col("copy_account").alias("bucket_account"),
        pl.col("bucket_account").alias("copy_account"),
    )
    both = [fitting(base, STORAGE_ACCESS), fitting(copies.with_columns(*sides), STORAGE_ACCESS)]
    return pl.concat(both, how="diagonal")


def _copy_owners(rows: pl.DataFrame) -> pl.DataFrame:
    """Each side's account where a call spans two: by the list of resources, row by row (few are)."""
    sides = [
        (owner_of(bucket, found), owner_of(other or "", found)) if spans else (own, None)
        for bucket, other, found, own, spans in rows.select(
            "bucket", "copy_bucket", "resources", "bucket_account", "spans_accounts"
        ).iter_rows()
    ]
    schema = {"bucket_account": pl.String, "copy_account": pl.String}
    named = pl.DataFrame(sides, schema=schema, orient="row")
    return rows.with_columns(*named)


def _event_rows(rows: pl.DataFrame) -> pl.DataFrame:
    nameless = pl.when(pl.col("event_id").is_null()).then("text")
    kinds = rows.with_columns(
        pl.coalesce("event_id", line_id(nameless)).alias("event_id"),
        pl.col("name").alias("action"),
        event_class(
            pl.col("service"), pl.col("name"), pl.col("category"), pl.col("is_read_only")
        ).alias("event_class"),
        pl.coalesce("bucket", *(f"target:{path}" for path in _TARGETS)).alias("target"),
        pl.col("recipient").alias("target_account"),
        bounded_detail(pl.col("request")).alias("detail"),
    )
    gives = kinds["event_class"].is_in(_GIVES)
    found = [
        _gains(request, recipient) if asked else (None, None, None)
        for asked, request, recipient in zip(gives, rows["request"], rows["recipient"], strict=True)
    ]
    gained = pl.DataFrame(
        found,
        schema={
            "granted_to": pl.List(pl.String),
            "destination": pl.String,
            "is_cross_account": pl.Boolean,
        },
        orient="row",
    )
    full = pl.concat([kinds, gained], how="horizontal").with_columns(
        pl.when(pl.col("bucket").is_not_null()).then(pl.lit("bucket")).alias("target_kind")
    )
    return fitting(full, STORAGE_EVENT)


def _gains(
    request: str | None, own: str | None
) -> tuple[list[str] | None, str | None, bool | None]:
    """granted_to, destination, and whether another account than `own` is among them."""
    parameters = loaded(request)
    names, place = granted_to(parameters), destination(parameters)
    gaining = accounts(parameters, names, place)
    if not gaining or own is None:
        return names, place, None
    return names, place, bool(gaining - {own})
