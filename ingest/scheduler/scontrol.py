"""Slurm's state as text: `scontrol show node`, `job`, `partition`, `res`."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from ..tables.node_state import NODE_STATE
from ..tables.partition_state import PARTITION_STATE
from ..tables.queue_snapshot import QUEUE_SNAPSHOT
from ..tables.reservation import RESERVATION
from ._scontrol_fields import read
from ._slurm_group_rows import partition_rows, reservation_rows
from ._slurm_json import reject
from ._slurm_nodes_rows import node_rows
from ._slurm_observed import NAME_TIME, NO_TIME, OBSERVED_AT, TZ, observed_at, zone_problem
from ._slurm_queue_rows import queue_rows

MAKERS = {
    "node": ("node_state", node_rows),
    "job": ("queue_snapshot", queue_rows),
    "partition": ("partition_state", partition_rows),
    "res": ("reservation", reservation_rows),
}


def looks_like_scontrol(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the keys tell
    """A line begins with the first key of a record, and its second follows."""
    start = b"\n" + head[:4096]
    pairs = (
        (b"\nNodeName=", b"CPUTot="),
        (b"\nJobId=", b"JobName="),
        (b"\nPartitionName=", b"AllowGroups="),
        (b"\nReservationName=", b"StartTime="),
    )
    return any(first in start and second in start for first, second in pairs)


@source(
    outputs=(NODE_STATE, QUEUE_SNAPSHOT, PARTITION_STATE, RESERVATION),
    reads="document",
    options=(TZ, OBSERVED_AT),
    name_facts=NAME_TIME,
    sniff=looks_like_scontrol,
)
def scontrol(content: bytes, context: Context) -> Parsed:
    """Slurm `scontrol show node|job|partition|res` as text, with `-d` and `-o` too, 20.11 to 26.05.

    The output does not say when it was taken: state `observed_at`. Times need `tz`. Kinds of records
    may be mixed in a file. `-d` adds which GPUs a job holds. Not read: `show step`, `show config`.
    """
    text = content.decode("utf-8", "replace").replace("\r\n", "\n").replace("\0", "�")
    found = read(text)
    bad = [reject((at, "is no record of scontrol show", line[:1000]) for at, line in found.strays)]
    every = [at for records in found.by_kind.values() for at, _ in records]
    ts = observed_at(context)
    if problem := zone_problem(context) or (None if ts else NO_TIME):
        return Parsed({}, pl.concat([*bad, reject((at, problem, "") for at in every)]))
    assert ts is not None  # noqa: S101 - for the type checker: without it there is a problem
    tables = {}
    for kind, records in found.by_kind.items():
        name, make = MAKERS[kind]
        zone = context.options.get("tz")
        rows, refused = make(records, context.options["cluster"], ts, zone, "slurm_scontrol")
        tables[name] = rows
        bad.append(refused)
    return Parsed(tables, pl.concat(bad))
