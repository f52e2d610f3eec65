"""Queues of Volcano and KAI as rows of `quota`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .._json_values import part, text
from ._objects import Entry, mapping
from ._resources import is_device
from ._rows import Rows
from ._values import quantity, whole

# KAI counts cpu in milli-cores and memory in megabytes (KAI: pkg/apis/scheduling/v2/queue_types.go).
KAI_UNITS = {"gpu": ("nvidia.com/gpu", 1.0), "cpu": ("cpu", 1e-3), "memory": ("memory", 1e6)}
UNLIMITED = -1.0


def add_volcano_queues(entries: Sequence[Entry], observed: datetime, rows: Rows) -> None:
    """A row per resource of each Queue: `deserved`, else `guarantee`, is its own; `capability` the most."""
    for entry in {e.name: e for e in entries}.values():
        if entry.change == "DELETED":
            continue
        spec, status = mapping(entry.body.get("spec")), mapping(entry.body.get("status"))
        guaranteed = mapping(part(spec, "guarantee", "resource"))
        deserved = {**guaranteed, **mapping(spec.get("deserved"))}
        most, used = mapping(spec.get("capability")), mapping(status.get("allocated"))
        running = [whole(status.get(name)) for name in ("running", "inqueue")]
        for resource in sorted({*deserved, *most, *used}):
            rows.add("quota", entry.line_no, {
                **_of_queue(entry, "volcano", resource, observed),
                "cohort": text(spec.get("parent")),
                "nominal": quantity(deserved.get(resource)),
                "max_limit": quantity(most.get(resource)),
                "fair_weight": quantity(spec.get("weight")),
                "used": quantity(used.get(resource)),
                "pending_count": whole(status.get("pending")),
                "running_count": sum(n for n in running if n is not None) if any(running) else running[0],
                "state": (text(status.get("state")) or "").lower() or None,
                "priority": whole(spec.get("priority")),
            })  # fmt: skip


def add_kai_queues(entries: Sequence[Entry], observed: datetime, rows: Rows) -> None:
    """A row per resource of each Queue of scheduling.run.ai; -1 there means no limit."""
    for entry in {e.name: e for e in entries}.values():
        if entry.change == "DELETED":
            continue
        spec, status = mapping(entry.body.get("spec")), mapping(entry.body.get("status"))
        used = mapping(status.get("allocated"))
        for name, (resource, scale) in KAI_UNITS.items():
            limits = mapping(part(spec, "resources", name))
            if not limits:
                continue
            rows.add("quota", entry.line_no, {
                **_of_queue(entry, "kai", resource, observed),
                "cohort": text(spec.get("parentQueue")),
                "nominal": _limit(limits, "quota", scale),
                "max_limit": _limit(limits, "limit", scale),
                "fair_weight": quantity(limits.get("overQuotaWeight")),
                "used": quantity(used.get(resource)),
                "priority": whole(spec.get("priority")),
            })  # fmt: skip


def _of_queue(entry: Entry, kind: str, resource: str, observed: datetime) -> dict[str, Any]:
    return {
        "queue_kind": kind, "queue": entry.name, "flavor": "", "resource": resource,
        "observed_ts": observed, "is_gpu": is_device(resource), "source": kind,
    }  # fmt: skip


def _limit(limits: Mapping[str, Any], name: str, scale: float) -> float | None:
    found = quantity(limits.get(name))
    return None if found is None or found == UNLIMITED else found * scale
