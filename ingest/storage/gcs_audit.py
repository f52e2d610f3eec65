"""Google Cloud audit logs of storage and of what guards it."""

from __future__ import annotations

import json

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, rejects, source

from .._json_records import Form, bounded_detail, fitting, read_records, scrubbed, timed
from .._typed_text import address, instant, line_id, unless
from ..tables.storage_access import STORAGE_ACCESS
from ..tables.storage_event import STORAGE_EVENT

_PAYLOAD = "$.protoPayload"
_WHO = f"{_PAYLOAD}.authenticationInfo"
_FORM = Form(
    marker=(f"{_PAYLOAD}.methodName", "$.protopayload_auditlog.methodName"),
    envelopes=("$.entries", "$.message", "$.data"),
    fields={
        "time": "$.timestamp",
        "received_time": "$.receiveTimestamp",
        "insert_id": "$.insertId",
        "log_name": "$.logName",
        "operation": f"{_PAYLOAD}.methodName",
        "service_name": f"{_PAYLOAD}.serviceName",
        "resource": f"{_PAYLOAD}.resourceName",
        "email": f"{_WHO}.principalEmail",
        "subject": f"{_WHO}.principalSubject",
        "key_name": f"{_WHO}.serviceAccountKeyName",
        "delegate": f"{_WHO}.serviceAccountDelegationInfo[0].firstPartyPrincipal.principalEmail",
        "ip": f"{_PAYLOAD}.requestMetadata.callerIp",
        "agent": f"{_PAYLOAD}.requestMetadata.callerSuppliedUserAgent",
        "code": f"{_PAYLOAD}.status.code",
        "message": f"{_PAYLOAD}.status.message",
        "delta": f"{_PAYLOAD}.serviceData.policyDelta.bindingDeltas",
        "request": f"{_PAYLOAD}.request",
        "project": "$.resource.labels.project_id",
        "location": "$.resource.labels.location",
        "region": f"{_PAYLOAD}.resourceLocation.currentLocations[0]",
    },
)
_CLASSES = {
    "storage.objects.get": "read",
    "storage.objects.list": "list",
    "storage.objects.create": "write",
    "storage.objects.insert": "write",
    "storage.objects.compose": "write",
    "storage.objects.copy": "write",
    "storage.objects.rewrite": "write",
    "storage.objects.update": "config",
    "storage.objects.patch": "config",
    "storage.objects.delete": "delete",
    "storage.multipartUploads.create": "write",
    "storage.multipartUploads.abort": "delete",
    "storage.multipartUploads.list": "list",
    "storage.buckets.list": "list",
    "storage.buckets.get": "head",
}
_EVENTS = (
    (r"(?i)(?:snapshots|images|disks|machineImages)\.setIamPolicy$", "snapshot_share"),
    (r"(?i)setIam(?:Policy|Permissions)$|defaultObjectAcls|bucketAccessControls", "policy"),
    (r"(?i)objects\.restore|objects\.setStorageClass", "restore"),
    (r"(?i)hmacKeys\.create|CreateServiceAccountKey|UploadServiceAccountKey|CreateApiKey", "key_created"),
    (r"(?i)GenerateAccessToken|GenerateIdToken|SignBlob|SignJwt|ExchangeToken", "role_assumed"),
    (r"(?i)DeleteSink|DeleteLogBucket|DeleteLog$|DisableDataAccess", "log_stop"),
    (r"(?i)UpdateSink|CreateSink|(?:Create|Update)Exclusion|UpdateBucket$|UpdateSettings", "log_config"),
    (r"(?i)AccessSecretVersion", "secret_read"),
    (r"(?i)storagetransfer|TransferJob", "transfer"),
    (r"(?i)images\.(?:export|insert)|snapshots\.insert|disks\.createSnapshot|machineImages\.insert", "export"),
    (r"(?i)packetMirror|subnetworks\.patch", "network_log"),
    (r"(?i)notification", "transfer"),
    (r"(?i)buckets\.(?:update|patch|delete)|lockRetentionPolicy", "object_protection"),
    (r"(?i)CryptoKey|Decrypt|Encrypt", "encryption"),
    (r"(?i)\.(?:get|list|aggregatedList|getIamPolicy)$|\.(?:Get|List)[A-Z]\w*$", "config_read"),
)  # fmt: skip
# Its events are told apart by verb and resource there; two sources would count them twice.
_KUBERNETES = "an entry of k8s.io: kubernetes_audit reads it"
_OBJECT = r"(?s)^projects/[^/]*/buckets/([^/]+)(?:/objects/(.*))?$"


def _looks_like(head: bytes, _file_name: str) -> bool:
    return b'"protoPayload"' in head and b'"methodName"' in head and b"io.k8s." not in head


@source(outputs=(STORAGE_ACCESS, STORAGE_EVENT), sniff=_looks_like)
def gcs_audit(lines: pl.DataFrame, context: Context) -> Parsed:
    """Google Cloud audit logs (LogEntry with an AuditLog), an entry a line, an array, or indented as
    `gcloud logging read --format=json` prints: Cloud Storage calls to storage_access, all other
    services and changes of policies to storage_event.

    Field names after google/cloud/audit/audit_log.proto. Audit logs hold no bytes and no byte range:
    both are NULL, `gcs_usage` has the bytes. `status` there is a gRPC code, 7 permission denied;
    there is no HTTP status. Resource names are not encoded. Entries of
    other logs are rejects, those of k8s.io too.
    """
    found = read_records(lines, context, _FORM)
    is_kubernetes = (pl.col("service_name") == "k8s.io").fill_null(value=False)
    other = rejects(found.rows.filter(is_kubernetes), _KUBERNETES).select(*REJECTS_SCHEMA)
    good, late = timed(_typed(found.rows.filter(~is_kubernetes), context), "time")
    is_object = pl.col("op_class").is_not_null()
    return Parsed(
        {
            "storage_access": fitting(good.filter(is_object), STORAGE_ACCESS),
            "storage_event": fitting(_events(good.filter(~is_object)), STORAGE_EVENT),
        },
        scrubbed(pl.concat([found.rejects, late, other])),
        found.skipped,
        found.held_from,
    )


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    who = pl.coalesce(unless(pl.col("email")), "subject")
    is_storage = pl.col("service_name") == "storage.googleapis.com"
    failed = unless(pl.col("code"), "0")
    return rows.with_columns(
        instant(pl.col("time")).alias("ts"),
        instant(pl.col("received_time")).alias("received_ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("gcs_audit").alias("source"),
        pl.lit("gcs").alias("store_kind"),
        pl.col("resource").str.extract(_OBJECT, 1).fill_null("").alias("bucket"),
        pl.col("resource").str.extract(_OBJECT, 2).fill_null("").alias("object_key"),
        pl.lit("").alias("version_id"),
        pl.coalesce("insert_id", line_id(pl.col("text"))).alias("request_id"),
        pl.lit(0, pl.Int16).alias("answer"),
        pl.when(who.is_null() & is_storage).then(pl.lit("anonymous")).otherwise(who).alias("principal"),
        pl.when(who.is_null() & is_storage).then(pl.lit("anonymous"))
        .when(who.str.contains(r"gserviceaccount\.com$")).then(pl.lit("service_account"))
        .when(who.is_not_null()).then(pl.lit("user")).alias("principal_type"),
        who.alias("requester"),
        pl.col("delegate").alias("parent_principal"),
        pl.col("key_name").str.extract(r"([^/]+)$").alias("access_key_id"),
        address(pl.col("ip")).alias("ip"),
        unless(pl.col("agent")).alias("user_agent"),
        pl.when(failed.is_not_null()).then(pl.coalesce(unless(pl.col("message")), failed)).alias("error"),
        pl.coalesce("location", "region").alias("region"),
        pl.when(is_storage).then(
            pl.col("operation").replace_strict(_CLASSES, default=None, return_dtype=pl.String)
        ).alias("op_class"),
    )  # fmt: skip


def _events(rows: pl.DataFrame) -> pl.DataFrame:
    known = (pl.when(pl.col("operation").str.contains(p)).then(pl.lit(c)) for p, c in _EVENTS)
    added = [_added(delta) for delta in rows["delta"]]
    return rows.with_columns(
        pl.coalesce(*known, pl.lit("other")).alias("event_class"),
        pl.col("request_id").alias("event_id"),
        pl.col("operation").alias("action"),
        pl.col("service_name").str.replace(r"\.googleapis\.com$", "").alias("service"),
        unless(pl.col("bucket")).alias("bucket"),
        pl.col("resource").alias("target"),
        pl.col("resource").str.extract(r"([A-Za-z]+)/[^/]+$").alias("target_kind"),
        pl.col("project").alias("target_account"),
        pl.Series("granted_to", added, dtype=pl.List(pl.String)),
        bounded_detail(pl.col("request")).alias("detail"),
    )


def _added(delta: str | None) -> list[str] | None:
    """Members that a policy's change adds; `allUsers` and `allAuthenticatedUsers` are `*`."""
    try:
        found = json.loads(delta or "null")
    except (ValueError, RecursionError):
        return None
    names = {
        change["member"]
        for change in (found if isinstance(found, list) else [])
        if isinstance(change, dict)
        and change.get("action") == "ADD"
        and isinstance(change.get("member"), str)
    }
    return sorted("*" if name.startswith("all") else name for name in names) or None
