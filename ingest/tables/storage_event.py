"""storage_event: changes to who may read, where data goes and what is logged, and ways into pods."""

from fleetmark.table import Column, Table

_EVENT = (
    Column("cluster", "VARCHAR", "cluster (or account) the log belongs to"),
    Column("source", "VARCHAR", "log format the row was read from: cloudtrail, ...", null=False),
    Column(
        "event_id", "VARCHAR", "the log's id of the event; `line:` and a hash where it has none"
    ),
    Column("ts", "TIMESTAMP", "event time"),
    Column(
        "received_ts",
        "TIMESTAMP",
        "when the record was delivered, as far as record or file name tell",
    ),
    Column("service", "VARCHAR", "API that was called: s3, iam, sts, kms, ec2, kubernetes, ..."),
    Column("action", "VARCHAR", "call as the log names it: PutBucketPolicy, pods/exec", null=False),
    Column(
        "event_class",
        "VARCHAR",
        "what the call is about: policy (who may read), public_access, grant (keys, shares of "
        "keys), role_assumed, login, key_created, replication, transfer (batch, sync, inventory), "
        "snapshot_share, image_share, export, restore, encryption, lifecycle, object_protection, "
        "log_config, log_stop, network_log, detection_config, pod_exec, pod_create, port_forward, "
        "node_proxy, secret_read, config_read, volume, audit_policy, membership, repository, "
        "insight, list or other",
        null=False,
    ),
    Column("is_read_only", "BOOLEAN", "the call changes nothing; NULL: not logged"),
    Column("status", "SMALLINT", "HTTP status, where logged"),
    Column("error", "VARCHAR", "error code; NULL: it succeeded, as far as logged"),
    Column("duration_s", "DOUBLE", "how long a stream (exec, port-forward) stayed open", "s"),
)
_WHO = (
    Column("principal", "VARCHAR", "who asked, without the session; as in storage_access"),
    Column("principal_type", "VARCHAR", "as in storage_access"),
    Column("session", "VARCHAR", "session of an assumed role or a federated user"),
    Column("job_hint", "VARCHAR", "job id that the session name claims"),
    Column("parent_principal", "VARCHAR", "who stands behind: impersonator, invoking service"),
    Column("account", "VARCHAR", "account of the principal"),
    Column("access_key_id", "VARCHAR", "id of the access key"),
    Column("ip", "VARCHAR", "address the request came from; NULL where a service asked"),
    Column("user_agent", "VARCHAR", "client's User-Agent"),
    Column("vpc_endpoint_id", "VARCHAR", "private endpoint the request came through"),
)
_WHAT = (
    Column("region", "VARCHAR", "region"),
    Column("target_kind", "VARCHAR", "bucket, trail, role, key, snapshot, pod, secret, ..."),
    Column("target", "VARCHAR", "what is acted on: a bucket's name, a trail, `namespace/pod`"),
    Column("bucket", "VARCHAR", "bucket concerned, where it is one"),
    Column("target_account", "VARCHAR", "account that owns the target"),
    Column(
        "granted_to",
        "VARCHAR[]",
        "principals, accounts or `*` that the call gives access to; NULL: gives none, or not read",
    ),
    Column("destination", "VARCHAR", "bucket or account that data is sent to by what is set up"),
    Column("is_cross_account", "BOOLEAN", "another account gains by it; NULL: not known"),
    Column("container", "VARCHAR", "container of a pod"),
    Column("command", "VARCHAR[]", "command of an exec, or a new pod's, in its words"),
    Column("images", "VARCHAR[]", "images of a new pod"),
    Column(
        "volumes",
        "VARCHAR[]",
        "volumes of a new pod: `pvc:NAME`, `host:PATH`, `nfs:SERVER:PATH`, `secret:NAME`",
    ),
    Column("detail", "VARCHAR", "request as JSON, secrets replaced by REDACTED; NULL over 64 KiB"),
)

STORAGE_EVENT = Table(
    name="storage_event",
    doc="Management events around data: grants, copies set up, logging changed, pods entered. Of the "
    "stages of one request the longest stays.",
    grain=("cluster", "event_id", "action"),
    time="ts",
    latest=("duration_s",),
    columns=(*_EVENT, *_WHO, *_WHAT),
)
