"""storage_access: who read, wrote, copied, listed or deleted what in an object store."""

from fleetmark.table import Column, Table

_REQUEST = (
    Column("cluster", "VARCHAR", "cluster (or account) the log belongs to"),
    Column("source", "VARCHAR", "log format the row was read from: s3_access, ...", null=False),
    Column("ts", "TIMESTAMP", "event time: when the store received the request"),
    Column("bucket", "VARCHAR", "bucket or container; '' where the request names none"),
    Column("object_key", "VARCHAR", "key, decoded once; '' where the request names no object"),
    Column(
        "object_key_raw",
        "VARCHAR",
        "key as the log spells it, where decoding changed it (a `+` is never decoded)",
    ),
    Column("version_id", "VARCHAR", "version of the object; '' where none is named"),
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
        "auth or other",
        null=False,
    ),
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
        "origin_access, service or other",
    ),
    Column("session", "VARCHAR", "session name of an assumed role or a federated user"),
    Column(
        "job_hint",
        "VARCHAR",
        "job id that the session name claims (`job-88412` gives 88412); a hint, never a proof",
    ),
    Column("requester", "VARCHAR", "requester as the log spells it; NULL where anonymous"),
    Column("account", "VARCHAR", "account of the principal, as far as its name tells"),
    Column("access_key_id", "VARCHAR", "id of the access key that signed, where it is logged"),
    Column("ip", "VARCHAR", "address the request came from; may be a proxy, NAT or endpoint"),
    Column("user_agent", "VARCHAR", "client's User-Agent"),
    Column("referer", "VARCHAR", "Referer header, secret parameters replaced by REDACTED"),
    Column("auth_method", "VARCHAR", "header, presigned (signed URL) or form; NULL: not signed"),
)
_OUTCOME = (
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
    doc="Requests to object stores, one row per request and object.",
    grain=("cluster", "bucket", "request_id", "operation", "object_key", "version_id"),
    time="ts",
    columns=(*_REQUEST, *_WHO, *_OUTCOME, *_TRANSPORT),
)
