"""Which job a pod belongs to, by its owner and by the labels that job managers put on pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._json_values import text
from ._objects import Entry, mapping, objects_of

# Labels whose value names the job, the outermost manager first (JobSet makes Jobs, and so on).
JOB_LABELS = (
    "kueue.x-k8s.io/pod-group-name",
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "leaderworkerset.sigs.k8s.io/name",
    "ray.io/originated-from-cr-name",
    "ray.io/cluster",
    "batch.kubernetes.io/job-name",
    "job-name",
    "yunikorn.apache.org/app-id",
    "applicationId",
)
# Labels that differ between groups of one job that come and go on their own.
RUN_LABELS = (
    "jobset.sigs.k8s.io/restart-attempt",
    "volcano.sh/job-version",
    "leaderworkerset.sigs.k8s.io/group-key",
)
GROUP_ANNOTATIONS = ("kueue.x-k8s.io/workload", "scheduling.k8s.io/group-name")
# Controllers whose pods come and go one by one: each pod is a job of its own.
SERVICES = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Node"})
PRINCIPAL_LABELS = ("user", "owner", "submitted-by", "app.kubernetes.io/created-by")


@dataclass(frozen=True, slots=True)
class Group:
    """The job of a pod. `run` tells groups of pods of one job apart, where labels do."""

    job_id: str
    uid: str | None
    name: str
    run: str
    is_service: bool


def controller(entry: Entry) -> Mapping[str, Any]:
    """The object's controlling owner, an empty object for none."""
    owners = objects_of(entry.meta.get("ownerReferences"))
    return next((o for o in owners if o.get("controller")), {})


def group_of(entry: Entry, workloads: Mapping[str, tuple[str, str | None]]) -> Group:
    """The job of a pod. `workloads`: NAMESPACE/NAME of a Workload or PodGroup to its job and uid."""
    labels, notes = mapping(entry.meta.get("labels")), mapping(entry.meta.get("annotations"))
    run = "/".join(v for name in RUN_LABELS if (v := text(labels.get(name))))
    for annotation in GROUP_ANNOTATIONS:
        known = workloads.get(f"{entry.namespace}/{notes.get(annotation)}")
        if known:
            return Group(known[0], known[1], known[0].partition("/")[2], run, is_service=False)
    owner = controller(entry)
    owner_uid = text(owner.get("uid"))
    named = [labels.get(n) for n in JOB_LABELS] + [notes.get(n) for n in GROUP_ANNOTATIONS]
    name = next((found for value in named if (found := text(value))), None)
    if name is None and owner and owner.get("kind") not in SERVICES:
        name = text(owner.get("name"))
    if name is not None:
        uid = owner_uid if owner.get("name") == name else None
        return Group(f"{entry.namespace}/{name}", uid, name, run, is_service=False)
    own = entry.name or ""
    return Group(f"{entry.namespace}/{own}", entry.uid, own, run, owner.get("kind") in SERVICES)
