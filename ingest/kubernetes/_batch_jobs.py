"""Jobs of `batch/v1`: attempts and events, with their pods where the file holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from .._json_values import part, text
from ._attempt import Run
from ._groups import PRINCIPAL_LABELS, controller
from ._objects import Entry, mapping
from ._pod_attempts import Collected, by_job
from ._pod_runs import run_of, runs_of
from ._pods import Pod, conditions
from ._resources import pod_request
from ._rows import Rows
from ._values import time, whole

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# Managers that tell of the runs themselves, or whose own object names the job.
OUTER_KINDS = frozenset({"JobSet", "Workload"})
FAILED_STATE = {"DeadlineExceeded": "TIMEOUT"}


def add_jobs(
    entries: Sequence[Entry],
    pods: Mapping[str, Pod],
    told: set[str],
    collected: Collected,
    observed: datetime,
    rows: Rows,
) -> set[str]:
    """Rows of every Job. Returns the job ids whose attempts are told here.

    A Job of an outer manager, and one that Kueue queues where its Workload is told or collected
    elsewhere, gives events only.
    """
    now_told = set()
    of_job = by_job(pods)
    for entry in {e.uid or f"{e.namespace}/{e.name}": e for e in entries}.values():
        job_id = f"{entry.namespace}/{entry.name}"
        _add_events(entry, job_id, rows)
        is_queued = bool(text(part(entry.meta, "labels", QUEUE_LABEL)))
        if is_queued and "Workload" in collected.kinds:
            now_told.add(job_id)
        if job_id in told or job_id in now_told or controller(entry).get("kind") in OUTER_KINDS:
            continue
        now_told.add(job_id)
        for run in _runs(entry, job_id, of_job.get(job_id, ()), observed):
            rows.add("job_attempt", entry.line_no, run.attempt_row(observed, "k8s"))
            if not run.is_over:
                reason = text(run.columns.get("state_reason"))
                rows.add("queue_snapshot", entry.line_no, run.snapshot_row(observed, "k8s", reason))
    return now_told


def _add_events(entry: Entry, job_id: str, rows: Rows) -> None:
    by_type = conditions(entry)
    status = mapping(entry.body.get("status"))
    found: list[tuple[str, datetime | None, Mapping[str, Any]]] = [
        ("submitted", entry.created, {}),
        ("eligible", time(status.get("startTime")), {}),
    ]
    suspended = by_type.get("Suspended", {})
    if suspended:
        kind = "suspended" if suspended.get("status") == "True" else "resumed"
        found.append((kind, time(suspended.get("lastTransitionTime")), suspended))
    ended, ending = _ended(entry)
    found.append(("finished", ended, ending))
    if entry.change == "DELETED":
        found.append(("deleted", time(entry.meta.get("deletionTimestamp")), {}))
    for kind, ts, why in found:
        if ts is not None:
            rows.add("queue_event", entry.line_no, {
                "job_id": job_id, "pod": "", "kind": kind, "ts": ts, "ts_precision_s": 1.0,
                "raw_job_id": entry.uid, "queue": text(part(entry.meta, "labels", QUEUE_LABEL)),
                "reason": text(why.get("reason")), "message": text(why.get("message")),
                "is_inferred": False, "source": "k8s",
            })  # fmt: skip


def _ended(entry: Entry) -> tuple[datetime | None, Mapping[str, Any]]:
    """When it ended and the condition that says so; `completionTime` is set on success only."""
    by_type = conditions(entry)
    for name in ("Complete", "Failed"):
        condition = by_type.get(name, {})
        if condition.get("status") == "True":
            done = time(part(entry.body, "status", "completionTime"))
            return done or time(condition.get("lastTransitionTime")), condition
    return None, {}


def _runs(entry: Entry, job_id: str, pods: Sequence[Pod], observed: datetime) -> list[Run]:
    """One run per group of pods that followed each other; without pods the Job's own times."""
    created = entry.created
    if created is None:
        return []
    groups = runs_of(pods) if pods else []
    runs = [run_of(g, created if at == 0 else None) for at, g in enumerate(groups)]
    if not runs:
        runs = [_own_run(entry, job_id, created)]
    last = runs[-1]
    ended, ending = _ended(entry)
    if ending:
        kind, reason = text(ending.get("type")) or "", text(ending.get("reason")) or ""
        last.native_state = f"{kind} {reason}".strip()
        last.is_over, last.end = True, last.end or ended
        if kind == "Complete":
            last.state = "COMPLETED"
        elif last.state not in {"NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT", "BOOT_FAIL"}:
            last.state = FAILED_STATE.get(reason, "FAILED")
    elif entry.change == "DELETED":
        last.is_over, last.state, last.native_state = True, "CANCELLED", "Deleted"
        last.end = last.end or time(entry.meta.get("deletionTimestamp")) or observed
    for run in runs:
        run.job_id = job_id
        own = _columns(entry, pods)
        run.columns |= {k: v for k, v in own.items() if run.columns.get(k) is None}
        run.columns["raw_job_id"], run.columns["job_name"] = entry.uid, entry.name
    return runs


def _own_run(entry: Entry, job_id: str, created: datetime) -> Run:
    """A Job without pods in the file. It holds GPUs from its start, as far as it tells: pods of an
    active Job of which none is ready may all be waiting.
    """
    spec, status = mapping(entry.body.get("spec")), mapping(entry.body.get("status"))
    count = whole(spec.get("parallelism"))
    request = pod_request(mapping(part(spec, "template", "spec")))
    request = request.times(1 if count is None or not 0 <= count < 1 << 31 else count)
    ran = any(status.get(name) for name in ("succeeded", "failed", "ready"))
    is_suspended = spec.get("suspend") is True
    start = time(status.get("startTime")) if ran else None
    state = "SUSPENDED" if is_suspended and start else "RUNNING" if start else "PENDING"
    return Run(job_id, created, state, state.capitalize(), submit=created, start=start,
               request=request, allocated=request if start else None)  # fmt: skip


def _columns(entry: Entry, pods: Sequence[Pod]) -> dict[str, Any]:
    spec, status = mapping(entry.body.get("spec")), mapping(entry.body.get("status"))
    template = mapping(part(spec, "template", "spec"))
    labels = mapping(entry.meta.get("labels"))
    limit = whole(spec.get("activeDeadlineSeconds"))
    failed = whole(status.get("failed"))
    return {
        "principal": next((u for n in PRINCIPAL_LABELS if (u := text(labels.get(n)))), None),
        "account": entry.namespace or None,
        "qos": text(template.get("priorityClassName")),
        "restart_count": failed if not pods and failed is not None and failed < 1 << 31 else None,
        "timelimit_s": limit,
        "timelimit_kind": "limited" if limit else None,
    }
