"""Kueue: Workloads as events and attempts, queues and cohorts as quota.

Kueue keeps the last transition of each condition only, and sets `Requeued` anew only when its status
changes (kueue: pkg/workload/workload.go). So of one Workload the events shown are a lower bound, and
an attempt after an eviction is named by the time of its quota reservation, which every snapshot of
it shows; the first one by the Workload's creation. Between an eviction and the next reservation a
Workload waits without an attempt: `queue_snapshot` and `queue_event` show it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from .._json_values import part, text
from ._attempt import Run
from ._objects import Entry, mapping, objects_of
from ._resources import Request, devices, pod_request, summed
from ._rows import Rows
from ._values import quantity, time, whole

# Condition -> kind of event, when it becomes true.
WHEN_TRUE = {
    "QuotaReserved": "quota_reserved", "Admitted": "admitted", "PodsReady": "pods_ready",
    "Evicted": "evicted", "Preempted": "preempted", "Requeued": "requeued", "Finished": "finished",
}  # fmt: skip
WHEN_FALSE = {"QuotaReserved": "waiting", "PodsReady": "pods_not_ready"}
# State of an attempt that was evicted for a reason; for others CANCELLED.
EVICTED_STATE = {
    "Preempted": "PREEMPTED", "NodeFailures": "NODE_FAIL", "PodsReadyTimeout": "BOOT_FAIL",
    "MaximumExecutionTimeExceeded": "TIMEOUT", "FlavorMigration": "REQUEUED",
    "AdmissionCheck": "REQUEUED", "ClusterQueueStopped": "REQUEUED", "LocalQueueStopped": "REQUEUED",
}  # fmt: skip
FINISHED_STATE = {"Succeeded": "COMPLETED", "JobFinished": "COMPLETED", "Failed": "FAILED"}
PREEMPTOR = re.compile(r"\(UID: (?P<uid>[^,)]+)(?:, JobUID: (?P<job>[^,)]+))?\)")
ONE_SECOND = timedelta(seconds=1)


def job_of(entry: Entry) -> tuple[str, str | None, str | None]:
    """Job id, its uid and its name: the owner's, else the Workload's own."""
    owners = objects_of(entry.meta.get("ownerReferences"))
    owner = next((o for o in owners if o.get("controller")), owners[0] if owners else {})
    name = text(owner.get("name")) or entry.name
    labelled = part(entry.meta, "labels", "kueue.x-k8s.io/job-uid")
    uid = text(owner.get("uid")) or text(labelled) or entry.uid
    return f"{entry.namespace}/{name}", uid, name


def add_workloads(
    entries: Sequence[Entry], observed: datetime, rows: Rows
) -> dict[str, tuple[str, str | None]]:
    """Events, attempts and snapshots of every Workload; versions of one follow each other.

    Returns NAMESPACE/NAME of each with its job and that one's uid.
    """
    names = {uid: job_of(e)[0] for e in entries for uid in (e.uid, job_of(e)[1]) if uid}
    versions: dict[str, list[Entry]] = {}
    for entry in entries:
        versions.setdefault(entry.uid or f"{entry.namespace}/{entry.name}", []).append(entry)
    for history in versions.values():
        for entry in history:
            _add_events(entry, names, rows)
        _add_runs(history, observed, rows)
    return {f"{e.namespace}/{e.name}": job_of(e)[:2] for e in entries}


def _conditions(entry: Entry) -> dict[str, Mapping[str, Any]]:
    found = objects_of(part(entry.body, "status", "conditions"))
    return {c["type"]: c for c in found if isinstance(c.get("type"), str)}


def _add_events(entry: Entry, names: Mapping[str, str], rows: Rows) -> None:
    job_id, uid, _ = job_of(entry)
    queue = text(part(entry.body, "spec", "queueName"))
    shared = {
        "job_id": job_id, "pod": "", "raw_job_id": uid, "workload": entry.name, "queue": queue,
        "ts_precision_s": 1.0, "is_inferred": False, "source": "kueue",
    }  # fmt: skip
    if created := entry.created:
        rows.add("queue_event", entry.line_no, {**shared, "kind": "submitted", "ts": created})
    admission = mapping(part(entry.body, "status", "admission"))
    flavor = _gpu_flavor(admission)
    for name, condition in _conditions(entry).items():
        is_true = condition.get("status") == "True"
        kind = (WHEN_TRUE if is_true else WHEN_FALSE).get(name)
        ts = time(condition.get("lastTransitionTime"))
        if kind is None or ts is None:
            continue
        message = text(condition.get("message"))
        preemptor = PREEMPTOR.search(message or "") if kind in {"evicted", "preempted"} else None
        by = (preemptor["job"] or preemptor["uid"]) if preemptor else None
        has_quota = kind in {"quota_reserved", "admitted", "pods_ready"}
        rows.add("queue_event", entry.line_no, {
            **shared,
            "kind": kind,
            "ts": ts,
            "cluster_queue": text(admission.get("clusterQueue")) if has_quota else None,
            "flavor": flavor if has_quota else None,
            "reason": text(condition.get("reason")),
            "message": message,
            "preemptor_uid": by,
            "preemptor_job_id": names.get(by or ""),
        })  # fmt: skip


def _add_runs(history: Sequence[Entry], observed: datetime, rows: Rows) -> None:
    runs: dict[datetime, Run] = {}
    key_of_quota: dict[datetime, datetime] = {}
    last_evicted: datetime | None = None
    for entry in history:
        conditions = _conditions(entry)
        run = _run(entry, conditions, key_of_quota, runs, last_evicted)
        last_evicted = _since(conditions, "Evicted") or last_evicted
        if run is not None:
            runs[run.key] = run
            if entry.change == "DELETED" and run.end is None:
                run.end = time(entry.meta.get("deletionTimestamp")) or observed
                run.state, run.native_state = "CANCELLED", "Deleted"
    last = history[-1]
    for run in runs.values():
        rows.add("job_attempt", last.line_no, run.attempt_row(observed, "kueue"))
    _add_snapshot(last, runs, observed, rows)


def _since(
    conditions: Mapping[str, Mapping[str, Any]], name: str, status: str = "True"
) -> datetime | None:
    condition = conditions.get(name, {})
    return time(condition.get("lastTransitionTime")) if condition.get("status") == status else None


def _quota_since(conditions: Mapping[str, Mapping[str, Any]]) -> datetime | None:
    """Since when it holds quota; admitted means that it does."""
    return _since(conditions, "QuotaReserved") or _since(conditions, "Admitted")


def _run(
    entry: Entry,
    conditions: Mapping[str, Mapping[str, Any]],
    key_of_quota: dict[datetime, datetime],
    runs: Mapping[datetime, Run],
    last_evicted: datetime | None,
) -> Run | None:
    """The attempt that this version of the Workload shows; None where it only waits again."""
    quota, evicted = _quota_since(conditions), _since(conditions, "Evicted")
    finished, created = _since(conditions, "Finished"), entry.created
    again = _was_evicted_before(entry, conditions, evicted)
    if quota is not None:
        key = key_of_quota.setdefault(quota, quota if again or created is None else created)
    elif evicted is not None and runs:
        key = max(runs)
    elif created is not None and not again:
        key = created
    else:
        return None
    run = runs.get(key) or _new_run(entry, key, created if key == created else last_evicted)
    run.request = _request(entry)
    if quota is not None:
        run.start = _since(conditions, "Admitted") or run.start
        run.allocated = _allocated(entry) or run.allocated
    elif evicted is not None and run.start is None:
        run.start = _first_start(entry, evicted)
    run.state, run.native_state = ("RUNNING", "Admitted") if run.start else ("PENDING", "Pending")
    if evicted is not None:
        reason = text(conditions["Evicted"].get("reason")) or ""
        run.end = _since(conditions, "QuotaReserved", "False") or evicted
        run.state, run.native_state = EVICTED_STATE.get(reason, "CANCELLED"), f"Evicted {reason}"
    elif finished is not None:
        reason = text(conditions["Finished"].get("reason")) or ""
        run.end = finished
        run.state, run.native_state = FINISHED_STATE.get(reason, "CANCELLED"), f"Finished {reason}"
    return run


def _was_evicted_before(
    entry: Entry, conditions: Mapping[str, Mapping[str, Any]], evicted: datetime | None
) -> bool:
    """Has it lost its quota before the run that is shown?"""
    counts = objects_of(part(entry.body, "status", "schedulingStats", "evictions"))
    evictions = sum(whole(c.get("count")) or 0 for c in counts)
    if evictions:
        return evictions > (1 if evicted is not None else 0)
    requeued = _since(conditions, "Requeued")
    if evicted is not None:
        return requeued is not None and requeued < evicted
    past = whole(part(entry.body, "status", "accumulatedPastExecutionTimeSeconds"))
    return bool(past or requeued or "Evicted" in conditions)


def _first_start(entry: Entry, evicted: datetime) -> datetime | None:
    """Start of a first run that is over: its eviction less the time Kueue says it ran."""
    past = whole(part(entry.body, "status", "accumulatedPastExecutionTimeSeconds"))
    return evicted - past * ONE_SECOND if past and past < 1 << 31 else None


def _new_run(entry: Entry, key: datetime, submit: datetime | None) -> Run:
    job_id, uid, name = job_of(entry)
    spec = mapping(entry.body.get("spec"))
    counts = objects_of(part(entry.body, "status", "schedulingStats", "evictions"))
    limit = whole(spec.get("maximumExecutionTimeSeconds"))
    return Run(
        job_id, key, "UNKNOWN", submit=submit,
        columns={
            "raw_job_id": uid,
            "job_name": name,
            "account": entry.namespace or None,
            "partition": text(spec.get("queueName")),
            "qos": text(spec.get("priorityClassName")) or text(part(spec, "priorityClassRef", "name")),
            "priority": whole(spec.get("priority")),
            "timelimit_s": limit,
            "timelimit_kind": "limited" if limit else None,
            "restart_count": sum(whole(c.get("count")) or 0 for c in counts) if counts else None,
        },
    )  # fmt: skip


def _request(entry: Entry) -> Request:
    sets = objects_of(part(entry.body, "spec", "podSets"))
    return summed([
        pod_request(mapping(part(s, "template", "spec"))).times(_count(s.get("count"), 1)) for s in sets
    ])  # fmt: skip


def _count(value: object, default: int) -> int:
    found = whole(value)
    return default if found is None or not 0 <= found < 1 << 31 else found


def _allocated(entry: Entry) -> Request | None:
    """What the admission assigned: resource usage by pod set, the flavor as the GPUs' model."""
    assigned = objects_of(part(entry.body, "status", "admission", "podSetAssignments"))
    used = [s for s in assigned if s.get("resourceUsage")]
    if not used:
        return None
    requests = []
    for pod_set in used:
        usage = mapping(pod_set["resourceUsage"])
        flavors = mapping(pod_set.get("flavors"))
        gpu_flavor = next((text(v) for k, v in flavors.items() if "gpu" in k), None)
        gpus, models = devices(usage, gpu_flavor)
        cpus, memory = quantity(usage.get("cpu")), quantity(usage.get("memory"))
        requests.append(Request(gpus=gpus, cpus=cpus, mem_bytes=memory, models=models))
    whole_request = summed(requests)
    whole_request.is_fractional = _request(entry).is_fractional
    return whole_request


def _gpu_flavor(admission: Mapping[str, Any]) -> str | None:
    """Flavors assigned to GPUs, else those of any resource."""
    flavors = [mapping(s.get("flavors")) for s in objects_of(admission.get("podSetAssignments"))]
    of_gpus = {str(v) for f in flavors for k, v in f.items() if "gpu" in k}
    return ",".join(sorted(of_gpus or {str(v) for f in flavors for v in f.values()})) or None


def _add_snapshot(
    entry: Entry, runs: Mapping[datetime, Run], observed: datetime, rows: Rows
) -> None:
    conditions = _conditions(entry)
    if entry.change == "DELETED" or _since(conditions, "Finished"):
        return
    open_runs = [run for run in runs.values() if run.end is None]
    waits = _quota_since(conditions) is None
    since = _since(conditions, "Evicted") or _since(conditions, "Requeued") or entry.created
    if open_runs:
        run = open_runs[-1]
    elif waits and since is not None:
        run = _new_run(entry, since, since)
        run.state, run.native_state, run.request = "PENDING", "Pending", _request(entry)
    else:
        return
    blocking = conditions.get("QuotaReserved", {}) if waits else {}
    said = ": ".join(s for k in ("reason", "message") if (s := text(blocking.get(k))))
    rows.add("queue_snapshot", entry.line_no, run.snapshot_row(observed, "kueue", said or None))
