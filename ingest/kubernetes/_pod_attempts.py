"""Attempts of jobs that nothing but their pods tells of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from .._json_values import part, text
from ._groups import controller
from ._objects import mapping
from ._pod_runs import run_of, runs_of
from ._pods import Pod
from ._rows import Rows


@dataclass(frozen=True, slots=True)
class Collected:
    """Kinds that other files hold: attempts of their jobs come from there."""

    kinds: frozenset[str]

    def tells(self, pod: Pod) -> bool:
        """Does one of those kinds tell of this pod's job?"""
        labels, notes = (
            mapping(pod.entry.meta.get("labels")),
            mapping(pod.entry.meta.get("annotations")),
        )
        signs = {
            "Workload": "kueue.x-k8s.io/workload" in notes
            or any(str(name).startswith("kueue.x-k8s.io/") for name in labels),
            "PodGroup": "scheduling.k8s.io/group-name" in notes,
            "Job": controller(pod.entry).get("kind") == "Job",
        }
        return any(signs.get(kind, False) for kind in self.kinds)


def by_job(pods: Mapping[str, Pod]) -> dict[str, list[Pod]]:
    """The pods of each job."""
    found: dict[str, list[Pod]] = {}
    for pod in pods.values():
        found.setdefault(pod.group.job_id, []).append(pod)
    return found


def add_pod_attempts(
    pods: Mapping[str, Pod], told: set[str], collected: Collected, observed: datetime, rows: Rows
) -> int:
    """A row per run of jobs that are not told yet. Returns how many pods are of services without GPUs."""
    services = 0
    for job_id, group in by_job(pods).items():
        services += sum(not pod.is_job for pod in group)
        own = [p for p in group if p.is_job and not collected.tells(p)]
        if job_id in told or not own:
            continue
        for run_pods in runs_of(own):
            run = run_of(run_pods)
            line_no = run_pods[0].entry.line_no
            rows.add("job_attempt", line_no, run.attempt_row(observed, "k8s"))
            if not run.is_over:
                reason = run.columns.get("state_reason")
                reason = text(reason) or text(part(run_pods[0].entry.body, "status", "reason"))
                rows.add("queue_snapshot", line_no, run.snapshot_row(observed, "k8s", reason))
    return services
