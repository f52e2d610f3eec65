"""Slurm's nodes as text: `sinfo` with a format, and `sinfo -N -l`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import polars as pl

from fleetmark.source import Context, Parsed, source

from ..tables.node_state import NODE_STATE
from ._slurm_json import reject
from ._slurm_nodes import expand_nodes
from ._slurm_nodes_rows import node_rows
from ._slurm_observed import NAME_TIME, NO_TIME, OBSERVED_AT, TZ, observed_at, zone_problem
from ._slurm_table import Lines, delimiter_of, read_table

# Header of sinfo -> field. CPUS(A/I/O/T) is split.
FIELDS = {
    "NODELIST": "node",
    "HOSTNAMES": "node",
    "STATE": "state",
    "GRES": "gres",
    "GRES_USED": "gres_used",
    "REASON": "reason",
    "TIMESTAMP": "reason_ts",
    "USER": "reason_user",
    "CPUS": "cpus",
    "CPU_LOAD": "load",
    "MEMORY": "mem_mib",
    "ALLOCMEM": "mem_used_mib",
    "FREE_MEM": "free_mib",
    "ACTIVE_FEATURES": "features",
    "PARTITION": "partitions",
    "RESERVATION": "reservation",
    "VERSION": "version",
}
# The table of -N -l: columns of words, and REASON, which may have blanks, as the last one.
LONG = re.compile(r"NODELIST +NODES +PARTITION +STATE .*REASON *$")


def looks_like_sinfo(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the header tells
    """A header with node and state, and none of a job's columns, also of what is not read."""
    for line in head.decode("utf-8", "replace").split("\n")[:3]:
        delimiter = delimiter_of(line)
        names = {name.strip() for name in line.split(delimiter)}
        if LONG.match(line) or (names >= {"NODELIST", "STATE"} and "JOBID" not in names):
            return True
    return False


@source(
    outputs=(NODE_STATE,),
    reads="document",
    options=(TZ, OBSERVED_AT),
    name_facts=NAME_TIME,
    sniff=looks_like_sinfo,
)
def sinfo(content: bytes, context: Context) -> Parsed:
    """Slurm `sinfo` as text, 20.11 to 26.05: any `-o` or `-O` with header and a delimiter, or `-N -l`.

    A node in several partitions is one row; node lists are expanded. It must show NODELIST (%N) and
    STATE (%T or %t). The time must be stated. Not read: plain `sinfo`, whose values are cut.
    """
    text = content.decode("utf-8", "replace").replace("\0", "�")
    if not text.strip():
        return Parsed({})
    found = _long_table(text)
    read = found if found is not None else read_table(text)
    if not isinstance(read, str) and not {"NODELIST", "STATE"} <= set(read.names):
        read = "the header has no NODELIST or no STATE: collect with -N -o '%N|%T|%G|%E|%H|%u|%P'"
    if isinstance(read, str):
        return Parsed({}, reject([(1, read, text[:200])]))
    ts = observed_at(context)
    if problem := zone_problem(context) or (None if ts else NO_TIME):
        refused = ((at, problem, "|".join(cells.values())[:1000]) for at, cells in read.rows)
        return Parsed({}, reject([*read.strays, *refused]), read.skipped)
    assert ts is not None  # noqa: S101 - for the type checker: without it there is a problem
    bad = list(read.strays)
    nodes = []
    for at, cells in read.rows:
        names = expand_nodes(cells["NODELIST"])
        if names is None:
            bad.append((at, f"node list '{cells['NODELIST']}' cannot be read", ""))
            continue
        fields = dict(_fields(cells))
        nodes += [(at, {**fields, "node": name}) for name in names]
    rows, refused_rows = node_rows(
        nodes, context.options["cluster"], ts, context.options.get("tz"), "slurm_sinfo"
    )
    return Parsed({"node_state": rows}, pl.concat([reject(bad), refused_rows]), read.skipped)


def _fields(cells: Mapping[str, str]) -> Iterator[tuple[str, str | None]]:
    for name, field in FIELDS.items():
        if name in cells and field != "node":
            yield field, cells[name]
    if "PARTITION" in cells:
        # The default partition carries a star.
        yield "partitions", cells["PARTITION"].rstrip("*")
    shares = cells.get("CPUS(A/I/O/T)", "").split("/")
    if len(shares) == 4:
        yield "cpus_used", shares[0]
        yield "cpus", shares[3]


def _long_table(text: str) -> Lines | None:
    """The table of `-N -l`, or None if there is no such header. A line with the date comes first."""
    lines = text.split("\n")
    at = next((at for at, line in enumerate(lines) if LONG.match(line)), None)
    if at is None:
        return None
    names = lines[at].split()
    read = Lines(tuple(names), skipped=1 + sum(bool(line.strip()) for line in lines[:at]))
    for number, line in enumerate(lines[at + 1 :], at + 2):
        cells = line.split(None, len(names) - 1)
        if len(cells) == len(names):
            read.rows.append((number, dict(zip(names, (c.strip() for c in cells), strict=True))))
        elif cells:
            read.strays.append(
                (number, f"{len(cells)} fields instead of {len(names)}", line[:1000])
            )
    return read
