"""storage_access: who read, wrote, copied, listed or deleted what in an object store or file system."""

from fleetmark.table import Column, Table

_REQUEST = (
    Column("cluster", "VARCHAR", "cluster (or account) the log belongs to"),
    Column("source", "VARCHAR", "log format the row was read from: s3_access, ...", null=False),
    Column(
        "store_kind",
        "VARCHAR",
        "s3, gcs, azure_blob, minio, ceph_rgw, s3_compatible, http (model hub, artefact server), "
        "lustre or posix",
    ),
    Column("ts", "TIMESTAMP", "event time: when the store received the request"),
    Column(
        "received_ts",
        "TIMESTAMP",
        "when the record was delivered, as far as record or file name tell; less `ts` it is the "
        "delivery delay",
    ),
    Column(
        "bucket",
        "VARCHAR",
        "bucket, container (`account/container` on Azure), site or file system; '' where the "
        "request names none",
    ),
    Column(
        "object_key",
        "VARCHAR",
        "key or path, decoded once; '' where the request names no object",
    ),
    Column(
        "object_key_raw",
        "VARCHAR",
        "key as the log spells it, where decoding changed it (a `+` is never decoded)",
    ),
    Column("version_id", "VARCHAR", "version of the object; '' where none is named"),
    Column("object_ref", "VARCHAR", "the file system's own id of a file: Lustre FID, device:inode"),
    Column(
        "request_id",
        "VARCHAR",
        "the store's id of the request; several rows of a batch or a copy share it. "
        "Where the log gives none: `line:` and a hash of the record",
    ),
    Column("operation", "VARCHAR", "operation as the store names it, e.g. REST.GET.OBJECT"),
    Column(
        "op_class",
        "VARCHAR",
        "read, copy_read (source side of a server-side copy), write, list, head, delete, config, "
        "auth or other. A file opened for reading is a read of unknown bytes",
        null=False,
    ),
    Column("log_stream", "VARCHAR", "the numbered stream the record stands in, e.g. an MDT's log"),
    Column("sequence_no", "BIGINT", "number in `log_stream`: a gap in it is a lost record"),
)
_WHO = (
    Column(
        "principal",
        "VARCHAR",
        "who asked: the requester without its session; 'anonymous' where the request was not "
        "authenticated",
    ),
    Column(
        "principal_type",
        "VARCHAR",
        "anonymous, user, assumed_role, federated_user, root, account, canonical_id, "
        "origin_access, service, service_account, uid, signed_url or other",
    ),
    Column(
        "session",
        "VARCHAR",
        "session name of an assumed role or a federated user; job id of a file system",
    ),
    Column(
        "job_hint",
        "VARCHAR",
        "job id that the session name claims (`job-88412` gives 88412); a hint, never a proof",
    ),
    Column(
        "parent_principal",
        "VARCHAR",
        "who stands behind the principal: owner of a service account, delegating account",
    ),
    Column("requester", "VARCHAR", "requester as the log spells it; NULL where anonymous"),
    Column("account", "VARCHAR", "account of the principal, as far as its name tells"),
    Column("access_key_id", "VARCHAR", "id of the access key that signed, where it is logged"),
    Column(
        "token_hash",
        "VARCHAR",
        "what all uses of one signed URL or token have in common, never the secret itself",
    ),
    Column("signed_ttl_s", "BIGINT", "how long the signed URL was valid from its making", "s"),
    Column("ip", "VARCHAR", "address the request came from; may be a proxy, NAT or endpoint"),
    Column("node", "VARCHAR", "host the request came from, where the log names it"),
    Column("command", "VARCHAR", "program that asked, where the log names it: cp, /usr/bin/rsync"),
    Column("user_agent", "VARCHAR", "client's User-Agent"),
    Column("referer", "VARCHAR", "Referer header, secret parameters replaced by REDACTED"),
    Column(
        "auth_method",
        "VARCHAR",
        "header, presigned (signed URL, SAS), form, oauth, key or as the log spells it; NULL: not "
        "signed or not logged",
    ),
)
_OUTCOME = (
    Column(
        "answer",
        "SMALLINT",
        "status, 0 where the log gives none: keeps two answers under one request id apart",
    ),
    Column("status", "SMALLINT", "HTTP status"),
    Column("error", "VARCHAR", "the store's error code; NULL: none"),
    Column("sent_bytes", "BIGINT", "bytes of body sent; NULL: unknown, never 0 for it", "bytes"),
    Column("received_bytes", "BIGINT", "bytes of body received; NULL: unknown", "bytes"),
    Column("object_bytes", "BIGINT", "size of the object concerned", "bytes"),
    Column("range_start", "BIGINT", "first byte asked for, from 0; NULL: not logged", "bytes"),
    Column("range_end", "BIGINT", "last byte asked for, included; NULL: not logged", "bytes"),
    Column("total_s", "DOUBLE", "from receipt to the last byte sent", "s"),
    Column("turnaround_s", "DOUBLE", "from last byte received to first byte sent", "s"),
)
_WHERE = (
    Column("bucket_account", "VARCHAR", "account that owns the bucket, where the log names it"),
    Column(
        "is_cross_account",
        "BOOLEAN",
        "principal and bucket, or the two sides of a copy, belong to two accounts; NULL: not known",
    ),
    Column("copy_bucket", "VARCHAR", "the other side of a server-side copy: its bucket"),
    Column("copy_key", "VARCHAR", "the other side of a server-side copy: its key"),
    Column("copy_account", "VARCHAR", "account of the other side's bucket"),
    Column("encryption_key_id", "VARCHAR", "key that the object is encrypted with"),
    Column("region", "VARCHAR", "region the request was served in"),
    Column("vpc_endpoint_id", "VARCHAR", "private endpoint the request came through"),
)
_TRANSPORT = (
    Column("request_uri", "VARCHAR", "request line, secret parameters replaced by REDACTED"),
    Column("host_header", "VARCHAR", "endpoint the client addressed"),
    Column("tls_version", "VARCHAR", "TLS version; NULL: none or unknown"),
    Column("cipher", "VARCHAR", "TLS cipher suite"),
    Column("signature_version", "VARCHAR", "SigV2 or SigV4"),
    Column("bucket_owner", "VARCHAR", "canonical id of the bucket's owner"),
    Column("access_point_arn", "VARCHAR", "access point the request went through"),
    Column("acl_required", "BOOLEAN", "access was granted by an ACL; NULL: not logged"),
    Column("source_region", "VARCHAR", "region the request came from"),
    Column("host_id", "VARCHAR", "the store's extended request id"),
    Column("more_fields", "VARCHAR", "fields after those known, as written"),
)

STORAGE_ACCESS = Table(
    name="storage_access",
    doc="Requests to object stores and file systems, one row per request and object.",
    grain=("cluster", "bucket", "request_id", "operation", "object_key", "version_id", "answer"),
    time="ts",
    columns=(*_REQUEST, *_WHO, *_OUTCOME, *_WHERE, *_TRANSPORT),
)
