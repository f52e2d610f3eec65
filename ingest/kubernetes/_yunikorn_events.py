"""Events of YuniKorn's ring: what happened to applications and their allocations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._json_values import text
from ._rows import Rows
from ._values import nanoseconds

# Numbers of the scheduler interface (yunikorn-scheduler-interface: si.proto, EventRecord).
EVENT_CHANGES = frozenset({0, 1, 2, 3})
APP = 2
ADDED, REMOVED = 2, 3
DETAILS = {
    201: "waiting", 202: "finished", 203: "submitted", 204: "admitted", 205: "started", 206: "started",
    207: "other", 208: "finished", 209: "failed", 210: "finished", 211: "resumed", 212: "deleted",
}  # fmt: skip
REASONS = {
    200: "APP_ALLOC", 201: "APP_REQUEST", 202: "APP_REJECT", 203: "APP_NEW", 204: "APP_ACCEPTED",
    205: "APP_STARTING", 206: "APP_RUNNING", 207: "APP_COMPLETING", 208: "APP_COMPLETED",
    209: "APP_FAILING", 210: "APP_FAILED", 211: "APP_RESUMING", 212: "APP_EXPIRED",
    500: "ALLOC_CANCEL", 501: "ALLOC_PREEMPT", 502: "ALLOC_TIMEOUT", 503: "ALLOC_REPLACED",
    504: "ALLOC_NODEREMOVED",
}  # fmt: skip
ALLOCATED = 200
# Why an allocation was taken away; the others ended by themselves.
TAKEN = {501: "preempted", 504: "evicted"}


def add_event(event: Mapping[str, Any], line_no: int, rows: Rows) -> bool:
    """Take an event about an application; False for those about queues, nodes, users and requests."""
    ts, app = nanoseconds(event.get("timestampNano")), text(event.get("objectID"))
    if event.get("type") != APP or ts is None or app is None:
        return False
    detail, change = event.get("eventChangeDetail") or 0, event.get("eventChangeType")
    allocation = text(event.get("referenceID"))
    kind = DETAILS.get(detail, "other")
    if change == REMOVED:
        kind = TAKEN.get(detail, "finished" if allocation else "deleted")
    elif detail == ALLOCATED:
        kind = "bound" if change == ADDED else "other"
    elif change == ADDED and not detail:
        kind = "submitted"
    rows.add("queue_event", line_no, {
        "job_id": app, "pod": allocation or "", "kind": kind, "ts": ts, "ts_precision_s": 1e-6,
        "reason": REASONS.get(detail, f"detail {detail}" if detail else None),
        "message": text(event.get("message")), "is_inferred": False, "source": "yunikorn",
    })  # fmt: skip
    return True
