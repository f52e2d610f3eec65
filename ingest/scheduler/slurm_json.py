"""Slurm's state as JSON: `squeue`, `sinfo` and `scontrol show … --json`, and slurmrestd's `/slurm/…`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import polars as pl

from fleetmark.source import Context, Parsed, source

from .._json_values import part, text
from ..tables.node_state import NODE_STATE
from ..tables.partition_state import PARTITION_STATE
from ..tables.queue_snapshot import QUEUE_SNAPSHOT
from ..tables.reservation import RESERVATION
from ._slurm_group_rows import partition_rows, reservation_rows
from ._slurm_json import load, not_objects, number, records, reject
from ._slurm_json_fields import Fields, job, node, partition, reservation
from ._slurm_nodes_rows import node_rows
from ._slurm_observed import NAME_TIME, NO_TIME, OBSERVED_AT, observed_at
from ._slurm_queue_rows import queue_rows
from ._slurm_time import times

Rows = Callable[..., tuple[pl.DataFrame, pl.DataFrame]]
# Key of the document -> key that an entry must have, its fields, the table and how to make its rows.
LISTS: Mapping[str, tuple[str, Callable[[Mapping[str, Any]], Fields], str, Rows]] = {
    "nodes": ("name", node, "node_state", node_rows),
    "jobs": ("job_id", job, "queue_snapshot", queue_rows),
    "partitions": ("name", partition, "partition_state", partition_rows),
    "reservations": ("name", reservation, "reservation", reservation_rows),
}
NO_LIST = (
    "has none of the lists nodes, jobs, partitions, reservations: `sinfo --json` from 23.02 on sums "
    "nodes up, collect `scontrol show nodes --json` instead"
)


def looks_like_slurm_json(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the keys tell
    """An object with one of the lists and a key that only Slurm's entries have; sums of sinfo, too."""
    keys = (
        b'"reason_set_by_user"',
        b'"job_state"',
        b'"gres_drained"',
        b'"maximums"',
        b'"core_count"',
        b'"sinfo"',
    )
    return head.lstrip()[:1] == b"{" and b'"meta"' in head and any(key in head for key in keys)


@source(
    outputs=(NODE_STATE, QUEUE_SNAPSHOT, PARTITION_STATE, RESERVATION),
    reads="document",
    options=(OBSERVED_AT,),
    name_facts=NAME_TIME,
    sniff=looks_like_slurm_json,
)
def slurm_json(content: bytes, context: Context) -> Parsed:
    """Slurm `squeue|scontrol … --json`, `sinfo --json` to 23.02, slurmrestd `/slurm/…`; 21.08 to 26.05.

    Read by structure. The time is the document's `last_update` (from 23.02), else must be stated. Not
    read: `sinfo --json` from 23.02 on, which sums nodes up: `scontrol show nodes --json` has them.
    """
    document = load(content)
    if isinstance(document, str):
        return Parsed({}, _about_file(document, content)) if content.strip() else Parsed({})
    keys = [key for key in LISTS if isinstance(document.get(key), list)]
    if not keys:
        return Parsed({}, _about_file(NO_LIST, content))
    ts = observed_at(context) or _last_update(document)
    if ts is None:
        return Parsed({}, _about_file(NO_TIME, content))
    cluster = context.options["cluster"]
    if cluster == "default":
        cluster = text(part(document, "meta", "slurm", "cluster")) or cluster
    tables: dict[str, pl.DataFrame] = {}
    bad = []
    for key in keys:
        needed, fields_of, table, make = LISTS[key]
        every = records(document, key)
        found = [(at, fields_of(entry)) for at, entry in every if needed in entry]
        lacking = [
            (at, f"entry of {key} has no {needed}", "") for at, e in every if needed not in e
        ]
        rows, refused = make(found, cluster, ts, "UTC", "slurm_json")
        tables[table] = rows
        bad += [not_objects(document, key), reject(lacking), refused]
    return Parsed(tables, pl.concat(bad))


def _last_update(document: Mapping[str, Any]) -> datetime | None:
    seconds = number(document.get("last_update"))
    stated = pl.Series([None if seconds is None else str(int(seconds))], dtype=pl.String)
    ts: datetime | None = times(stated, "UTC")["ts"].to_list()[0]
    return ts


def _about_file(reason: str, content: bytes) -> pl.DataFrame:
    return reject([(1, reason, content[:200].decode("utf-8", "replace").replace("\0", "�"))])
