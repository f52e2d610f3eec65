"""Classes of the S3 API's calls under the names that other servers of that API log."""

from __future__ import annotations

import polars as pl

from .._typed_text import unless

# The first pattern that fits decides. MinIO: GetObject, PutObjectPart; RGW: get_obj, put_obj.
_CLASSES = (
    (r"^(?:GetObject|SelectObjectContent|GetObjectLambda|get_obj|obj_select)$", "read"),
    (r"^(?:HeadObject|HeadBucket|GetObjectAttributes|stat_bucket|get_obj_attrs)$", "head"),
    (r"(?i)^(?:list|get_bucket_uploads|stat_account)", "list"),
    (
        r"^(?:PutObject(?:Part|Extract)?|CopyObject(?:Part)?|PostPolicyBucket|NewMultipartUpload"
        r"|CompleteMultipartUpload|put_obj|post_obj|copy_obj|init_multipart|complete_multipart"
        r"|AppendObject|RestoreObject|PostRestoreObject|bulk_upload)$",
        "write",
    ),
    (
        r"^(?:Delete(?:Multiple)?Objects?|AbortMultipartUpload|delete_obj|multi_object_delete"
        r"|abort_multipart|bulk_delete)$",
        "delete",
    ),
    (r"(?i)^(?:sts|AssumeRole)", "auth"),
)
_EVENTS = (
    (r"(?i)^(?:Put|Set|Delete)Bucket(?:Policy|ACL)|^(?:put|delete)_bucket_policy|^put_acls", "policy"),
    (r"(?i)public_?access_?block", "public_access"),
    (r"(?i)Replication|SiteReplication|^(?:Add|Set|Remove)RemoteTarget|RemoteBucket", "replication"),
    (r"(?i)Batch|StartJob|BucketNotification|put_bucket_notification", "transfer"),
    (r"(?i)Lifecycle|^put_lc|^delete_lc|Tier", "lifecycle"),
    (r"(?i)Versioning|ObjectLock|Retention|LegalHold|Tagging|DeleteBucket$|delete_bucket$", "object_protection"),
    (r"(?i)Encryption|^KMS", "encryption"),
    (r"(?i)BucketLogging|put_bucket_logging|^SetConfig|^DelConfig|^ServiceRestart", "log_config"),
    (r"(?i)^(?:Add|Update)(?:User|ServiceAccount)|AccessKey|^create_user", "key_created"),
    (r"(?i)Policy(?:For)?|CannedPolicy|AttachDetach|UserOrGroup|Group", "policy"),
    (r"(?i)RestoreObject", "restore"),
    (r"(?i)^(?:Get|List|Info|Describe|get_|list_|Server|Health|Storage|DataUsage)", "config_read"),
)  # fmt: skip


def op_class(operation: pl.Expr) -> pl.Expr:
    """read, write, list, head, delete, auth; NULL for calls that are about no object."""
    return pl.coalesce(*(pl.when(operation.str.contains(p)).then(pl.lit(c)) for p, c in _CLASSES))


def event_class(operation: pl.Expr) -> pl.Expr:
    """event_class of storage_event for calls that change the store, its users or its logs."""
    return pl.coalesce(
        *(pl.when(operation.str.contains(p)).then(pl.lit(c)) for p, c in _EVENTS), pl.lit("other")
    )


def bucket_events(calls: pl.DataFrame, service: str) -> pl.DataFrame:
    """Calls that are none on objects, with the columns that make them rows of storage_event.

    Takes operation, request_id and bucket ('' where the call names none).
    """
    return calls.with_columns(
        event_class(pl.col("operation")).alias("event_class"),
        pl.col("request_id").alias("event_id"),
        pl.col("operation").alias("action"),
        pl.lit(service).alias("service"),
        pl.when(pl.col("bucket") != "").then(pl.lit("bucket")).alias("target_kind"),
        unless(pl.col("bucket")).alias("target"),
        unless(pl.col("bucket")).alias("bucket"),
    )
