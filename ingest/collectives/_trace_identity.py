"""Whose trace a file is: what the user or the file's name says, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypedDict

from fleetmark.source import Option

INT32_MAX = 2**31 - 1
OPTIONS = (
    Option("job_id", "job of the trace", "unknown"),
    Option("attempt", "attempt of the job as in job_attempt", "1"),
    Option("rank", "global rank, where neither the trace nor its name says it"),
    Option("node", "host of the process, where the file's name does not say it"),
    Option("pid", "process on that host, where the file's name does not say it"),
)
MISSING_RANK = (
    "neither the trace nor the file's name says which rank it is: state it with --set rank=N"
)


class Owner(TypedDict):
    """The columns of a trace's rows that say whose they are."""

    cluster: str
    job_id: str
    attempt: int
    rank: int
    node: str | None
    pid: int | None


class UnknownOwnerError(ValueError):
    """Nothing says whose trace it is, or it cannot be; the text says why and what to do."""


def owner(options: Mapping[str, str], rank_in_trace: int | None) -> Owner:
    """The columns cluster to pid of a trace's rows. Raises UnknownOwnerError."""
    numbers: dict[str, int] = {}
    for name, largest in (("attempt", 2**63 - 1), ("rank", INT32_MAX), ("pid", 2**63 - 1)):
        if name in options:
            if not re.fullmatch(r"[0-9]{1,18}", options[name]) or int(options[name]) > largest:
                message = f"{name} {options[name]!r} is not a whole number; --set {name}=N"
                raise UnknownOwnerError(message)
            numbers[name] = int(options[name])
    rank = numbers.get("rank", rank_in_trace)
    if rank is None:
        raise UnknownOwnerError(MISSING_RANK)
    if rank_in_trace is not None and rank != rank_in_trace:
        raise UnknownOwnerError(
            f"the trace says rank {rank_in_trace}, its name or --set says {rank}"
        )
    if not 0 <= rank <= INT32_MAX:
        raise UnknownOwnerError(f"distributedInfo.rank {rank} is no rank")
    return {
        "cluster": options["cluster"], "job_id": options["job_id"],
        "attempt": numbers["attempt"], "rank": rank,
        "node": options.get("node"), "pid": numbers.get("pid"),
    }  # fmt: skip
