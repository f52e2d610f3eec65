"""Azure Storage resource logs and the activity log of storage accounts."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._json_records import Form, bounded_detail, fitting, read_records, scrubbed, timed
from .._redact import redact
from .._typed_text import address, instant, line_id, token_hash, unless, whole
from ..tables.storage_access import STORAGE_ACCESS
from ..tables.storage_event import STORAGE_EVENT
from ._object_path import unquoted

# Each field under its name in resource logs and its name in Log Analytics (StorageBlobLogs).
_BOTH = {
    "time": ("time", "TimeGenerated"),
    "received_time": ("_unknown", "_TimeReceived"),
    "operation": ("operationName", "OperationName"),
    "category": ("category", "Category"),
    "status": ("statusCode", "StatusCode"),
    "status_text": ("statusText", "StatusText"),
    "outcome": ("resultType", "ActivityStatusValue"),
    "remote": ("callerIpAddress", "CallerIpAddress"),
    "request_id": ("correlationId", "CorrelationId"),
    "total_ms": ("durationMs", "DurationMs"),
    "auth": ("identity.type", "AuthenticationType"),
    "hash": ("identity.tokenHash", "AuthenticationHash"),
    "object_id": ("identity.requester.objectId", "RequesterObjectId"),
    "upn": ("identity.requester.upn", "RequesterUpn"),
    "app_id": ("identity.requester.appId", "RequesterAppId"),
    "tenant": ("identity.requester.tenantId", "RequesterTenantId"),
    "caller": ("identity.claims.name", "Caller"),
    "region": ("location", "Location"),
    "account_name": ("properties.accountName", "AccountName"),
    "agent": ("properties.userAgentHeader", "UserAgentHeader"),
    "referrer": ("properties.referrerHeader", "ReferrerHeader"),
    "path": ("properties.objectKey", "ObjectKey"),
    "first_ms": ("properties.serverLatencyMs", "ServerLatencyMs"),
    "sent": ("properties.responseBodySize", "ResponseBodySize"),
    "received": ("properties.requestBodySize", "RequestBodySize"),
    "length": ("properties.contentLengthHeader", "ContentLengthHeader"),
    "tls": ("properties.tlsVersion", "TlsVersion"),
    "copy_uri": ("properties.sourceUri", "SourceUri"),
    "uri": ("uri", "Uri"),
    "resource": ("resourceId", "_ResourceId"),
    "service": ("properties.serviceType", "ServiceType"),
    "detail": ("properties", "Properties"),
}
_FORM = Form(
    marker=("$.operationName", "$.OperationName"),
    envelopes=("$.records", "$.Records", "$.value", "$.message"),
    fields={f"{name}_0": f"$.{one}" for name, (one, _) in _BOTH.items()}
    | {f"{name}_1": f"$.{two}" for name, (_, two) in _BOTH.items()},
)
_CLASSES = (
    (r"^(?:GetBlob|ReadFile|GetFile|QueryBlobContents|ReadBlob)$", "read"),
    (r"^CopyBlobSource$|^CopyFileSource$", "copy_read"),
    (r"^(?:GetBlobProperties|GetBlobMetadata|GetPathStatus|GetFileProperties|GetPathAccessControl)$", "head"),
    (r"^(?:List|GetBlockList|GetPageRegions|ListFilesystem)", "list"),
    (
        r"^(?:Put(?:Blob|Block|BlockList|BlockFromURL|Page|Range|BlobFromURL)|Append(?:Block|File)|FlushFile|"
        r"CopyBlob|CopyBlobDestination|CopyBlobFromURL|CopyFile|CreatePathFile|CreateFile|RenamePathFile|RenameFile)",
        "write",
    ),
    (r"^(?:Delete(?:Blob|Path|File|Container|Filesystem)|AbortCopyBlob|DeleteAllBlobs)", "delete"),
    (r"^[A-Z][A-Za-z]+$", "config"),
)  # fmt: skip
_EVENTS = (
    (r"(?i)/(?:listkeys|listaccountsas|listservicesas|getuserdelegationkey|generateuserdelegationkey)/action$", "grant"),
    (r"(?i)/(?:begingetaccess|endgetaccess)/action$", "export"),
    (r"(?i)/regeneratekey/action$", "key_created"),
    (r"(?i)diagnosticsettings/delete$|flowlogs/delete$", "log_stop"),
    (r"(?i)diagnosticsettings/write$|flowlogs/write$", "log_config"),
    (r"(?i)roleassignments/|roledefinitions/|/setacl|immutabilitypolicies/delete$", "policy"),
    (r"(?i)objectreplicationpolicies/", "replication"),
    (r"(?i)managementpolicies/", "lifecycle"),
    (r"(?i)storagemover|databoxjobs|inventorypolicies", "transfer"),
    (r"(?i)/secrets/(?:read|get)|^SecretGet$", "secret_read"),
    (r"(?i)storageaccounts/(?:write|delete)$|containers/write$", "policy"),
    (r"(?i)/read$", "config_read"),
)  # fmt: skip
_METHODS = {"SAS": "presigned", "DelegationSas": "presigned", "AccountKey": "key", "OAuth": "oauth"}


def _looks_like(head: bytes, _file_name: str) -> bool:
    return b"StorageRead" in head or b"StorageWrite" in head or b"MICROSOFT.STORAGE" in head.upper()


@source(outputs=(STORAGE_ACCESS, STORAGE_EVENT), sniff=_looks_like)
def azure_storage(lines: pl.DataFrame, context: Context) -> Parsed:
    """Azure Storage resource logs (StorageRead, StorageWrite, StorageDelete), schema 1.0, a record a
    line or in an Event Hub's `records`; rows of StorageBlobLogs as JSON; the activity log.

    Field names after the Azure Monitor references StorageBlobLogs and "Storage monitoring data". The
    bucket is `account/container`. The principal of OAuth is the user's name or object id; of a
    SAS `sas:` and a hash of what Azure logs of its signature, so that all uses of one are together;
    of an account key `account_key:`. An answer counts as a success by its status; its text stands
    in `error` if it is none. Slashes without container are account calls. No byte ranges are logged.
    """
    found = read_records(lines, context, _FORM)
    merged = found.rows.select(
        "line_no", "text", *(pl.coalesce(f"{n}_0", f"{n}_1").alias(n) for n in _BOTH)
    )
    good, late = timed(_typed(merged, context), "time")
    is_event = pl.col("operation").str.contains("/")
    return Parsed(
        {
            "storage_access": fitting(_access(good.filter(~is_event)), STORAGE_ACCESS),
            "storage_event": fitting(_events(good.filter(is_event)), STORAGE_EVENT),
        },
        scrubbed(pl.concat([found.rejects, late])),
        found.skipped,
        found.held_from,
    )


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    status = whole(pl.col("status"), pl.Int16)
    shared = pl.coalesce(pl.col("hash").str.extract(r"SasSignature\(([^)]*)\)"), "hash")
    is_signed = pl.col("auth").is_in(["SAS", "DelegationSas", "SAS Key"])
    user = pl.coalesce(unless(pl.col("upn")), unless(pl.col("object_id")), unless(pl.col("app_id")))
    return rows.with_columns(
        instant(pl.col("time")).alias("ts"),
        instant(pl.col("received_time")).alias("received_ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("azure_storage").alias("source"),
        status.alias("status"),
        status.fill_null(0).alias("answer"),
        pl.when(~status.is_between(200, 299).fill_null(value=True))
        .then(unless(pl.col("status_text"), "Success")).alias("error"),
        pl.when(is_signed).then(pl.concat_str(pl.lit("sas:"), token_hash(shared)))
        .when(pl.col("auth") == "AccountKey").then(pl.concat_str(pl.lit("account_key:"), token_hash(shared)))
        .when(pl.col("auth") == "Anonymous").then(pl.lit("anonymous"))
        .otherwise(pl.coalesce(user, "caller")).alias("principal"),
        pl.when(is_signed).then(pl.lit("signed_url")).when(pl.col("auth") == "AccountKey").then(pl.lit("account"))
        .when(pl.col("auth") == "Anonymous").then(pl.lit("anonymous"))
        .when(pl.col("upn").is_not_null()).then(pl.lit("user"))
        .when(user.is_not_null()).then(pl.lit("service_account")).alias("principal_type"),
        pl.when(is_signed).then(user).alias("parent_principal"),
        user.alias("requester"),
        pl.col("tenant").alias("account"),
        pl.when(is_signed).then(token_hash(pl.col("hash"))).alias("token_hash"),
        pl.coalesce(pl.col("auth").replace_strict(_METHODS, default=None, return_dtype=pl.String), pl.when(pl.col("auth") != "Anonymous").then("auth")).alias("auth_method"),
        address(pl.col("remote")).alias("ip"),
        unless(pl.col("agent")).alias("user_agent"),
    )  # fmt: skip


def _access(rows: pl.DataFrame) -> pl.DataFrame:
    plain, raw = unquoted(pl.col("path").str.strip_prefix("/"))
    place = r"^([^/]+/[^/]+)(?:/|$)"
    in_container = r"(?s)^[^/]+/[^/]+/(.*)$"
    seconds = {"total_ms": "total_s", "first_ms": "turnaround_s"}
    copied = pl.col("copy_uri").str.extract(r"^https?://([^./]+)\.[^/]+(/[^?]*)", 2)
    return rows.with_columns(
        pl.lit("azure_blob").alias("store_kind"),
        pl.coalesce(plain.str.extract(place), "account_name", pl.lit("")).alias("bucket"),
        plain.str.extract(in_container).fill_null("").alias("object_key"),
        raw.str.extract(in_container).alias("object_key_raw"),
        pl.col("uri").str.extract(r"(?i)[?&](?:versionid|snapshot)=([^&]+)").fill_null("").alias("version_id"),
        pl.coalesce(unless(pl.col("request_id")), line_id(pl.col("text"))).alias("request_id"),
        pl.coalesce(
            *(pl.when(pl.col("operation").str.contains(p)).then(pl.lit(c)) for p, c in _CLASSES),
            pl.lit("other"),
        ).alias("op_class"),
        whole(pl.col("sent")).alias("sent_bytes"),
        pl.coalesce(whole(pl.col("received")), whole(pl.col("length"))).alias("received_bytes"),
        *((pl.col(c).cast(pl.Float64, strict=False) / 1000).round(6).alias(n) for c, n in seconds.items()),
        redact(pl.col("uri")).alias("request_uri"),
        redact(unless(pl.col("referrer"))).alias("referer"),
        pl.col("tls").str.replace(r"^TLS ", "TLSv").alias("tls_version"),
        copied.str.extract(r"^/([^/]+)/").alias("copy_bucket"),
        copied.str.extract(r"^/[^/]+/(.+)$").alias("copy_key"),
    )  # fmt: skip


def _events(rows: pl.DataFrame) -> pl.DataFrame:
    known = (pl.when(pl.col("operation").str.contains(p)).then(pl.lit(c)) for p, c in _EVENTS)
    return rows.with_columns(
        pl.coalesce(*known, pl.lit("other")).alias("event_class"),
        pl.coalesce(unless(pl.col("request_id")), line_id(pl.col("text"))).alias("event_id"),
        pl.col("operation").str.to_lowercase().alias("action"),
        pl.col("operation").str.extract(r"(?i)^microsoft\.([a-z]+)/").str.to_lowercase().alias("service"),
        pl.col("resource").alias("target"),
        pl.col("resource").str.extract(r"(?i)/providers/[^/]+/([^/]+)/").alias("target_kind"),
        pl.col("resource").str.extract(r"(?i)/subscriptions/([^/]+)").alias("target_account"),
        pl.coalesce(
            pl.col("error"), pl.when(pl.col("outcome").str.contains("(?i)fail")).then("outcome")
        ).alias("error"),
        bounded_detail(pl.col("detail")).alias("detail"),
    )  # fmt: skip
