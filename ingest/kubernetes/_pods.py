"""Pods: when they were bound, started and ended, why, and the events that their status tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .._json_values import part, text
from ._groups import Group
from ._objects import Entry, mapping, objects_of
from ._resources import Request, pod_request
from ._rows import Rows
from ._values import time, whole

# Reasons of a pod's end -> state of its attempt: status.reason, and those of DisruptionTarget
# (kubernetes: pkg/apis/core/types.go, the kubelet's eviction and preemption packages).
ENDED_STATE = {
    "DeadlineExceeded": "TIMEOUT",
    "Preempting": "PREEMPTED",
    "PreemptionByScheduler": "PREEMPTED",
    "EvictionByEvictionAPI": "PREEMPTED",
    "Evicted": "NODE_FAIL",
    "NodeLost": "NODE_FAIL",
    "NodeShutdown": "NODE_FAIL",
    "Shutdown": "NODE_FAIL",
    "Terminated": "NODE_FAIL",
    "NodeAffinity": "BOOT_FAIL",
    "UnexpectedAdmissionError": "BOOT_FAIL",
    "DeletionByTaintManager": "NODE_FAIL",
    "DeletionByPodGC": "NODE_FAIL",
    "TerminationByKubelet": "NODE_FAIL",
    "OOMKilled": "OUT_OF_MEMORY",
}  # fmt: skip
TERMINAL = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class Pod:
    """What a pod's latest version tells."""

    entry: Entry
    group: Group
    request: Request
    created: datetime
    bound: datetime | None
    started: datetime | None
    end: datetime | None
    is_over: bool
    state: str
    native_state: str
    exit_code: int | None
    exit_signal: int | None
    restarts: int

    @property
    def node(self) -> str | None:
        return text(part(self.entry.body, "spec", "nodeName"))

    @property
    def is_job(self) -> bool:
        """Is it a job's, or at least holding GPUs? Pods of services without them are of no queue."""
        return not self.group.is_service or bool(self.request.gpus) or self.request.is_fractional

    @property
    def reason(self) -> str | None:
        """Why it waits, or why it ended."""
        scheduled = conditions(self.entry).get("PodScheduled", {})
        if scheduled.get("status") == "False":
            return (
                ": ".join(s for k in ("reason", "message") if (s := text(scheduled.get(k)))) or None
            )
        return text(part(self.entry.body, "status", "reason"))


def conditions(entry: Entry) -> dict[str, Mapping[str, Any]]:
    """Conditions of an object's status by type."""
    found = objects_of(part(entry.body, "status", "conditions"))
    return {c["type"]: c for c in found if isinstance(c.get("type"), str)}


def pod_of(entry: Entry, group: Group, observed: datetime) -> Pod | None:
    """The pod; None without the time of its creation."""
    created = entry.created
    if created is None:
        return None
    by_type = conditions(entry)
    finished = [t for t in _terminated(entry) if t]
    phase = text(part(entry.body, "status", "phase")) or "Unknown"
    is_over = phase in TERMINAL or entry.change == "DELETED"
    starts = [time(s.get("startedAt")) for s in [*_running(entry), *finished]]
    exit_of = next(
        (t for t in finished if whole(t.get("exitCode"))), finished[0] if finished else {}
    )
    state, native = _state(entry, phase, by_type, finished)
    return Pod(
        entry=entry, group=group, created=created,
        request=pod_request(mapping(entry.body.get("spec"))),
        bound=_bound(entry, by_type),
        started=min((s for s in starts if s), default=None),
        end=_end(entry, by_type, finished, observed) if is_over else None,
        is_over=is_over, state=state, native_state=native,
        exit_code=whole(exit_of.get("exitCode")) if is_over else None,
        exit_signal=whole(exit_of.get("signal")) if is_over else None,
        restarts=sum(whole(s.get("restartCount")) or 0 for s in _statuses(entry)),
    )  # fmt: skip


def _statuses(entry: Entry) -> list[Mapping[str, Any]]:
    return objects_of(part(entry.body, "status", "containerStatuses"))


def _terminated(entry: Entry) -> list[Mapping[str, Any]]:
    return [mapping(part(s, "state", "terminated")) for s in _statuses(entry)]


def _running(entry: Entry) -> list[Mapping[str, Any]]:
    return [mapping(part(s, "state", "running")) for s in _statuses(entry)]


def _bound(entry: Entry, by_type: Mapping[str, Mapping[str, Any]]) -> datetime | None:
    """When it was given its node: from then on it holds its GPUs."""
    scheduled = by_type.get("PodScheduled", {})
    if scheduled.get("status") == "True":
        return time(scheduled.get("lastTransitionTime"))
    return time(part(entry.body, "status", "startTime"))


def _end(
    entry: Entry,
    by_type: Mapping[str, Mapping[str, Any]],
    finished: Sequence[Mapping[str, Any]],
    observed: datetime,
) -> datetime | None:
    """When its last container ended, else when it was seen to be gone; None if nothing tells."""
    ends = [end for t in finished if (end := time(t.get("finishedAt")))]
    if ends:
        return max(ends)
    for name in ("DisruptionTarget", "ContainersReady", "Ready"):
        condition = by_type.get(name, {})
        is_sign = condition.get("status") == ("True" if name == "DisruptionTarget" else "False")
        ended = condition.get("reason") != "ContainersNotReady"
        if is_sign and ended and (moment := time(condition.get("lastTransitionTime"))):
            return moment
    deleted = time(entry.meta.get("deletionTimestamp"))
    return deleted or (observed if entry.change == "DELETED" else None)


def _state(
    entry: Entry,
    phase: str,
    by_type: Mapping[str, Mapping[str, Any]],
    finished: Sequence[Mapping[str, Any]],
) -> tuple[str, str]:
    disrupted = by_type.get("DisruptionTarget", {})
    reasons = [part(entry.body, "status", "reason")]
    if disrupted.get("status") == "True":
        reasons.insert(0, disrupted.get("reason"))
    reasons += [t.get("reason") for t in finished]
    reason = next((r for r in reasons if text(r) and r != "Completed"), None)
    native = f"{phase} {reason}" if reason else phase
    if phase == "Succeeded":
        return "COMPLETED", native
    if phase == "Failed":
        return ENDED_STATE.get(str(reason), "FAILED"), native
    if entry.change == "DELETED":
        return ENDED_STATE.get(str(reason), "CANCELLED"), f"{native} deleted"
    has_node = bool(part(entry.body, "spec", "nodeName"))
    return ("RUNNING" if phase == "Running" or has_node else "PENDING"), native


def add_pod_events(pod: Pod, rows: Rows) -> None:
    """Events of a pod's life, from its status."""
    by_type = conditions(pod.entry)
    ready = by_type.get("Ready", {})
    disrupted, scheduled = by_type.get("DisruptionTarget", {}), by_type.get("PodScheduled", {})
    found: list[tuple[str, datetime | None, Mapping[str, Any]]] = [("submitted", pod.created, {})]
    if scheduled.get("status") == "True":
        found.append(("bound", pod.bound, {}))
    elif scheduled.get("status") == "False":
        found.append(("waiting", time(scheduled.get("lastTransitionTime")), scheduled))
    found.append(("started", pod.started, {}))
    if ready.get("status") == "True":
        found.append(("pods_ready", time(ready.get("lastTransitionTime")), {}))
    if disrupted.get("status") == "True":
        found.append(("evicted", time(disrupted.get("lastTransitionTime")), disrupted))
    if pod.is_over:
        end: Mapping[str, Any] = {
            "reason": pod.native_state,
            "message": part(pod.entry.body, "status", "message"),
        }
        found.append(("finished", pod.end, end))
    for kind, ts, why in found:
        _add(pod, rows, kind, ts, why)
    for status in _statuses(pod.entry):
        last = mapping(part(status, "lastState", "terminated"))
        if moment := time(last.get("finishedAt")):
            code = f"exit code {last.get('exitCode')}"
            _add(pod, rows, "restarted", moment, {"reason": last.get("reason"), "message": code},
                 count=whole(status.get("restartCount")))  # fmt: skip


def _add(
    pod: Pod, rows: Rows, kind: str, ts: datetime | None, why: Mapping[str, Any],
    count: int | None = None,
) -> None:  # fmt: skip
    if ts is None:
        return
    rows.add("queue_event", pod.entry.line_no, {
        "job_id": pod.group.job_id, "pod": pod.entry.name, "kind": kind, "ts": ts,
        "ts_precision_s": 1.0, "raw_job_id": pod.group.uid, "node": pod.node,
        "reason": text(why.get("reason")), "message": text(why.get("message")), "count": count,
        "is_inferred": False, "source": "k8s",
    })  # fmt: skip
