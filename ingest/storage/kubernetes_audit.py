"""Kubernetes audit log."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, rejects, source

from .._json_records import Form, bounded_detail, fitting, read_records, scrubbed, timed
from .._typed_text import address, instant, line_id, unless, whole
from ..tables.storage_event import STORAGE_EVENT

_GKE = "$.protoPayload"
_FORM = Form(
    marker=("$.auditID", "$.objectRef", "$.protoPayload.methodName"),
    envelopes=(
        "$.items", "$.records", "$.logEvents", "$.properties.log", "$.log", "$.message", "$.entries", "$.event",
    ),
    fields={
        "audit_id": "$.auditID",
        "stage": "$.stage",
        "verb": "$.verb",
        "uri": "$.requestURI",
        "received_time": "$.requestReceivedTimestamp",
        "stage_time": "$.stageTimestamp",
        "old_time": "$.timestamp",
        "user": "$.user.username",
        "impersonated": "$.impersonatedUser.username",
        "user_extra": '$.user.extra."authentication.kubernetes.io/pod-name"[0]',
        "credential": '$.user.extra."authentication.kubernetes.io/credential-id"[0]',
        "ips": "$.sourceIPs[0]",
        "agent": "$.userAgent",
        "resource": "$.objectRef.resource",
        "subresource": "$.objectRef.subresource",
        "namespace": "$.objectRef.namespace",
        "object_name": "$.objectRef.name",
        "code": "$.responseStatus.code",
        "reason": "$.responseStatus.reason",
        "decision": '$.annotations."authorization.k8s.io/decision"',
        "request": "$.requestObject",
        "gke_service": f"{_GKE}.serviceName",
        "gke_method": f"{_GKE}.methodName",
        "gke_resource": f"{_GKE}.resourceName",
        "gke_user": f"{_GKE}.authenticationInfo.principalEmail",
        "gke_ip": f"{_GKE}.requestMetadata.callerIp",
        "gke_agent": f"{_GKE}.requestMetadata.callerSuppliedUserAgent",
        "gke_code": f"{_GKE}.status.code",
        "gke_message": f"{_GKE}.status.message",
        "gke_request": f"{_GKE}.request",
        "gke_id": "$.insertId",
        "gke_received": "$.receiveTimestamp",
    },
)  # fmt: skip
_CLASSES = (
    (r"^pods/(?:exec|attach|ephemeralcontainers)$", "pod_exec"),
    (r"^(?:pods|services)/(?:portforward|proxy)$", "port_forward"),
    (r"^nodes/proxy$", "node_proxy"),
    (r"^secrets$", "secret_read"),
    (r"^configmaps$", "config_read"),
    (r"^(?:persistentvolumeclaims|persistentvolumes|volumeattachments|storageclasses|volumesnapshots\w*)", "volume"),
    (r"^serviceaccounts/token$", "key_created"),
    (r"^(?:\w*rolebindings|\w*roles|networkpolicies|\w*webhookconfigurations)$", "policy"),
    (r"^auditsinks|^auditpolic", "audit_policy"),
)  # fmt: skip
_READS = ("get", "list", "watch")
_STREAMS = ("pod_exec", "port_forward", "node_proxy")
# A project's sink holds the entries of all services in one file.
_OTHER_SERVICE = pl.format(
    "an entry of {}, not of k8s.io: gcs_audit reads it", pl.col("gke_service").str.head(60)
)


def _looks_like(head: bytes, _file_name: str) -> bool:
    return b"audit.k8s.io" in head or b"io.k8s." in head or b"kube-audit" in head


@source(outputs=(STORAGE_EVENT,), sniff=_looks_like)
def kubernetes_audit(lines: pl.DataFrame, context: Context) -> Parsed:
    """Kubernetes audit events (audit.k8s.io v1, v1beta1), an event a line or an EventList; as EKS
    wraps them (CloudWatch `logEvents`, `message`), AKS (`properties.log`, a string) and GKE (audit
    LogEntry).

    Of the stages of one request the last stays: it is the only one with the duration, from receipt
    to its time, which for exec and port-forward is how long the stream was open. The stage
    RequestReceived alone is skipped. Exec is verb `create` or, since kubectl 1.30 (WebSockets),
    `get`: both are `pod_exec`. Commands come from the request URI, or from GKE's request. Bodies are
    read for images and volumes of new pods and never kept; secrets are named, never shown.
    Impersonation: the principal is who is acted as, `parent_principal` who acts.
    """
    found = read_records(lines, context, _FORM)
    is_other = pl.col("gke_service") != "k8s.io"
    other = rejects(found.rows.filter(is_other), _OTHER_SERVICE)
    entries = found.rows.filter(~is_other.fill_null(value=False))
    early = entries["stage"] == "RequestReceived"
    rows = entries.filter(~early.fill_null(value=False))
    good, late = timed(_typed(rows, context), "written")
    seen = [_body(uri, body) for uri, body in good.select("uri", "body").iter_rows()]
    schema = {
        name: pl.List(pl.String) if name != "container" else pl.String
        for name in ("command", "container", "images", "volumes")
    }
    events = pl.concat(
        [good, pl.DataFrame(seen, schema=schema, orient="row")], how="horizontal"
    ).sort("line_no", "record")
    return Parsed(
        {"storage_event": fitting(events, STORAGE_EVENT)},
        scrubbed(pl.concat([found.rejects, late, other.select(*REJECTS_SCHEMA)])),
        found.skipped + int(early.sum() or 0),
        found.held_from,
    )


def _typed(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    """The table's columns but for those that stand in request URI and body, which is `body`."""
    named = rows.with_columns(_names())
    resource, verb = pl.col("whole_name"), pl.col("verb")
    is_read, is_new = verb.is_in(_READS), (resource == "pods") & (verb == "create")
    kind = pl.coalesce(
        *(pl.when(resource.str.contains(p)).then(pl.lit(c)) for p, c in _CLASSES),
        pl.when(is_new).then(pl.lit("pod_create")),
        pl.when(is_read).then(pl.lit("config_read")),
        pl.lit("other"),
    )
    start, end = instant(pl.col("received_time")), instant(pl.col("stage_time"))
    length = (end - start).dt.total_microseconds() / 1e6
    written = pl.coalesce("received_time", "stage_time", "old_time")
    uri = pl.concat_str(pl.lit('{"request_uri":'), _quoted(pl.col("uri")), pl.lit("}"))
    return named.with_columns(
        written.alias("written"),
        instant(written).alias("ts"),
        instant(pl.col("gke_received")).alias("received_ts"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.lit("kubernetes_audit").alias("source"),
        pl.lit("kubernetes").alias("service"),
        pl.coalesce("audit_id", "gke_id", line_id(pl.col("text"))).alias("event_id"),
        pl.concat_str(
            resource.fill_null("(no resource)"), pl.lit(" "), verb.fill_null("(no verb)")
        ).alias("action"),
        kind.alias("event_class"),
        is_read.alias("is_read_only"),
        *_outcome(),
        *_who(),
        pl.when(kind.is_in(_STREAMS) & (length >= 0)).then(length).alias("duration_s"),
        resource.str.extract(r"^([a-z0-9]+)").alias("target_kind"),
        pl.when(~kind.is_in(["secret_read", "config_read"]))
        .then(bounded_detail(uri)).alias("detail"),
        pl.when(is_new | kind.is_in(_STREAMS))
        .then(pl.coalesce("request", "gke_request")).alias("body"),
    )  # fmt: skip


def _names() -> list[pl.Expr]:
    """`whole_name` (`pods/exec`), `verb` and `target`, from objectRef or from GKE's method name."""
    # io.k8s.core.v1.pods.exec.create: group (of custom resources any), version, resource, maybe
    # subresource, verb; io.k8s.get for /readyz and other paths that are no resource
    gke = r"^(?:[^.]+\.)+?v\d\w*\.([a-z]+)(?:\.([a-z]+))?\.([a-z]+)$"
    pathless = r"^io\.k8s\.([a-z]+)$"
    method, place = pl.col("gke_method"), pl.col("gke_resource")
    sub = pl.coalesce("subresource", method.str.extract(gke, 2))
    namespace = pl.coalesce("namespace", place.str.extract(r"/namespaces/([^/]+)/"))
    name = pl.coalesce("object_name", place.str.extract(r"/namespaces/[^/]+/[a-z]+/([^/]+)"))
    tail = pl.when(sub.is_not_null()).then(pl.concat_str(pl.lit("/"), sub)).otherwise(pl.lit(""))
    path = pl.concat_str(namespace.fill_null(""), pl.lit("/"), name.fill_null(""))
    return [
        pl.concat_str(pl.coalesce("resource", method.str.extract(gke, 1)), tail).alias(
            "whole_name"
        ),
        pl.coalesce("verb", method.str.extract(gke, 3), method.str.extract(pathless)).alias("verb"),
        path.str.strip_chars("/").alias("target"),
    ]


def _outcome() -> list[pl.Expr]:
    """Status and error."""
    code = whole(pl.col("code"), pl.Int16)
    failed = pl.when(code >= 400).then(pl.coalesce("reason", code.cast(pl.String)))
    gke = pl.when(whole(pl.col("gke_code")) > 0).then(pl.coalesce("gke_message", "gke_code"))
    forbidden = pl.when(pl.col("decision") == "forbid").then(pl.lit("forbidden"))
    return [code.alias("status"), pl.coalesce(failed, gke, forbidden).alias("error")]


def _who() -> list[pl.Expr]:
    """Who is acted as, who stands behind, and from where."""
    actor, acted = unless(pl.coalesce("user", "gke_user")), unless(pl.col("impersonated"))
    principal = pl.coalesce(acted, actor)
    kind = (
        pl.when(principal == "system:anonymous").then(pl.lit("anonymous"))
        .when(principal.str.starts_with("system:serviceaccount:")).then(pl.lit("service_account"))
        .when(principal.str.starts_with("system:")).then(pl.lit("service"))
        .when(principal.is_not_null()).then(pl.lit("user"))
    )  # fmt: skip
    return [
        principal.alias("principal"),
        kind.alias("principal_type"),
        pl.when(acted.is_not_null()).then(actor).alias("parent_principal"),
        pl.col("user_extra").alias("session"),
        pl.col("credential").alias("access_key_id"),
        address(pl.coalesce("ips", "gke_ip")).alias("ip"),
        unless(pl.coalesce("agent", "gke_agent")).alias("user_agent"),
    ]


def _quoted(text: pl.Expr) -> pl.Expr:
    escaped = text.str.replace_all("\\", "\\\\", literal=True).str.replace_all(
        '"', '\\"', literal=True
    )
    return pl.concat_str(pl.lit('"'), escaped, pl.lit('"'))


Seen = tuple[list[str] | None, str | None, list[str] | None, list[str] | None]


def _body(uri: str | None, body: str | None) -> Seen:
    """Command, container, images and volumes; row by row, for JSON's inner lists: 22,000 events a
    CPU second with all else.
    """
    command, container = _asked(uri)
    try:
        found = json.loads(body or "null")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return command, container, None, None
    spec = found.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    containers = [
        c
        for kind in ("initContainers", "containers", "ephemeralContainers")
        for c in _dicts(spec.get(kind))
    ]
    words = [w for c in containers for part in ("command", "args") for w in _texts(c.get(part))]
    words = words or _texts(found.get("command"))
    images = sorted({c["image"] for c in containers if isinstance(c.get("image"), str)})
    volumes = sorted({name for v in _dicts(spec.get("volumes")) for name in _volume(v)})
    return command or words or None, container, images or None, volumes or None


def _asked(uri: str | None) -> tuple[list[str] | None, str | None]:
    """`command=` and `container=` of an exec's request URI."""
    try:
        query = parse_qs(urlsplit(uri or "").query, max_num_fields=1000)
    except ValueError:
        return None, None
    return query.get("command"), query.get("container", [None])[0]


def _volume(volume: dict[str, Any]) -> list[str]:
    """What a pod's volume is: claim, path of the host, NFS export, secret."""
    members = {
        "pvc": ("persistentVolumeClaim", "claimName"),
        "host": ("hostPath", "path"),
        "secret": ("secret", "secretName"),
    }
    names = []
    for kind, (member, name) in members.items():
        inner = volume.get(member)
        if isinstance(inner, dict) and isinstance(inner.get(name), str):
            names.append(f"{kind}:{inner[name]}")
    nfs = volume.get("nfs")
    if isinstance(nfs, dict):
        names.append(f"nfs:{nfs.get('server')}:{nfs.get('path')}")
    return names


def _dicts(value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - any JSON value
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _texts(value: Any) -> list[str]:  # noqa: ANN401 - any JSON value
    return [v for v in value if isinstance(v, str)] if isinstance(value, list) else []
