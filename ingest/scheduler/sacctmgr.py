"""Slurm's accounting database: `sacctmgr show event`, `qos`, `assoc`."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from ..tables.assoc import ASSOC
from ..tables.node_event import NODE_EVENT
from ..tables.qos import QOS
from ._sacctmgr_rows import assoc_rows, event_rows, qos_rows
from ._slurm_json import reject
from ._slurm_observed import NAME_TIME, NO_TIME, OBSERVED_AT, TZ, observed_at, zone_problem
from ._slurm_table import Lines, delimiter_of, read_table

# The columns that tell one output from another.
EVENT = {"NODENAME", "STATE"}
QUALITY = {"NAME", "GRACETIME"}
ASSOCIATION = {"ACCOUNT", "USER"}
NOT_KNOWN = "the header is that of no `sacctmgr show event`, `qos` or `assoc`: collect with -P and without -n"


def looks_like_sacctmgr(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the header tells
    """A header with the columns of one of the three outputs, and none of sacct's."""
    line = head.split(b"\n", 1)[0].decode("utf-8", "replace").strip().upper()
    delimiter = delimiter_of(line)
    names = {name.strip() for name in line.split(delimiter)} if delimiter else set()
    is_event = names >= EVENT and not names.isdisjoint({"TIMESTART", "START"})
    is_assoc = names >= ASSOCIATION and not names.isdisjoint({"SHARE", "FAIRSHARE", "GRPTRES"})
    return is_event or names >= QUALITY or (is_assoc and "JOBID" not in names)


@source(
    outputs=(NODE_EVENT, QOS, ASSOC),
    reads="document",
    options=(TZ, OBSERVED_AT),
    name_facts=NAME_TIME,
    sniff=looks_like_sacctmgr,
)
def sacctmgr(content: bytes, context: Context) -> Parsed:
    """Slurm `sacctmgr -P show event|qos|assoc` with header, any columns, 20.11 to 26.05.

    Events carry their own times, which need `tz`; an open one lasts at least to `observed_at`, else to
    the latest time in the output. Events of the cluster itself (no node) are skipped. Limits need
    `observed_at`: they change and the output does not say when it was taken.
    """
    text = content.decode("utf-8", "replace").replace("\0", "�")
    if not text.strip():
        return Parsed({})
    read = read_table(text)
    if isinstance(read, str):
        return Parsed({}, reject([(1, read, text[:200])]))
    bad = reject(read.strays)
    rows = _rows(read, context)
    if isinstance(rows, str):
        refused = reject((at, rows, "|".join(cells.values())[:1000]) for at, cells in read.rows)
        at_header = reject([(1, rows, text[:200])] if not read.rows else [])
        return Parsed({}, pl.concat([at_header, bad, refused]), read.skipped)
    name, frame, refused, skipped = rows
    return Parsed({name: frame}, pl.concat([bad, refused]), read.skipped + skipped)


def _rows(read: Lines, context: Context) -> tuple[str, pl.DataFrame, pl.DataFrame, int] | str:
    """Table, rows, rejects and lines passed over; or why there are none."""
    names, cluster, ts = set(read.names), context.options["cluster"], observed_at(context)
    if problem := zone_problem(context):
        return problem
    if names >= EVENT:
        nodes = [(at, cells) for at, cells in read.rows if cells["NODENAME"]]
        rows, refused = event_rows(nodes, cluster, ts, context.options.get("tz"))
        return "node_event", rows, refused, len(read.rows) - len(nodes)
    if not (names >= QUALITY or names >= ASSOCIATION):
        return NOT_KNOWN
    if ts is None:
        return NO_TIME
    if names >= QUALITY:
        return "qos", *qos_rows(read.rows, cluster, ts), 0
    return "assoc", *assoc_rows(read.rows, cluster, ts), 0
