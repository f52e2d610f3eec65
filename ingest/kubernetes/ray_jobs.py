"""Jobs of a Ray cluster, as its dashboard lists them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fleetmark.source import Context, Parsed, source

from .._json_values import text
from ..tables.queue_event import QUEUE_EVENT
from ._objects import Objects, mapping, read_documents
from ._rows import Rows
from ._values import whole

STATES = frozenset({"PENDING", "RUNNING", "STOPPED", "SUCCEEDED", "FAILED"})


def looks_like_ray_jobs(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the keys tell
    """A list of objects with a submission and an entrypoint."""
    return (
        head.lstrip()[:1] in {b"[", b"{"} and b'"submission_id"' in head and b'"entrypoint"' in head
    )


@source(outputs=(QUEUE_EVENT,), reads="document", sniff=looks_like_ray_jobs)
def ray_jobs(content: bytes, context: Context) -> Parsed:
    """Ray's jobs API: `GET /api/jobs/` and `/api/jobs/ID`, Ray 2.0 to 2.60.

    Ray knows no queue, and its GPU figure is the driver's alone, so these jobs add no attempts: the
    allocation is told by the scheduler that runs the Ray cluster (RayJob, Kueue, Slurm). Times are
    milliseconds. The list is gone with the head node.
    """
    found = Objects()
    rows = Rows(context.options["cluster"])
    for document in read_documents(content, found):
        for entry in document if isinstance(document, list) else [document]:
            found.count += 1
            problem = _add(mapping(entry), found.count, rows)
            if problem:
                found.rejected.append((found.count, problem, json.dumps(entry, default=str)[:1000]))
    return Parsed(rows.frames(), found.rejects())


def _add(job: Mapping[str, Any], line_no: int, rows: Rows) -> str | None:
    """Take the events of a job; why it cannot be read, if so."""
    job_id = text(job.get("submission_id")) or text(job.get("job_id"))
    if job_id is None or job.get("status") not in STATES:
        return "no job of Ray: needs submission_id or job_id, and status"
    start, end = _time(job.get("start_time")), _time(job.get("end_time"))
    if start is None:
        return "start_time is no time in milliseconds"
    message = text(job.get("message"))
    for kind, ts, reason in (("started", start, None), ("finished", end, job["status"])):
        if ts is None:
            continue
        is_end = kind == "finished"
        failed = text(job.get("error_type")) or reason
        rows.add("queue_event", line_no, {
            "job_id": job_id, "pod": "", "kind": kind, "ts": ts, "ts_precision_s": 1e-3,
            "raw_job_id": text(job.get("job_id")), "workload": text(job.get("submission_id")),
            "reason": failed if is_end else None,
            "message": message if is_end else None,
            "is_inferred": False, "source": "ray",
        })  # fmt: skip
    return None


def _time(value: object) -> datetime | None:
    milliseconds = whole(value)
    if milliseconds is None or not 946684800000 <= milliseconds < 4102444800000:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).replace(tzinfo=None)
