"""Kueue's ClusterQueues, Cohorts and LocalQueues as rows of `quota`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .._json_values import part, text
from ._objects import Entry, mapping, objects_of
from ._resources import is_device, model_of_labels
from ._rows import Rows
from ._values import quantity, whole

KINDS = {"ClusterQueue": "cluster_queue", "Cohort": "cohort", "LocalQueue": "local_queue"}


def add_quotas(
    entries: Sequence[Entry], flavors: Sequence[Entry], observed: datetime, rows: Rows
) -> None:
    """A row per flavor and resource of every queue and cohort."""
    models = {f.name or "": model_of_labels(part(f.body, "spec", "nodeLabels")) for f in flavors}
    for entry in {(e.kind, e.namespace, e.name): e for e in entries}.values():
        if entry.change == "DELETED":
            continue
        cells = _limits(entry)
        _usage(entry, cells)
        for (flavor, resource), values in cells.items():
            rows.add("quota", entry.line_no, {
                **_of_queue(entry),
                "flavor": flavor,
                "resource": resource,
                "observed_ts": observed,
                "is_gpu": is_device(resource),
                "gpu_model": models.get(flavor) if is_device(resource) else None,
                **values,
            })  # fmt: skip


def _of_queue(entry: Entry) -> dict[str, Any]:
    spec, status = mapping(entry.body.get("spec")), mapping(entry.body.get("status"))
    is_local = entry.kind == "LocalQueue"
    active = next(
        (c for c in objects_of(status.get("conditions")) if c.get("type") == "Active"), {}
    )
    stopped = text(spec.get("stopPolicy"))
    state = None
    if active:
        word = "active" if active.get("status") == "True" else "stopped"
        state = word if word == "active" else f"{word}: {active.get('reason')}"
    elif stopped and stopped != "None":
        state = f"stopped: {stopped}"
    cohort = (
        spec.get("cohortName") or spec.get("cohort") or spec.get("parentName") or spec.get("parent")
    )
    return {
        "queue_kind": KINDS[entry.kind],
        "queue": f"{entry.namespace}/{entry.name}" if is_local else entry.name,
        "cohort": text(cohort),
        "cluster_queue": text(spec.get("clusterQueue")) if is_local else None,
        "fair_weight": quantity(part(spec, "fairSharing", "weight")),
        "weighted_share": quantity(part(status, "fairSharing", "weightedShare")),
        "pending_count": whole(status.get("pendingWorkloads")),
        "running_count": whole(status.get("admittedWorkloads")),
        "state": state,
        "source": "kueue",
    }


def _limits(entry: Entry) -> dict[tuple[str, str], dict[str, Any]]:
    cells: dict[tuple[str, str], dict[str, Any]] = {}
    for group in objects_of(part(entry.body, "spec", "resourceGroups")):
        for flavor in objects_of(group.get("flavors")):
            for resource in objects_of(flavor.get("resources")):
                cells[_key(flavor, resource)] = {
                    "nominal": quantity(resource.get("nominalQuota")),
                    "borrowing_limit": quantity(resource.get("borrowingLimit")),
                    "lending_limit": quantity(resource.get("lendingLimit")),
                }
    return cells


def _usage(entry: Entry, cells: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Usage by flavor; LocalQueues of v1beta1 wrote `flavorUsage` first."""
    status = mapping(entry.body.get("status"))
    usage = status.get("flavorsUsage") or status.get("flavorUsage")
    for name, flavors in (("used", usage), ("reserved", status.get("flavorsReservation"))):
        for flavor in objects_of(flavors):
            for resource in objects_of(flavor.get("resources")):
                cell = cells.setdefault(_key(flavor, resource), {})
                cell[name] = quantity(resource.get("total"))
                if name == "used":
                    cell["borrowed"] = quantity(resource.get("borrowed"))


def _key(flavor: Mapping[str, Any], resource: Mapping[str, Any]) -> tuple[str, str]:
    return str(flavor.get("name") or ""), str(resource.get("name") or "")
