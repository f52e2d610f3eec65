"""What YuniKorn's REST API tells: applications, queues and events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fleetmark.source import Context, Option, Parsed, source

from ..tables.job_attempt import JOB_ATTEMPT
from ..tables.node_state import NODE_STATE
from ..tables.queue_event import QUEUE_EVENT
from ..tables.queue_snapshot import QUEUE_SNAPSHOT
from ..tables.quota import QUOTA
from ._objects import Objects, mapping, objects_of, read_documents
from ._rows import Rows
from ._values import stated_time
from ._yunikorn_events import EVENT_CHANGES, add_event
from ._yunikorn_rows import add_application, add_node, add_queue, latest_time

OBSERVED_AT = Option(
    "observed_at",
    "when the answer was given, ISO in UTC or epoch seconds; taken from a file name with ten digits. "
    "Queues and nodes carry no time: without it they are rejects; applications then count as known "
    "up to the latest time in the file",
)
NAME_TIME = r"(?:^|\D)(?P<observed_at>1\d{9})(?:\D|$)"
NO_TIME = "queues and nodes do not say when they were so: state it with --set observed_at=2026-01-31T08:00:00"
UNKNOWN = "no application, queue, node or event of YuniKorn"


def looks_like_yunikorn(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the keys tell
    """Keys that only YuniKorn's objects have."""
    keys = (
        b'"applicationState"',
        b'"eventChangeType"',
        b'"queuename"',
        b'"InstanceUUID"',
        b'"schedulable"',
    )
    is_node = b'"nodeID"' in head and b'"occupied"' in head
    return head.lstrip()[:1] in {b"{", b"["} and (is_node or any(key in head for key in keys))


@source(
    outputs=(JOB_ATTEMPT, QUEUE_EVENT, QUEUE_SNAPSHOT, QUOTA, NODE_STATE),
    reads="document",
    options=(OBSERVED_AT,),
    name_facts=NAME_TIME,
    sniff=looks_like_yunikorn,
)
def yunikorn(content: bytes, context: Context) -> Parsed:
    """Answers of `/ws/v1/partition/…/applications|queues|nodes`, `/ws/v1/events/batch|stream`; YuniKorn 1.0 to 1.7.

    Times are nanoseconds; one past 63 bits is unknown. An application is one attempt, from its first
    allocation; placeholders of a gang hold GPUs too. The event ring is lost with the scheduler: a
    batch whose LowestID is above 0 lacks what came before.
    """
    found = Objects()
    rows = Rows(context.options["cluster"])
    stated = stated_time(context.options.get("observed_at"))
    for document in read_documents(content, found):
        observed = stated or latest_time(document)
        for entry in _entries(document):
            found.count += 1
            problem = _add(entry, found, rows, observed, has_time=stated is not None)
            if problem:
                found.rejected.append((found.count, problem, json.dumps(entry, default=str)[:1000]))
    return Parsed(rows.frames(), found.rejects(), found.skipped)


def _entries(document: object) -> list[object]:
    """The objects of an answer: a list, a batch of events, partitions of nodes, or one object."""
    if isinstance(document, list):
        return [e for entry in document for e in _entries(entry)]
    body = mapping(document)
    for key in ("EventRecords", "nodesInfo", "nodes", "applications"):
        if isinstance(body.get(key), list):
            return list(body[key])
    return [document]


def _add(
    entry: object, found: Objects, rows: Rows, observed: datetime | None, *, has_time: bool
) -> str | None:
    body: Mapping[str, Any] = mapping(entry)
    line_no = found.count
    if "eventChangeType" in body:
        if body["eventChangeType"] not in EVENT_CHANGES:
            return "an event of unknown change"
        found.skipped += not add_event(body, line_no, rows)
        return None
    if "applicationID" in body and "queueName" in body:
        return add_application(body, line_no, observed, rows)
    if "queuename" in body or "nodeID" in body:
        return _add_state(body, line_no, rows, observed if has_time else None)
    return UNKNOWN


def _add_state(
    body: Mapping[str, Any], line_no: int, rows: Rows, observed: datetime | None
) -> str | None:
    """Take a node, or a queue with those below it; why that cannot be, if so."""
    if observed is None:
        return NO_TIME
    if "nodeID" in body:
        return add_node(body, line_no, observed, rows)
    waiting = [body]
    while waiting:
        queue = waiting.pop()
        add_queue(queue, line_no, observed, rows)
        waiting += objects_of(queue.get("children"))
    return None
