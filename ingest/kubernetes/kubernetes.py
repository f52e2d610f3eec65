"""Objects of Kubernetes and of the queues on it, as `kubectl get … -o json` or `-o yaml` prints them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime

from fleetmark.source import Context, Option, Parsed, source

from ..tables.job_attempt import JOB_ATTEMPT
from ..tables.node_event import NODE_EVENT
from ..tables.node_state import NODE_STATE
from ..tables.queue_event import QUEUE_EVENT
from ..tables.queue_snapshot import QUEUE_SNAPSHOT
from ..tables.quota import QUOTA
from ._batch_jobs import add_jobs
from ._events import add_events
from ._groups import group_of
from ._kueue import add_workloads
from ._kueue_quota import add_quotas
from ._nodes import add_nodes
from ._objects import TABLE_HEAD, Entry, Objects, is_yaml, read_objects
from ._pod_attempts import Collected, add_pod_attempts
from ._pods import Pod, add_pod_events, pod_of
from ._resource_quota import add_resource_quotas
from ._rows import Rows
from ._scheduler_queues import add_kai_queues, add_volcano_queues
from ._values import stated_time
from ._volcano import add_pod_groups, add_volcano_jobs

OBSERVED_AT = Option(
    "observed_at",
    "when the objects were read, ISO in UTC or epoch seconds; taken from a file name with ten digits "
    "such as pods-1796035769.json. Without it: the latest time in the file, which is earlier",
)
ALSO_COLLECTED = Option(
    "also_collected",
    "kinds that are collected in other files, such as Workload,Job: jobs which those tell of get no "
    "attempts from their pods (and Jobs) here. Not needed where one file holds all kinds",
    "",
)
NAME_TIME = r"(?:^|\D)(?P<observed_at>1\d{9})(?:\D|$)"
KUEUE, VOLCANO, KAI = "kueue.x-k8s.io", "scheduling.volcano.sh", "scheduling.run.ai"
VOLCANO_JOBS = "batch.volcano.sh"


def looks_like_kubernetes(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the keys tell
    """JSON or YAML with an API version, a kind and metadata; not the audit log, whose events have none.
    kubectl's tables, too, to say how to collect what is read.
    """
    if is_yaml(head):
        # A kubeconfig has neither metadata nor items.
        keys = (rb"apiVersion: ", rb"kind: ", rb"(?:metadata|items):")
        return all(re.search(rb"^[ -]*" + key, head, re.MULTILINE) for key in keys)
    if TABLE_HEAD.match(head[:400].decode("utf-8", "replace")):
        return True
    keys = (b'"apiVersion"', b'"kind"', b'"metadata"')
    is_json = head.lstrip()[:1] in {b"{", b"["} and all(key in head for key in keys)
    return is_json and b'"audit.k8s.io/' not in head[:4096]


@source(
    outputs=(JOB_ATTEMPT, QUEUE_EVENT, QUEUE_SNAPSHOT, QUOTA, NODE_STATE, NODE_EVENT),
    reads="document",
    options=(OBSERVED_AT, ALSO_COLLECTED),
    name_facts=NAME_TIME,
    sniff=looks_like_kubernetes,
)
def kubernetes(content: bytes, context: Context) -> Parsed:
    """Kubernetes objects as JSON or YAML: lists, single objects, watch output, any kinds in one file.

    Read: Pod, Node, Event, ResourceQuota, Job; Kueue's Workload, ClusterQueue, LocalQueue, Cohort and
    ResourceFlavor (v1beta1, v1beta2); Volcano's Job, PodGroup and Queue; KAI's PodGroup and Queue.
    Other kinds, events about other objects than pods and pods of services without GPUs give no row
    and are counted. YAML with aliases is refused by line: kubectl prints none.
    """
    found = read_objects(content)
    rows = Rows(context.options["cluster"])
    observed = stated_time(context.options.get("observed_at")) or found.latest_time()
    if observed is not None:
        names = context.options["also_collected"].split(",")
        Gathering(found, observed, rows).gather(Collected(frozenset(n.strip() for n in names)))
    else:
        found.skipped += len(found.entries)
    return Parsed(rows.frames(), found.rejects(), found.skipped)


class Gathering:
    """One file's objects on their way to rows."""

    def __init__(self, found: Objects, observed: datetime, rows: Rows) -> None:
        self.observed = observed
        self.rows = rows
        self.found = found
        self.taken = 0

    def of(self, group: str, *kinds: str) -> list[Entry]:
        """The objects of some kinds of an API group."""
        entries = [e for e in self.found.entries if e.group == group and e.kind in kinds]
        self.taken += len(entries)
        return entries

    def gather(self, collected: Collected) -> None:
        """Rows of every kind; what tells of a job's runs comes before what only may."""
        observed, rows = self.observed, self.rows
        named = add_workloads(self.of(KUEUE, "Workload"), observed, rows)
        add_quotas(self.of(KUEUE, "ClusterQueue", "LocalQueue", "Cohort"),
                   self.of(KUEUE, "ResourceFlavor"), observed, rows)  # fmt: skip
        told = {job_id for job_id, _ in named.values()}
        told |= add_volcano_jobs(self.of(VOLCANO_JOBS, "Job"), observed, rows)
        for group in (VOLCANO, KAI):
            named |= add_pod_groups(self.of(group, "PodGroup"), told, observed, rows)
        add_volcano_queues(self.of(VOLCANO, "Queue"), observed, rows)
        add_kai_queues(self.of(KAI, "Queue"), observed, rows)
        add_resource_quotas(self.of("", "ResourceQuota"), observed, rows)
        pod_entries = self.of("", "Pod")
        pods = self._pods(pod_entries, named)
        jobs = self.of("batch", "Job")
        told |= add_jobs(jobs, pods, told, collected, observed, rows)
        services = add_pod_attempts(pods, told, collected, observed, rows)
        nodes = self.of("", "Node")
        add_nodes(nodes, list(pods.values()) if pod_entries else None, observed, rows)
        events = self.of("", "Event") + self.of("events.k8s.io", "Event")
        others = add_events(events, pods, rows)
        self.found.skipped += len(self.found.entries) - self.taken + others + services

    def _pods(
        self, entries: list[Entry], named: Mapping[str, tuple[str, str | None]]
    ) -> dict[str, Pod]:
        """The latest version of every pod by uid, and events of each version."""
        pods: dict[str, Pod] = {}
        for entry in entries:
            pod = pod_of(entry, group_of(entry, named), self.observed)
            if pod is None:
                self.found.skipped += 1
                continue
            pods[entry.uid or f"{entry.namespace}/{entry.name}"] = pod
            if pod.is_job:
                add_pod_events(pod, self.rows)
        return pods
