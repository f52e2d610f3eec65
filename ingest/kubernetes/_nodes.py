"""Nodes: their state at the time of the file, and the times they were out of service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .._json_values import part, text
from ._objects import Entry, mapping, objects_of
from ._pods import Pod, conditions
from ._resources import devices, model_columns, model_of_labels, summed
from ._rows import Rows
from ._values import quantity, time

# Conditions that a node has while it is well: all but Ready are false then.
READY = "Ready"
# Taints of these prefixes keep jobs away because something is wrong or the node is leaving; others
# (nvidia.com/gpu, dedicated=…) only sort pods.
OUT_OF_SERVICE = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
)
CORDON = "node.kubernetes.io/unschedulable"


def add_nodes(
    entries: Sequence[Entry], pods: Sequence[Pod] | None, observed: datetime, rows: Rows
) -> None:
    """`node_state` of each node and `node_event` from its versions.

    `pods`: those of the file, None if it holds no pods: then nothing is known of what is in use.
    """
    on_node: dict[str, list[Pod]] = {}
    for pod in pods or ():
        if pod.node and not pod.is_over:
            on_node.setdefault(pod.node, []).append(pod)
    versions: dict[str, list[Entry]] = {}
    for entry in entries:
        versions.setdefault(entry.name or "", []).append(entry)
    for name, history in versions.items():
        if history[-1].change != "DELETED":
            used = on_node.get(name, []) if pods is not None else None
            rows.add("node_state", history[-1].line_no, _state(history[-1], used, observed))
        _add_outages(history, observed, rows)


def _bad_taints(entry: Entry) -> list[Mapping[str, Any]]:
    taints = objects_of(part(entry.body, "spec", "taints"))
    return [
        t for t in taints
        if str(t.get("key")).startswith(OUT_OF_SERVICE) and t.get("effect") != "PreferNoSchedule"
    ]  # fmt: skip


def _flags(entry: Entry) -> list[str]:
    by_type = conditions(entry)
    flags = {n.upper() for n, c in by_type.items() if n != READY and c.get("status") == "True"}
    if part(entry.body, "spec", "unschedulable") is True:
        flags.add("DRAIN")
    if by_type.get(READY, {}).get("status") == "Unknown":
        flags.add("NOT_RESPONDING")
    flags |= {
        str(t["key"]).rpartition("/")[2].upper().replace("-", "_") for t in _bad_taints(entry)
    }
    return sorted(flags)


def _is_ready(entry: Entry) -> bool | None:
    status = conditions(entry).get(READY, {}).get("status")
    return None if status is None else status == "True"


def _problem(entry: Entry) -> tuple[str | None, datetime | None]:
    """Reason as written and since when: not ready, else a problem that a detector set, else a taint."""
    by_type = conditions(entry)
    ready = by_type.get(READY, {})
    bad = [ready] if ready and ready.get("status") != "True" else []
    bad += [c for n, c in by_type.items() if n != READY and c.get("status") == "True"]
    for condition in bad:
        said = ": ".join(s for k in ("reason", "message") if (s := text(condition.get(k))))
        return said or text(condition.get("type")), time(condition.get("lastTransitionTime"))
    for taint in _bad_taints(entry):
        return f"taint {taint.get('key')}={taint.get('value') or ''}", time(taint.get("timeAdded"))
    return None, None


def _state(entry: Entry, used: Sequence[Pod] | None, observed: datetime) -> dict[str, Any]:
    status = mapping(entry.body.get("status"))
    capacity, allocatable = mapping(status.get("capacity")), mapping(status.get("allocatable"))
    model = model_of_labels(entry.meta.get("labels"))
    gpus, models = devices(capacity, model)
    usable, _ = devices(allocatable, model)
    held = summed([p.request for p in used]) if used is not None else None
    busy = int(held.gpus or 0) if held is not None and not held.is_fractional else None
    is_ready, flags = _is_ready(entry), _flags(entry)
    reason, since = _problem(entry)
    cpus, memory = quantity(capacity.get("cpu")), quantity(capacity.get("memory"))
    return {
        "node": entry.name,
        "ts": observed,
        "state": _base(is_ready, int(gpus), busy),
        "state_flags": flags or None,
        "native_state": None if is_ready is None else f"Ready={conditions(entry)[READY].get('status')}",
        "is_schedulable": None if is_ready is None else is_ready and "DRAIN" not in flags
        and not _bad_taints(entry),
        "reason": reason,
        "reason_ts": since,
        "gpu_count": int(gpus) if capacity else None,
        "gpu_usable_count": int(usable) if allocatable else None,
        "gpu_used_count": busy,
        "gpu_count_source": "k8s_capacity" if capacity else None,
        **model_columns(models),
        "cpu_count": int(cpus) if cpus is not None else None,
        "cpu_used_count": int(-(-(held.cpus or 0.0) // 1)) if held is not None else None,
        "mem_bytes": int(memory) if memory is not None else None,
        "mem_used_bytes": int(held.mem_bytes or 0) if held is not None else None,
        "agent_version": text(part(status, "nodeInfo", "kubeletVersion")),
        "source": "k8s",
    }  # fmt: skip


def _base(is_ready: bool | None, gpus: int, busy: int | None) -> str | None:
    """Slurm's words; of a node without GPUs, or of unknown use, nothing is said but DOWN."""
    if is_ready is False:
        return "DOWN"
    if is_ready is None or busy is None or not gpus:
        return None
    return "IDLE" if busy == 0 else "ALLOCATED" if busy >= gpus else "MIXED"


def _add_outages(history: Sequence[Entry], observed: datetime, rows: Rows) -> None:
    """Stretches not ready, cordoned or tainted out of service; the versions show their ends."""
    current: dict[str, Any] | None = None
    for entry in history:
        is_out = _is_ready(entry) is False or bool(_bad_taints(entry)) or entry.change == "DELETED"
        is_out = is_out or part(entry.body, "spec", "unschedulable") is True
        if is_out:
            begun = current or _outage(entry)
            if begun is not None:
                current = {**begun, "state_flags": _flags(entry) or None}
                current["reason"] = current.get("reason") or _problem(entry)[0]
        elif current is not None:
            back = time(conditions(entry).get(READY, {}).get("lastTransitionTime"))
            end = back if back and back > current["start_ts"] else _changed(entry)
            _add_outage(entry.line_no, {**current, "end_ts": end}, observed, rows)
            current = None
    if current is not None:
        _add_outage(history[-1].line_no, current, observed, rows)


def _outage(entry: Entry) -> dict[str, Any] | None:
    """Since when the node is out, if anything says it."""
    ready = conditions(entry).get(READY, {})
    since = time(ready.get("lastTransitionTime")) if ready.get("status") != "True" else None
    tainted = [t for taint in _bad_taints(entry) if (t := time(taint.get("timeAdded")))]
    start = min([t for t in (since, *tainted) if t], default=None)
    if start is None:
        return None
    return {
        "node": entry.name,
        "start_ts": start,
        "state": "DOWN" if _is_ready(entry) is False else None,
        "native_state": f"Ready={ready.get('status')}" if ready else None,
        "reason": _problem(entry)[0],
        "source": "k8s",
    }


def _changed(entry: Entry) -> datetime | None:
    """When this version was written, as its field managers noted."""
    fields = objects_of(entry.meta.get("managedFields"))
    return max((t for f in fields if (t := time(f.get("time")))), default=None)


def _add_outage(line_no: int, outage: dict[str, Any], observed: datetime, rows: Rows) -> None:
    end = outage.get("end_ts")
    if end is not None and end <= outage["start_ts"]:
        outage["end_ts"] = end = None
    rows.add("node_event", line_no, {
        **outage,
        "phase": 1 if end is None else 2,
        "observed_ts": max(observed, end or observed),
    })  # fmt: skip
