"""Objects of Kubernetes and of the queues on it, as `kubectl get … -o json` prints them."""

from __future__ import annotations

from datetime import datetime

from fleetmark.source import Context, Option, Parsed, source

from ..tables.job_attempt import JOB_ATTEMPT
from ..tables.node_event import NODE_EVENT
from ..tables.node_state import NODE_STATE
from ..tables.queue_event import QUEUE_EVENT
from ..tables.queue_snapshot import QUEUE_SNAPSHOT
from ..tables.quota import QUOTA
from ._kueue import add_workloads
from ._kueue_quota import add_quotas
from ._objects import Objects, read_objects
from ._rows import Rows
from ._values import stated_time

OBSERVED_AT = Option(
    "observed_at",
    "when the objects were read, ISO in UTC or epoch seconds; taken from a file name with ten digits "
    "such as pods-1796035769.json. Without it: the latest time in the file, which is earlier",
)
NAME_TIME = r"(?:^|\D)(?P<observed_at>1\d{9})(?:\D|$)"
# Kinds whose names are those of other API groups as well.
KUEUE = "kueue.x-k8s.io"


def looks_like_kubernetes(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the keys tell
    """JSON with an API version, a kind and metadata."""
    keys = (b'"apiVersion"', b'"kind"', b'"metadata"')
    return head.lstrip()[:1] in {b"{", b"["} and all(key in head for key in keys)


@source(
    outputs=(JOB_ATTEMPT, QUEUE_EVENT, QUEUE_SNAPSHOT, QUOTA, NODE_STATE, NODE_EVENT),
    reads="document",
    options=(OBSERVED_AT,),
    name_facts=NAME_TIME,
    sniff=looks_like_kubernetes,
)
def kubernetes(content: bytes, context: Context) -> Parsed:
    """Kubernetes objects as JSON: lists, single objects, watch output, any kinds in one file.

    Read: Kueue's Workload, ClusterQueue, LocalQueue, Cohort and ResourceFlavor (v1beta1, v1beta2).
    Other kinds are skipped and counted. YAML is not read.
    """
    found = read_objects(content)
    rows = Rows(context.options["cluster"])
    observed = stated_time(context.options.get("observed_at")) or found.latest_time()
    if observed is not None:
        _gather(found, observed, rows)
    return Parsed(rows.frames(), found.rejects(), found.skipped)


def _gather(found: Objects, observed: datetime, rows: Rows) -> None:
    of_kueue = [e for e in found.entries if e.group == KUEUE]
    kinds = {
        kind: [e for e in of_kueue if e.kind in names]
        for kind, names in (
            ("workload", {"Workload"}),
            ("queue", {"ClusterQueue", "LocalQueue", "Cohort"}),
            ("flavor", {"ResourceFlavor"}),
        )
    }
    add_workloads(kinds["workload"], observed, rows)
    add_quotas(kinds["queue"], kinds["flavor"], observed, rows)
    read = {id(e) for entries in kinds.values() for e in entries}
    found.skipped += sum(id(e) not in read for e in found.entries)
