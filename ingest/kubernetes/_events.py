"""Events about pods: what the scheduler and the kubelet reported, for the hour they are kept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .._json_values import part, text
from ._objects import Entry, mapping
from ._pods import Pod
from ._rows import Rows
from ._values import time, whole

# Reason -> kind (kubernetes: pkg/kubelet/events/event.go, pkg/scheduler).
KINDS = {
    "Scheduled": "bound", "FailedScheduling": "waiting", "NotTriggerScaleUp": "waiting",
    "Pulling": "pulling", "Pulled": "pulled", "Started": "started", "Preempted": "preempted",
    "Preempting": "preempted", "Evicted": "evicted", "TaintManagerEviction": "evicted",
    "BackOff": "failed", "Failed": "failed", "FailedMount": "failed", "FailedAttachVolume": "failed",
    "FailedCreatePodSandBox": "failed", "ErrImagePull": "failed", "Unhealthy": "other",
    "NodeNotReady": "other", "Unschedulable": "waiting", "Rescheduled": "requeued",
}  # fmt: skip
DURATION = re.compile(r" in (?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)(ms|s|us|µs)?)?(?: |$|\.)")
PREEMPTOR = re.compile(
    r"[Pp]reempted by (?:a |)(?:pod )?(?P<by>[0-9a-f]{8}-[0-9a-f-]{27}|[\w.-]+/[\w.-]+)"
)
SCALE = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


def add_events(entries: Sequence[Entry], pods: Mapping[str, Pod], rows: Rows) -> int:
    """Rows of events about pods; `pods` by uid. Returns how many were about others."""
    by_name = {f"{p.entry.namespace}/{p.entry.name}": p for p in pods.values()}
    known = {**by_name, **pods}
    others = 0
    for entry in entries:
        about = mapping(entry.body.get("involvedObject")) or mapping(entry.body.get("regarding"))
        kind = KINDS.get(text(entry.body.get("reason")) or "")
        if about.get("kind") != "Pod" or kind is None or not text(about.get("name")):
            others += 1
            continue
        row = _row(entry, about, kind, known)
        if row is None:
            others += 1
        else:
            rows.add("queue_event", entry.line_no, row)
    return others


def _row(
    entry: Entry,
    about: Mapping[str, Any],
    kind: str,
    pods: Mapping[str, Pod],
) -> dict[str, Any] | None:
    body = entry.body
    last = part(body, "series", "lastObservedTime") or body.get("lastTimestamp")
    first = (
        body.get("eventTime") or body.get("firstTimestamp") or body.get("deprecatedFirstTimestamp")
    )
    ts = time(last) or time(body.get("deprecatedLastTimestamp")) or time(first)
    if ts is None:
        return None
    name = f"{text(about.get('namespace')) or ''}/{about['name']}"
    pod = pods.get(text(about.get("uid")) or "") or pods.get(name)
    message = text(body.get("message")) or text(body.get("note"))
    preemptor = PREEMPTOR.search(message or "") if kind == "preempted" else None
    by = preemptor["by"] if preemptor else None
    source_pod = pods.get(by or "")
    return {
        "job_id": pod.group.job_id if pod else name,
        "pod": about["name"],
        "kind": kind,
        "ts": ts,
        "ts_precision_s": 1.0 if ts.microsecond == 0 else 1e-6,
        "raw_job_id": pod.group.uid if pod else None,
        "node": (pod.node if pod else None) or text(part(body, "source", "host")),
        "reason": text(body.get("reason")),
        "message": message,
        "preemptor_job_id": source_pod.group.job_id if source_pod else None,
        "preemptor_uid": by,
        "duration_s": _duration(message) if kind == "pulled" else None,
        "count": whole(part(body, "series", "count")) or whole(body.get("count")),
        "first_ts": time(first),
        "is_inferred": False,
        "source": "k8s",
    }


def _duration(message: str | None) -> float | None:
    """Seconds of `Successfully pulled image … in 1m5.2s (…)`; an image that was there took none."""
    match = DURATION.search(message or "")
    if match is None or not any(match.groups()):
        return None
    hours, minutes, seconds, unit = match.groups()
    return (
        int(hours or 0) * 3600.0
        + int(minutes or 0) * 60.0
        + float(seconds or 0) * SCALE[unit or "s"]
    )
