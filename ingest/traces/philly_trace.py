"""Philly: Microsoft's job log of 2017, with every attempt."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Parsed, source
from fleetmark.table import TYPES

from ..tables.job_attempt import JOB_ATTEMPT


class Detail(msgspec.Struct):
    """GPUs of an attempt on one server."""

    ip: str
    gpus: list[str]


class Attempt(msgspec.Struct):
    """One run; a time that was not recorded is null or the word None."""

    start_time: str | None = None
    end_time: str | None = None
    detail: list[Detail] = []


class Job(msgspec.Struct):
    """One entry of the log."""

    jobid: str
    status: str
    submitted_time: str | None = None
    vc: str | None = None
    user: str | None = None
    attempts: list[Attempt] = []


STATES = {"Pass": "COMPLETED", "Killed": "CANCELLED", "Failed": "FAILED"}
COLUMNS = (
    *("cluster", "job_id", "attempt", "attempt_ts", "principal", "partition", "submit_ts"),
    *("start_ts", "end_ts", "observed_ts", "phase", "state", "native_state", "elapsed_s"),
    *("req_gpus", "alloc_nodes", "alloc_gpus", "gpu_count_source", "node_list"),
    *("has_all_attempts", "source"),
)


def looks_like_philly(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the keys tell
    """A JSON list whose first entry has the log's keys."""
    return head.lstrip()[:1] == b"[" and b'"submitted_time"' in head and b'"attempts"' in head


@source(outputs=(JOB_ATTEMPT,), reads="document", sniff=looks_like_philly)
def philly_trace(content: bytes, context: Context) -> Parsed:
    """`cluster_job_log` (msr-fiddle/philly-traces): a JSON list of jobs with all their attempts.

    The virtual cluster stands as `partition`. Times have no zone and stay on the clock of the data
    set. Only the first attempt has a submit time; that of a retry is not recorded and stays NULL.
    An attempt before the last was retried: REQUEUED. A last attempt without end still ran at the
    snapshot if it has a start. Row by row in Python: 140,000 attempts a second of CPU.
    """
    try:
        entries = msgspec.json.decode(content, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Parsed({}, _rejects([(1, f"not a JSON list: {error}", content[:200])]))
    rows: list[dict[str, Any]] = []
    bad: list[tuple[int, str, bytes]] = []
    decoder = msgspec.json.Decoder(Job)
    for number, raw in enumerate(entries, 1):
        try:
            job = decoder.decode(raw)
            rows += [
                {"line_no": number, **row} for row in _attempts(job, context.options["cluster"])
            ]
        except (ValueError, OverflowError) as error:
            bad.append((number, f"no job of the log: {error}", bytes(raw)))
    schema = {"line_no": pl.Int64(), **{c: TYPES[JOB_ATTEMPT.column(c).type] for c in COLUMNS}}
    return Parsed({"job_attempt": pl.DataFrame(rows, schema=schema)}, _rejects(bad))


def _attempts(job: Job, cluster: str) -> Iterator[dict[str, Any]]:
    """Rows of one job, in order. Raises ValueError for times that cannot be read."""
    submit = _time(job.submitted_time)
    common = {
        "cluster": cluster,
        "job_id": job.jobid,
        "principal": job.user,
        "partition": job.vc,
        "has_all_attempts": True,
        "source": "trace_philly",
    }
    final = STATES.get(job.status, "UNKNOWN")
    if not job.attempts:
        yield (
            common
            | _moments(submit, None, None, -1)
            | {
                "submit_ts": submit,
                "phase": 2,
                "state": final,
                "native_state": job.status,
            }
        )
    key = -1
    for number, run in enumerate(job.attempts):
        start, end = _time(run.start_time), _time(run.end_time)
        is_last = number == len(job.attempts) - 1
        first_submit = submit if number == 0 else None
        row = common | _moments(first_submit, start, end, key)
        key = row["attempt"]
        is_open = is_last and end is None and start is not None
        gpus = sum(len(part.gpus) for part in run.detail)
        state = ("RUNNING" if is_open else final) if is_last else "REQUEUED"
        yield row | {
            "submit_ts": first_submit,
            "phase": 1 if is_open else 2,
            "state": state,
            "native_state": job.status if is_last else None,
            "req_gpus": gpus or None,
            "alloc_nodes": len(run.detail) or None,
            "alloc_gpus": gpus or None,
            "gpu_count_source": "as_given" if gpus else "not_collected",
            "node_list": [part.ip for part in run.detail] or None,
        }


def _moments(
    submit: datetime | None, start: datetime | None, end: datetime | None, previous: int
) -> dict[str, Any]:
    """Times of an attempt and its key, which grows even where a time is missing."""
    if start is not None and end is not None and end < start:
        raise ValueError(f"an attempt ends at {end}, before its start at {start}")
    known = submit or start or end
    if known is None and previous < 0:
        raise ValueError("no time")
    key = int(known.replace(tzinfo=UTC).timestamp()) if known else previous
    key = max(key, previous + 1)
    return {
        "attempt": key,
        "attempt_ts": datetime.fromtimestamp(key, UTC).replace(tzinfo=None),
        "start_ts": start,
        "end_ts": end,
        "observed_ts": end or start or submit,
        "elapsed_s": int((end - start).total_seconds()) if start and end else None,
    }


def _time(text: str | None) -> datetime | None:
    if text is None or text in {"", "None"}:
        return None
    return datetime.strptime(text, "%Y-%m-%d %H:%M:%S")  # noqa: DTZ007 - the log states no zone


def _rejects(found: list[tuple[int, str, bytes]]) -> pl.DataFrame:
    rows = [(number, reason, text.decode("utf-8", "replace")) for number, reason, text in found]
    return pl.DataFrame(rows, schema=REJECTS_SCHEMA, orient="row")
