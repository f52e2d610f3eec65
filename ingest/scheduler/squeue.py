"""Slurm's queue as text: `squeue` with a format."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from fleetmark.source import Context, Option, Parsed, source

from ..tables.queue_snapshot import QUEUE_SNAPSHOT
from ._slurm_json import reject
from ._slurm_observed import NAME_TIME, NO_TIME, OBSERVED_AT, TZ, observed_at, zone_problem
from ._slurm_queue_rows import queue_rows
from ._slurm_table import Lines, delimiter_of, read_table

# Header of squeue (-o and -O) -> field, in order of preference.
FIELDS = {
    "JOBID": "job_id",
    "JOBARRAYID": "job_id",
    "NAME": "name",
    "USER": "principal",
    "USERNAME": "principal",
    "ACCOUNT": "account",
    "PARTITION": "partition",
    "QOS": "qos",
    "RESERVATION": "reservation",
    "DEPENDENCY": "dependency",
    "STATE": "state",
    "ST": "state",
    "REASON": "reason",
    "PRIORITY": "priority",
    "RESTARTCNT": "restarts",
    "NODES": "node_count",
    "CPUS": "cpus",
    "TRES_ALLOC": "tres",
    "TRES": "tres",
    "TRES_PER_JOB": "tres_per_job",
    "TRES_PER_NODE": "tres_per_node",
    "TRES_PER_TASK": "tres_per_task",
    "TASKS": "tasks",
    "GRES": "tres_per_node",
    "NODELIST": "nodes",
    "TIME_LIMIT": "limit",
    "SUBMIT_TIME": "submit_ts",
    "ELIGIBLE_TIME": "eligible_ts",
    "START_TIME": "start_ts",
}
COLUMNS = Option(
    "columns", "headers in order, comma separated, of a file collected with -h, such as JOBID,STATE"
)
DELIMITER = Option("delimiter", "what separates the fields of a file without a header", "|")


def looks_like_squeue(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the header tells
    """A header with a job's id and state as squeue writes them, in capitals, also of what is not read."""
    line = head.split(b"\n", 1)[0].decode("utf-8", "replace")
    delimiter = delimiter_of(line)
    names = {name.strip() for name in line.split(delimiter)}
    return "JOBID" in names and not names.isdisjoint({"STATE", "ST"})


@source(
    outputs=(QUEUE_SNAPSHOT,),
    reads="document",
    options=(TZ, OBSERVED_AT, COLUMNS, DELIMITER),
    name_facts=NAME_TIME,
    sniff=looks_like_squeue,
)
def squeue(content: bytes, context: Context) -> Parsed:
    """Slurm `squeue` as text, 20.11 to 26.05: any `-o` or `-O` with a delimiter; without header by `columns`.

    It must show JOBID (%i) and STATE (%T or %t). `REASON` and `NODELIST` may be joined in
    `NODELIST(REASON)`. The time must be stated, and times need `tz`. Not read: plain `squeue`, whose
    values are cut.
    """
    text = content.decode("utf-8", "replace").replace("\0", "�")
    if not text.strip():
        return Parsed({})
    stated = context.options.get("columns")
    names = [name.strip().upper() for name in stated.split(",")] if stated else None
    read = read_table(text, names, context.options["delimiter"])
    if not isinstance(read, str) and (
        "JOBID" not in read.names or {"STATE", "ST"}.isdisjoint(read.names)
    ):
        read = "the header has no JOBID or no STATE: collect with -o '%i|%T|…', or state columns"
    if isinstance(read, str):
        return Parsed({}, reject([(1, read, text[:200])]))
    return _parsed(read, context)


def _parsed(read: Lines, context: Context) -> Parsed:
    ts = observed_at(context)
    if problem := zone_problem(context) or (None if ts else NO_TIME):
        refused = ((at, problem, "|".join(cells.values())[:1000]) for at, cells in read.rows)
        return Parsed({}, reject([*read.strays, *refused]), read.skipped)
    assert ts is not None  # noqa: S101 - for the type checker: without it there is a problem
    jobs = [(at, _fields(cells)) for at, cells in read.rows]
    rows, bad = queue_rows(
        jobs, context.options["cluster"], ts, context.options.get("tz"), "slurm_squeue"
    )
    return Parsed({"queue_snapshot": rows}, pl.concat([reject(read.strays), bad]), read.skipped)


def _fields(cells: Mapping[str, str]) -> dict[str, str | None]:
    fields: dict[str, str | None] = {}
    for name, field in FIELDS.items():
        if name in cells:
            fields.setdefault(field, cells[name])
    if both := cells.get("NODELIST(REASON)"):
        is_reason = both.startswith("(")
        fields.setdefault(
            "reason" if is_reason else "nodes", both.strip("()") if is_reason else both
        )
    if (fields.get("job_id") or "").isdecimal():
        fields["raw_job_id"] = fields["job_id"]
    return fields
