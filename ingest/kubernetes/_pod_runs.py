"""Attempts from pods: those of one job that overlap in time are one run of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from .._json_values import part, text
from ._attempt import Run
from ._groups import PRINCIPAL_LABELS
from ._objects import mapping
from ._pods import Pod
from ._resources import Request, summed
from ._values import whole

MOMENT = timedelta(microseconds=1)
# Of the states of a run's pods the first that is there names the run's.
WORST = (
    "NODE_FAIL", "OUT_OF_MEMORY", "TIMEOUT", "PREEMPTED", "BOOT_FAIL", "FAILED", "CANCELLED",
    "RUNNING", "PENDING", "COMPLETED",
)  # fmt: skip


def runs_of(pods: Sequence[Pod]) -> list[list[Pod]]:
    """The pods of a job by run, in order: a run begins when all pods before have ended.

    Where labels number the runs (JobSet, Volcano, LeaderWorkerSet), they decide.
    """
    by_run: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=lambda p: p.created):
        by_run.setdefault(pod.group.run, []).append(pod)
    found = []
    for numbered in by_run.values():
        current: list[Pod] = []
        is_over, until = True, numbered[0].created
        for pod in numbered:
            if current and is_over and pod.created > until:
                found.append(current)
                current, is_over = [], True
            is_over = is_over and pod.is_over
            until = max(until, pod.end or pod.created)
            current.append(pod)
        found.append(current)
    return sorted(found, key=lambda run: run[0].created)


def run_of(pods: Sequence[Pod], key: datetime | None = None) -> Run:
    """One attempt of these pods; `key` if its job names it otherwise than by its first pod."""
    first = pods[0]
    starts = [p.bound for p in pods if p.bound]
    ends = [p.end for p in pods if p.end]
    is_over = all(p.is_over for p in pods)
    state = next((s for s in WORST if any(p.state == s for p in pods)), "UNKNOWN")
    if not is_over:
        state = "RUNNING" if starts else "PENDING"
    shown = next((p for p in pods if p.state == state), first)
    wanted = peak(pods, bound_only=False)
    is_ended_all = is_over and len(ends) == len(pods)
    return Run(
        first.group.job_id, key or first.created, state, shown.native_state,
        submit=key or first.created,
        start=min(starts, default=None),
        end=max(ends) if is_ended_all else None,
        is_over=is_over,
        request=wanted,
        allocated=peak(pods, bound_only=True) if starts else None,
        nodes=sorted({p.node for p in pods if p.node}) or None,
        columns=_columns(pods, shown),
    )  # fmt: skip


def _columns(pods: Sequence[Pod], shown: Pod) -> dict[str, Any]:
    first = pods[0]
    spec = mapping(first.entry.body.get("spec"))
    labels = mapping(first.entry.meta.get("labels"))
    restarts = sum(p.restarts for p in pods)
    limit = whole(spec.get("activeDeadlineSeconds"))
    waiting = next((p.reason for p in pods if p.state == "PENDING" and p.reason), None)
    return {
        "raw_job_id": first.group.uid,
        "job_name": first.group.name,
        "principal": next((u for n in PRINCIPAL_LABELS if (u := text(labels.get(n)))), None),
        "account": first.entry.namespace or None,
        "partition": text(labels.get("kueue.x-k8s.io/queue-name")) or text(labels.get("queue")),
        "qos": text(spec.get("priorityClassName")),
        "priority": whole(spec.get("priority")),
        "exit_code": shown.exit_code,
        "exit_signal": shown.exit_signal,
        "state_reason": waiting or text(part(shown.entry.body, "status", "reason")),
        "restart_count": restarts if restarts < 1 << 31 else None,
        "timelimit_s": limit,
        "timelimit_kind": "limited" if limit else None,
    }


def peak(pods: Sequence[Pod], *, bound_only: bool) -> Request:
    """What the most pods at a time hold (or ask for): a pod and its replacement count once."""
    changes: list[tuple[datetime, int, int]] = []
    for at, pod in enumerate(pods):
        start = pod.bound if bound_only else pod.created
        if start is None:
            continue
        changes.append((start, 1, at))
        if pod.end is not None:
            changes.append((max(pod.end, start + MOMENT), 0, at))
    held, most = set[int](), frozenset[int]()
    gpus, most_gpus = 0.0, -1.0
    for _, is_start, at in sorted(changes):
        weight = pods[at].request.gpus or 0.0
        if not is_start:
            held.discard(at)
            gpus -= weight
            continue
        held.add(at)
        gpus += weight
        if gpus > most_gpus or (gpus == most_gpus and len(held) > len(most)):
            most_gpus, most = gpus, frozenset(held)
    return summed([pods[at].request for at in sorted(most)])
