"""What a CloudTrail event is about: names of calls as the services' API references list them."""

from __future__ import annotations

import polars as pl

# Object calls of S3 that go to storage_access.
OBJECT_CALLS = {
    "read": "GetObject SelectObjectContent GetObjectTorrent",
    "head": "HeadObject HeadBucket GetObjectAttributes",
    "list": "ListObjects ListObjectsV2 ListObjectVersions ListParts ListMultipartUploads ListBuckets "
    "ListDirectoryBuckets",
    "write": "PutObject PostObject UploadPart UploadPartCopy CopyObject CreateMultipartUpload "
    "CompleteMultipartUpload RenameObject",
    "delete": "DeleteObject DeleteObjects AbortMultipartUpload",
    "config": "GetObjectAcl GetObjectTagging GetObjectRetention GetObjectLegalHold",
    "auth": "CreateSession",
}
# All other calls go to storage_event.
_EVENT_CALLS = {
    "policy": "PutBucketPolicy DeleteBucketPolicy PutBucketAcl PutObjectAcl PutAccessPointPolicy "
    "DeleteAccessPointPolicy CreateAccessPoint CreateAccessPointForObjectLambda PutBucketWebsite "
    "PutAccessPointPolicyForObjectLambda PutMultiRegionAccessPointPolicy PutBucketOwnershipControls "
    "PutBucketCors PutBucketRequestPayment PutRolePolicy AttachRolePolicy PutUserPolicy "
    "AttachUserPolicy PutGroupPolicy AttachGroupPolicy CreatePolicyVersion SetDefaultPolicyVersion "
    "UpdateAssumeRolePolicy PutRolePermissionsBoundary DeleteRolePermissionsBoundary PutResourcePolicy "
    "AddUserToGroup CreateRole",
    "public_access": "PutBucketPublicAccessBlock DeleteBucketPublicAccessBlock PutPublicAccessBlock "
    "DeletePublicAccessBlock PutAccountPublicAccessBlock DeleteAccountPublicAccessBlock "
    "DisableSnapshotBlockPublicAccess DisableImageBlockPublicAccess",
    "grant": "CreateGrant PutKeyPolicy RevokeGrant RetireGrant CreateResourceShare "
    "AssociateResourceShare CreateAccessGrant CreateAccessGrantsLocation GetDataAccess",
    "role_assumed": "AssumeRole AssumeRoleWithSAML AssumeRoleWithWebIdentity AssumeRoot "
    "GetFederationToken GetSessionToken",
    "login": "ConsoleLogin SwitchRole ExitRole",
    "key_created": "CreateAccessKey UpdateAccessKey CreateLoginProfile UpdateLoginProfile CreateUser "
    "CreateServiceSpecificCredential ImportKeyPair CreateKeyPair",
    "replication": "PutBucketReplication DeleteBucketReplication",
    "transfer": "CreateJob UpdateJobStatus PutBucketInventoryConfiguration CreateTask "
    "PutBucketNotification PutBucketNotificationConfiguration PutBucketAnalyticsConfiguration "
    "CreateLocationS3 CreateLocationObjectStorage CreateLocationAzureBlob CreateLocationNfs "
    "StartTaskExecution StartFileTransfer CreateServer CreateConnector",
    "snapshot_share": "ModifySnapshotAttribute ModifyDBSnapshotAttribute "
    "ModifyDBClusterSnapshotAttribute",
    "image_share": "ModifyImageAttribute ModifyFpgaImageAttribute",
    "export": "CreateSnapshot CreateSnapshots CopySnapshot CreateImage CopyImage ExportImage "
    "CreateStoreImageTask CreateInstanceExportTask StartExportTask GetSnapshotBlock ListSnapshotBlocks "
    "ListChangedBlocks SharedSnapshotCopyInitiated SharedSnapshotVolumeCreated",
    "restore": "RestoreObject",
    "encryption": "PutBucketEncryption DeleteBucketEncryption DisableKey ScheduleKeyDeletion Decrypt "
    "GenerateDataKey GenerateDataKeyWithoutPlaintext ReEncrypt",
    "lifecycle": "PutBucketLifecycle PutBucketLifecycleConfiguration DeleteBucketLifecycle",
    "object_protection": "PutBucketVersioning PutObjectLockConfiguration PutObjectRetention "
    "PutBucketObjectLockConfiguration PutObjectLegalHold PutObjectTagging DeleteObjectTagging "
    "DeleteBucket PutBucketTagging DeleteBucketTagging",
    "log_stop": "StopLogging DeleteTrail DeleteEventDataStore StopEventDataStoreIngestion",
    "log_config": "PutEventSelectors UpdateTrail CreateTrail StartLogging PutInsightSelectors "
    "PutBucketLogging UpdateEventDataStore PutEventConfiguration DeleteLogGroup DeleteLogStream "
    "PutRetentionPolicy DeleteRetentionPolicy DeleteSubscriptionFilter PutSubscriptionFilter "
    "DeleteDestination",
    "network_log": "CreateFlowLogs DeleteFlowLogs DeleteResolverQueryLogConfig "
    "DisassociateResolverQueryLogConfig CreateTrafficMirrorSession",
    "detection_config": "DeleteDetector UpdateDetector CreateIPSet UpdateIPSet DeleteIPSet "
    "CreateThreatIntelSet UpdateThreatIntelSet DeletePublishingDestination CreateFilter UpdateFilter "
    "UpdatePublishingDestination StopMonitoringMembers DisassociateMembers DeleteMembers ArchiveFindings "
    "DisassociateFromMasterAccount DisassociateFromAdministratorAccount StopConfigurationRecorder "
    "DeleteConfigurationRecorder DeleteDeliveryChannel DisableSecurityHub DisableMacie DeleteConfigRule "
    "DeleteRule DisableRule DeleteAlarms DisableAlarmActions",
    "secret_read": "GetSecretValue BatchGetSecretValue GetParameter GetParameters GetParametersByPath",
    "list": "ListAccessPoints ListAllMyBuckets",
}  # fmt: skip
# These words are calls of many services; they mean what stands above only in the one named.
_ONLY_IN = {
    "CreateJob": "s3", "UpdateJobStatus": "s3", "CreateTask": "datasync", "CreateServer": "transfer",
    "CreateConnector": "transfer", "CreateFilter": "guardduty", "UpdateFilter": "guardduty",
    "DeleteRule": "events", "DisableRule": "events", "DeleteMembers": "guardduty",
    "DeleteDestination": "logs", "Decrypt": "kms",
}  # fmt: skip
_CLASS_OF = {name: kind for kind, names in _EVENT_CALLS.items() for name in names.split()}
_OP_CLASS_OF = {name: kind for kind, names in OBJECT_CALLS.items() for name in names.split()}


def op_class(service: pl.Expr, action: pl.Expr) -> pl.Expr:
    """Class of an object call of S3 (also Express and Outposts); NULL for any other call."""
    known = action.replace_strict(_OP_CLASS_OF, default=None, return_dtype=pl.String)
    return pl.when(service.is_in(["s3", "s3express", "s3-outposts"])).then(known)


def event_class(service: pl.Expr, action: pl.Expr, category: pl.Expr, read: pl.Expr) -> pl.Expr:
    """event_class of storage_event; `read`: the call changes nothing."""
    known = action.replace_strict(_CLASS_OF, default=None, return_dtype=pl.String)
    only = action.replace_strict(_ONLY_IN, default=None, return_dtype=pl.String)
    return pl.coalesce(
        pl.when(category == "Insight").then(pl.lit("insight")),
        pl.when(only.is_null() | (only == service)).then(known),
        pl.when(read).then(pl.lit("config_read")),
        pl.lit("other"),
    )
