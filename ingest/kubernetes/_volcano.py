"""Volcano's Jobs and PodGroups, and KAI's PodGroups, as events and attempts.

A Volcano Job keeps one transition per phase (volcano-apis: pkg/apis/batch/v1alpha1/job.go), so a
second restart overwrites the first: a run after a restart is named by the time of that restart, the
first run by the Job's creation, and runs between are known only from a watch; `retryCount` tells how
many there were.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .._json_values import part, text
from ._attempt import Run
from ._groups import controller
from ._objects import Entry, mapping, objects_of
from ._pods import conditions
from ._resources import Request, devices, pod_request, summed
from ._rows import Rows
from ._values import quantity, time, whole

# Phase of a Job -> kind of event and state of its run.
PHASES = {
    "Pending": ("waiting", "PENDING"), "Inqueue": ("admitted", "PENDING"),
    "Running": ("started", "RUNNING"), "Restarting": ("requeued", "PENDING"),
    "Completing": ("other", "RUNNING"), "Completed": ("finished", "COMPLETED"),
    "Terminating": ("other", "RUNNING"), "Terminated": ("finished", "CANCELLED"),
    "Aborting": ("other", "RUNNING"), "Aborted": ("finished", "CANCELLED"),
    "Failed": ("finished", "FAILED"),
}  # fmt: skip
OVER = frozenset(phase for phase, (kind, _) in PHASES.items() if kind == "finished")
GROUP_PHASES = {"Running": "RUNNING", "Completed": "COMPLETED", "Unknown": "UNKNOWN"}
LAST_START = "kai.scheduler/last-start-timestamp"


def add_volcano_jobs(entries: Sequence[Entry], observed: datetime, rows: Rows) -> set[str]:
    """Rows of every Job of batch.volcano.sh. Returns the job ids whose attempts are told here."""
    versions: dict[str, list[Entry]] = {}
    for entry in entries:
        versions.setdefault(f"{entry.namespace}/{entry.name}", []).append(entry)
    for job_id, history in versions.items():
        runs: dict[datetime, Run] = {}
        for entry in history:
            _add_phase_events(entry, job_id, rows)
            run = _job_run(entry, job_id, runs)
            if run is not None:
                runs[run.key] = run
        _add_runs(history[-1], list(runs.values()), observed, rows, "volcano")
    return set(versions)


def _phases(entry: Entry) -> dict[str, datetime]:
    """Last time of each phase; the newest stands in `status.state` too."""
    status = mapping(entry.body.get("status"))
    found: dict[str, datetime] = {}
    for condition in [*objects_of(status.get("conditions")), mapping(status.get("state"))]:
        phase = text(condition.get("status")) or text(condition.get("phase"))
        moment = time(condition.get("lastTransitionTime"))
        if phase and moment:
            found[phase] = max(moment, found.get(phase, moment))
    return found


def _add_phase_events(entry: Entry, job_id: str, rows: Rows) -> None:
    shared = {
        "job_id": job_id, "pod": "", "ts_precision_s": 1.0, "raw_job_id": entry.uid,
        "queue": text(part(entry.body, "spec", "queue")), "is_inferred": False, "source": "volcano",
    }  # fmt: skip
    if created := entry.created:
        rows.add("queue_event", entry.line_no, {**shared, "kind": "submitted", "ts": created})
    state = mapping(part(entry.body, "status", "state"))
    for phase, ts in _phases(entry).items():
        kind = PHASES.get(phase, ("other", ""))[0]
        is_now = state.get("phase") == phase
        rows.add("queue_event", entry.line_no, {
            **shared, "kind": kind, "ts": ts, "reason": phase,
            "message": text(state.get("message")) if is_now else None,
        })  # fmt: skip


def _job_run(entry: Entry, job_id: str, runs: dict[datetime, Run]) -> Run | None:
    phases, created = _phases(entry), entry.created
    restarted = phases.get("Restarting")
    key = restarted or created
    if key is None:
        return None
    phase = text(part(entry.body, "status", "state", "phase")) or "Pending"
    if restarted is not None:
        for earlier in runs.values():
            if earlier.key < restarted and not earlier.is_over:
                earlier.end, earlier.is_over, earlier.state = restarted, True, "REQUEUED"
    run = runs.get(key) or Run(job_id, key, "PENDING", submit=key, columns=_job_columns(entry))
    started = phases.get("Running")
    if started is not None and started >= key:
        run.start = started
    run.state, run.native_state = PHASES.get(phase, ("", "UNKNOWN"))[1], phase
    run.request = run.allocated = _tasks_request(entry)
    if run.state == "RUNNING" and run.start is None:
        run.state = "PENDING"
    if phase in OVER:
        run.is_over, run.end = True, phases.get(phase)
    elif entry.change == "DELETED":
        run.is_over, run.state = True, "CANCELLED"
        run.end = time(entry.meta.get("deletionTimestamp"))
    return run


def _job_columns(entry: Entry) -> dict[str, Any]:
    spec = mapping(entry.body.get("spec"))
    return {
        "raw_job_id": entry.uid,
        "job_name": entry.name,
        "account": entry.namespace or None,
        "partition": text(spec.get("queue")),
        "qos": text(spec.get("priorityClassName")),
        "restart_count": whole(part(entry.body, "status", "retryCount")),
    }


def _tasks_request(entry: Entry) -> Request:
    tasks = objects_of(part(entry.body, "spec", "tasks"))
    found = []
    for task in tasks:
        count = whole(task.get("replicas"))
        one = pod_request(mapping(part(task, "template", "spec")))
        found.append(one.times(1 if count is None or not 0 <= count < 1 << 31 else count))
    return summed(found)


def add_pod_groups(
    entries: Sequence[Entry], told: set[str], observed: datetime, rows: Rows
) -> dict[str, tuple[str, str | None]]:
    """Events of PodGroups, and attempts of those whose Job is not told. Returns NAMESPACE/NAME of
    each with its job and that one's uid.
    """
    names = {}
    for entry in {f"{e.namespace}/{e.name}": e for e in entries}.values():
        owner = controller(entry) or {}
        name = text(owner.get("name")) or entry.name
        job_id, uid = f"{entry.namespace}/{name}", text(owner.get("uid")) or entry.uid
        names[f"{entry.namespace}/{entry.name}"] = (job_id, uid)
        source = "kai" if entry.group.endswith("run.ai") else "volcano"
        _add_group_events(entry, job_id, uid, source, rows)
        if job_id not in told:
            _add_runs(entry, [_group_run(entry, job_id, uid)], observed, rows, source)
            told.add(job_id)
    return names


def _add_group_events(entry: Entry, job_id: str, uid: str | None, source: str, rows: Rows) -> None:
    for name, condition in conditions(entry).items():
        kind = {"Scheduled": "bound", "Unschedulable": "waiting"}.get(name)
        ts = time(condition.get("lastTransitionTime"))
        if kind is None or ts is None or condition.get("status") != "True":
            continue
        rows.add("queue_event", entry.line_no, {
            "job_id": job_id, "pod": "", "kind": kind, "ts": ts, "ts_precision_s": 1.0,
            "raw_job_id": uid, "workload": entry.name,
            "queue": text(part(entry.body, "spec", "queue")),
            "reason": text(condition.get("reason")), "message": text(condition.get("message")),
            "is_inferred": False, "source": source,
        })  # fmt: skip


def _group_run(entry: Entry, job_id: str, uid: str | None) -> Run:
    """A run as its PodGroup shows it: the resources of its least members, no time of its end."""
    spec, by_type = mapping(entry.body.get("spec")), conditions(entry)
    phase = text(part(entry.body, "status", "phase")) or "Pending"
    state = GROUP_PHASES.get(phase, "PENDING")
    scheduled = by_type.get("Scheduled", {})
    start = time(part(entry.meta, "annotations", LAST_START))
    if scheduled.get("status") == "True":
        start = start or time(scheduled.get("lastTransitionTime"))
    wanted = mapping(spec.get("minResources")) or mapping(
        part(entry.body, "status", "resourcesStatus", "requested")
    )
    request = None
    if wanted:
        gpus, models = devices(wanted, None)
        cpus, memory = quantity(wanted.get("cpu")), quantity(wanted.get("memory"))
        request = Request(gpus=gpus, cpus=cpus, mem_bytes=memory, models=models)
    created = entry.created
    key = created or start or datetime(2000, 1, 1)  # noqa: DTZ001 - UTC without zone, as everywhere
    blocked = by_type.get("Unschedulable", {})
    return Run(
        job_id, key, "RUNNING" if start and state == "PENDING" else state, phase,
        submit=created, start=start, is_over=phase == "Completed", request=request,
        columns={
            "raw_job_id": uid,
            "job_name": job_id.partition("/")[2],
            "account": entry.namespace or None,
            "partition": text(spec.get("queue")),
            "qos": text(spec.get("priorityClassName")),
            "state_reason": text(blocked.get("message")) if start is None else None,
        },
    )  # fmt: skip


def _add_runs(
    entry: Entry, runs: Sequence[Run], observed: datetime, rows: Rows, source: str
) -> None:
    for run in runs:
        rows.add("job_attempt", entry.line_no, run.attempt_row(observed, source))
        if not run.is_over and entry.change != "DELETED":
            why: Mapping[str, Any] = mapping(part(entry.body, "status", "state"))
            reason = text(why.get("message")) or run.columns.get("state_reason")
            rows.add("queue_snapshot", entry.line_no, run.snapshot_row(observed, source, reason))
