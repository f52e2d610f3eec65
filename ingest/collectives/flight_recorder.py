"""PyTorch Flight Recorder dumps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source
from fleetmark.table import Table

from ..tables.collective import COLLECTIVE, COLLECTIVE_GROUP
from .flight_recorder_entry import (
    INT32_MAX,
    BadEntryError,
    Group,
    entry_row,
    group_of,
    integer,
    plain_text,
    shown,
    text,
)
from .pickle_data import MAX_BYTES, MAX_NODES, UnsafePickleError, check_shape, load_plain_data

KNOWN_MAJOR_VERSIONS = (1, 2)
LARGEST = {"rank": 2**31 - 1, "attempt": 2**63 - 1}


class BadDumpError(ValueError):
    """The file as a whole cannot be read; the text says why and what to do."""


def looks_like_flight_recorder(head: bytes, file_name: str) -> bool:
    """A dump names its process groups, or its first entry, early on; pickle or JSON alike."""
    del file_name
    marks = (b"pg_config", b"time_created_ns")
    return head[:1] in (b"\x80", b"{", b"(", b"}") and any(mark in head for mark in marks)


@source(
    outputs=(COLLECTIVE, COLLECTIVE_GROUP),
    reads="document",
    options=(
        Option("rank", "global rank that wrote the dump, if its name does not end in it"),
        Option(
            "job_id",
            "job the dump belongs to; state it where dumps of several jobs are kept, or those of "
            "one job take the place of another's in collective_group",
            "unknown",
        ),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
    ),
    name_facts=r"(?:^|\D)(?P<rank>\d{1,9})(?:\.(?:json|pickle|pkl))?(?:\.gz)?$",
    sniff=looks_like_flight_recorder,
)
def flight_recorder(content: bytes, context: Context) -> Parsed:
    """PyTorch Flight Recorder dump, one file per global rank: pickle or JSON, versions 1.x and 2.x.

    Each entry is a row of `collective`; each process group is a row of `collective_group`, also
    when the ring holds no entry. `line_no` is the number of the entry, or of the group, from 1;
    what is wrong with the whole file is a reject at 0.

    The global rank is the number at the end of the file's name (`_dump_12`, `nccl_trace_rank_3`)
    or is stated; it is never guessed. Not known: null in pickles, 0 in JSON, -1 for what a group
    never did; all become NULL. Pickles are decoded without running them (`pickle_data`).

    Not read: stack frames, thread names and `nccl_comm_state`. Python per entry, because entries
    are nested objects: about 7,000 entries a second from a pickle, 20,000 from JSON.
    """
    try:
        who = _identity(context)
        dump = _decode(content)
        common = who | _versions(dump)
        groups = _groups(dump, who["rank"])
        status = _status(dump)
    except (BadDumpError, BadEntryError) as error:
        return Parsed({}, _rejects([(0, str(error), "")]))
    entries = dump.get("entries") or []
    rows, bad = [], []
    for number, entry in enumerate(entries, start=1):
        try:
            row = entry_row(entry, groups, status)
            rows.append(common | row | {"line_no": number})
        except BadEntryError as error:
            bad.append((number, str(error), _excerpt(entry)))
    states, unnamed = _group_rows(entries, groups, status)
    return Parsed(
        {
            COLLECTIVE.name: _frame(COLLECTIVE, rows),
            COLLECTIVE_GROUP.name: _frame(COLLECTIVE_GROUP, [common | row for row in states]),
        },
        _rejects(unnamed + bad),
    )


def _frame(table: Table, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {**table.polars_schema(), "line_no": pl.Int64()}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _rejects(rows: list[tuple[int, str, str]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=REJECTS_SCHEMA, orient="row")


def _excerpt(entry: object) -> str:
    """The plain fields of a refused entry; nested ones could be of any size."""
    if not isinstance(entry, dict):
        return shown(entry)
    return json.dumps({shown(key): shown(value) for key, value in list(entry.items())[:30]})


def _identity(context: Context) -> dict[str, Any]:
    options = context.options
    if "rank" not in options:
        raise BadDumpError(
            f"the name {context.file_name!r} does not end in the global rank; "
            "state it with --set rank=N"
        )
    numbers = {}
    for name, largest in LARGEST.items():
        if not re.fullmatch(r"[0-9]{1,18}", options[name]) or int(options[name]) > largest:
            raise BadDumpError(f"{name} {options[name]!r} is not a whole number; --set {name}=N")
        numbers[name] = int(options[name])
    return {"cluster": options["cluster"], "job_id": options["job_id"], **numbers}


def _decode(content: bytes) -> dict[str, Any]:
    """The dump as plain data. JSON starts with a brace, which no pickle does."""
    try:
        if content.lstrip()[:1] in (b"{", b"["):
            if len(content) > MAX_BYTES or content.count(b",") > MAX_NODES:
                raise BadDumpError(f"JSON of {len(content)} bytes is larger than a dump can be")
            dump = json.loads(content)
            check_shape(dump)
        else:
            dump = load_plain_data(content)
    except UnsafePickleError as error:
        raise BadDumpError(f"not read: the file {error}") from None
    except RecursionError:
        raise BadDumpError("not a Flight Recorder dump: JSON nested too deeply") from None
    except ValueError as error:
        if isinstance(error, BadDumpError):
            raise
        raise BadDumpError(f"not a Flight Recorder dump: {error}") from None
    if not isinstance(dump, dict) or "version" not in dump:
        raise BadDumpError("not a Flight Recorder dump: it states no version")
    for field, kind in (("entries", list), ("pg_config", dict), ("pg_status", dict)):
        if not isinstance(dump.get(field) or kind(), kind):
            raise BadDumpError(f"not a Flight Recorder dump: {field} is no {kind.__name__}")
    return dump


def _versions(dump: Mapping[str, Any]) -> dict[str, Any]:
    """Format versions are pairs of numbers, not decimals: 2.10 comes after 2.9."""
    version = shown(dump["version"])
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})*", version):
        raise BadDumpError(f"version {version!r} of the format is not of the form 2.9")
    if int(version.split(".")[0]) not in KNOWN_MAJOR_VERSIONS:
        raise BadDumpError(f"version {version} of the format is not known; 1.x and 2.x are")
    # Named nccl_version until 2.9, comm_lib_version since 2.10.
    library = "comm_lib_version" if dump.get("comm_lib_version") else "nccl_version"
    return {"format_version": version, "comm_lib_version": text(dump, library) or None}


def _groups(dump: Mapping[str, Any], rank: int) -> dict[str, Group]:
    """Groups by name. A rank that is in none of them shows that the file is another rank's."""
    groups = {}
    for key, config in (dump.get("pg_config") or {}).items():
        name = plain_text(key, "pg_config name")
        if not isinstance(config, dict):
            raise BadDumpError(f"pg_config of group {name!r} is no dictionary")
        ranks = _ranks(config.get("ranks"))
        comm_rank = ranks.index(rank) if rank in ranks else None
        groups[name] = Group(name, text(config, "desc"), ranks, comm_rank)
    members = {member for group in groups.values() for member in group.ranks}
    if members and rank not in members:
        raise BadDumpError(
            f"rank {rank} is in none of the dump's process groups; state the right one with "
            "--set rank=N"
        )
    return groups


def _ranks(value: object) -> tuple[int, ...]:
    """Members in group order; the recorder writes them as text: `[0, 1]`."""
    if isinstance(value, str) and re.fullmatch(r"[\[\]0-9, ]*", value):
        value = [int(digits) for digits in re.findall(r"[0-9]{1,10}", value)]
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(
        type(n) is int and 0 <= n <= INT32_MAX for n in value
    ):
        raise BadDumpError(f"pg_config ranks {shown(value)!r} are not a list of ranks")
    return tuple(value)


def _status(dump: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The last sequence numbers by pg_id. -1 (none yet, or no timing) becomes None."""
    status = {}
    for key, last in (dump.get("pg_status") or {}).items():
        if not (re.fullmatch(r"[0-9]{1,18}", key) and isinstance(last, dict)):
            raise BadDumpError(f"pg_status of group {shown(key)!r} is not readable")
        status[int(key)] = {
            f"last_{what}_seq": integer(last, f"last_{what}_collective")
            for what in ("enqueued", "started", "completed")
        }
    return status


def _group_rows(
    entries: list[Any],
    groups: Mapping[str, Group],
    status: Mapping[int, dict[str, Any]],
) -> tuple[list[dict[str, Any]], list[tuple[int, str, str]]]:
    """Rows of `collective_group`, and rejects for states whose group cannot be named."""
    named = _names_by_id(entries, groups, status)
    rows = [
        {
            **groups.get(name, Group(name, None)).columns(),
            "pg_id": pg_id,
            "pg_ranks": list(groups[name].ranks) if name in groups else None,
            **status.get(pg_id, {}),
        }
        for pg_id, name in sorted(named.items())
    ]
    seen = set(named.values())
    rows += [
        {**group.columns(), "pg_ranks": list(group.ranks)}
        for name, group in groups.items()
        if name not in seen
    ]
    unnamed = [
        (
            0,
            f"pg_status of group {pg_id}: neither an entry nor pg_config names it",
            json.dumps(last),
        )
        for pg_id, last in status.items()
        if pg_id not in named
    ]
    return [row | {"line_no": number} for number, row in enumerate(rows, start=1)], unnamed


def _names_by_id(
    entries: list[Any], groups: Mapping[str, Group], status: Mapping[int, dict[str, Any]]
) -> dict[int, str]:
    """Group names by pg_id. Entries say both. For groups without an entry: ids and names are both
    given in order of creation, so equally many of each, sorted as numbers, belong together; taken
    only where no entry contradicts it (the public dumps agree in all 431 entries).
    """
    told: dict[int, str] = {}
    for entry in entries:
        try:
            number = integer(entry, "pg_id") if isinstance(entry, dict) else None
            if number is not None:
                told.setdefault(number, group_of(entry, groups).name)
        except BadEntryError:
            continue  # a reject already, by its own number
    if len(status) != len(groups) or not all(re.fullmatch(r"[0-9]{1,18}", n) for n in groups):
        return told
    aligned = dict(zip(sorted(status), sorted(groups, key=int), strict=True))
    agrees = all(aligned.get(number) == name for number, name in told.items())
    return aligned if agrees else told
