"""Applications, queues and nodes of YuniKorn's REST answers as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from .._json_values import text
from ._attempt import Run
from ._objects import mapping, objects_of
from ._resources import Request, devices, is_device, model_columns, summed
from ._rows import Rows
from ._values import nanoseconds, quantity, whole

# State of an application -> kind of event and state of its attempt (yunikorn-core:
# pkg/scheduler/objects/application_state.go; Starting until 1.4).
STATES = {
    "New": ("submitted", "PENDING"), "Accepted": ("admitted", "PENDING"),
    "Starting": ("started", "RUNNING"), "Running": ("started", "RUNNING"),
    "Resuming": ("resumed", "RUNNING"), "Completing": ("other", "RUNNING"),
    "Completed": ("finished", "COMPLETED"), "Expired": ("deleted", "COMPLETED"),
    "Failing": ("failed", "RUNNING"), "Failed": ("finished", "FAILED"),
    "Rejected": ("finished", "CANCELLED"),
}  # fmt: skip
OVER = frozenset({"Completed", "Expired", "Failed", "Rejected"})
TIME_KEYS = frozenset({
    "submissionTime", "startTime", "finishedTime", "time", "allocationTime", "requestTime",
    "timestampNano", "lastOccurrence",
})  # fmt: skip
CPU, MEMORY = "vcore", "memory"


def latest_time(value: object) -> datetime | None:
    """The latest time that an answer proves."""
    return max(_times(value), default=None)


def _times(value: object) -> Iterator[datetime]:
    if isinstance(value, list):
        for entry in value:
            yield from _times(entry)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            if key in TIME_KEYS and (moment := nanoseconds(entry)):
                yield moment
            elif isinstance(entry, list | Mapping):
                yield from _times(entry)


def _request(resources: object) -> Request:
    found = mapping(resources)
    gpus, models = devices(found, None)
    vcores, memory = quantity(found.get(CPU)), quantity(found.get(MEMORY))
    return Request(
        gpus=gpus, cpus=None if vcores is None else vcores / 1000, mem_bytes=memory, models=models
    )


def add_application(
    app: Mapping[str, Any], line_no: int, observed: datetime | None, rows: Rows
) -> str | None:
    """Attempt and events of an application; why it cannot be read, if so."""
    job_id, state = text(app.get("applicationID")), text(app.get("applicationState")) or "New"
    submit = nanoseconds(app.get("submissionTime"))
    if job_id is None or submit is None or observed is None:
        return "an application without applicationID or submissionTime"
    _add_events(app, job_id, submit, line_no, rows)
    allocations = objects_of(app.get("allocations"))
    bound = [t for a in allocations if (t := nanoseconds(a.get("allocationTime")))]
    start = nanoseconds(app.get("startTime")) or min(bound, default=None)
    held = summed([_request(a.get("resource") or a.get("resourcePerAlloc")) for a in allocations])
    most = _request(app["maxUsedResource"]) if app.get("maxUsedResource") else held
    waiting = summed([
        _request(r.get("resource")).times(max(whole(r.get("pendingCount")) or 1, 1))
        for r in objects_of(app.get("requests"))
    ])  # fmt: skip
    end = nanoseconds(app.get("finishedTime"))
    is_over = state in OVER or end is not None
    run = Run(
        job_id, submit, STATES.get(state, ("", "UNKNOWN"))[1], state, submit=submit, start=start,
        end=end, is_over=is_over,
        request=summed([held, waiting]) if not is_over else most, allocated=most,
        nodes=sorted({n for a in allocations if (n := text(a.get("nodeId")))}) or None,
        columns={
            "job_name": job_id,
            "principal": text(app.get("user")),
            "partition": text(app.get("queueName")),
            "state_reason": text(app.get("rejectedMessage")) or _blocked(app),
        },
    )  # fmt: skip
    if run.start is None and run.state == "RUNNING":
        run.state = "PENDING"
    rows.add("job_attempt", line_no, run.attempt_row(observed, "yunikorn"))
    if not is_over:
        reason = text(run.columns["state_reason"])
        rows.add("queue_snapshot", line_no, run.snapshot_row(observed, "yunikorn", reason))
    return None


def _blocked(app: Mapping[str, Any]) -> str | None:
    """The latest message why a request could not be placed."""
    logs = [
        log for r in objects_of(app.get("requests")) for log in objects_of(r.get("allocationLog"))
    ]
    return text(logs[-1].get("message")) if logs else None


def _add_events(
    app: Mapping[str, Any], job_id: str, submit: datetime, line_no: int, rows: Rows
) -> None:
    shared = {
        "job_id": job_id, "queue": text(app.get("queueName")), "ts_precision_s": 1e-6,
        "is_inferred": False, "source": "yunikorn",
    }  # fmt: skip
    rows.add("queue_event", line_no, {**shared, "pod": "", "kind": "submitted", "ts": submit})
    for entry in objects_of(app.get("stateLog")):
        state, ts = text(entry.get("applicationState")), nanoseconds(entry.get("time"))
        if state is not None and ts is not None:
            kind = STATES.get(state, ("other", ""))[0]
            rows.add(
                "queue_event",
                line_no,
                {**shared, "pod": "", "kind": kind, "ts": ts, "reason": state},
            )
    for allocation in objects_of(app.get("allocations")):
        key = text(allocation.get("allocationKey")) or text(allocation.get("uuid"))
        ts, tags = (
            nanoseconds(allocation.get("allocationTime")),
            mapping(allocation.get("allocationTags")),
        )
        if key is None or ts is None:
            continue
        rows.add("queue_event", line_no, {
            **shared, "pod": text(tags.get("kubernetes.io/meta/podName")) or key,
            "kind": "preempted" if allocation.get("preempted") else "bound", "ts": ts,
            "node": text(allocation.get("nodeId")),
            "reason": "placeholder" if allocation.get("placeholder") else None,
        })  # fmt: skip


def _resources(value: object) -> Mapping[str, Any]:
    """A resource map; YuniKorn before 1.0 wrote it as text, `[memory:1 vcore:2]`."""
    if isinstance(value, str):
        pairs = (word.rpartition(":") for word in value.strip("[]").split())
        return {name: amount for name, _, amount in pairs if name}
    return mapping(value)


def add_queue(queue: Mapping[str, Any], line_no: int, observed: datetime, rows: Rows) -> None:
    """A row per resource of a queue: guaranteed, maximum and allocated."""
    own, most, used = (
        _resources(queue.get(n)) for n in ("guaranteedResource", "maxResource", "allocatedResource")
    )
    for name in sorted({*own, *most, *used}):
        scale = 1e-3 if name == CPU else 1.0
        resource = "cpu" if name == CPU else name
        amounts = [quantity(found.get(name)) for found in (own, most, used)]
        nominal, limit, held = (None if a is None else a * scale for a in amounts)
        rows.add("quota", line_no, {
            "queue_kind": "yunikorn", "queue": text(queue.get("queuename")) or "", "flavor": "",
            "resource": resource, "observed_ts": observed, "is_gpu": is_device(resource),
            "cohort": text(queue.get("parent")), "nominal": nominal, "max_limit": limit, "used": held,
            "running_count": whole(queue.get("runningApps")),
            "state": (text(queue.get("status")) or "").lower() or None,
            "priority": whole(queue.get("currentPriority")), "source": "yunikorn",
        })  # fmt: skip


def add_node(node: Mapping[str, Any], line_no: int, observed: datetime, rows: Rows) -> str | None:
    """State of a node: capacity, what is allocated, whether it takes pods."""
    name = text(node.get("nodeID"))
    if name is None:
        return "a node without nodeID"
    capacity, used = _request(node.get("capacity")), _request(node.get("allocated"))
    attributes = mapping(node.get("attributes"))
    ready = attributes.get("ready")
    can = node.get("schedulable")
    gpus, busy = int(capacity.gpus or 0), int(used.gpus or 0)
    is_ready = None if ready is None else ready == "true"
    state = None
    if is_ready is False:
        state = "DOWN"
    elif gpus:
        state = "IDLE" if busy == 0 else "ALLOCATED" if busy >= gpus else "MIXED"
    rows.add("node_state", line_no, {
        "node": name, "ts": observed, "state": state,
        "state_flags": ["DRAIN"] if can is False else None,
        "native_state": f"ready={ready}" if ready is not None else None,
        "is_schedulable": can and is_ready is not False if isinstance(can, bool) else None,
        "gpu_count": gpus, "gpu_used_count": busy, "gpu_count_source": "k8s_capacity",
        **model_columns(capacity.models),
        "cpu_count": None if capacity.cpus is None else int(capacity.cpus),
        "cpu_used_count": None if used.cpus is None else int(-(-used.cpus // 1)),
        "mem_bytes": None if capacity.mem_bytes is None else int(capacity.mem_bytes),
        "mem_used_bytes": None if used.mem_bytes is None else int(used.mem_bytes),
        "source": "yunikorn",
    })  # fmt: skip
    return None
