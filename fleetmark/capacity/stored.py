"""A capacity question answered from a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from fleetmark.capacity import RESULT_COLUMNS, Fleet, Limits, what_if
from fleetmark.capacity.recorded import attempts_between, queue_limits
from fleetmark.errors import InputError
from fleetmark.store import Store

# How much is replayed when no time is stated: a month, as the table capacity_what_if.
LAST = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Question:
    """What is replayed.

    start, end     None: the last 30 days that arrivals are known from
    today          GPUs there were; None: those of node_known
    queue_limits   stated limits, over those of the records
    """

    cluster: str
    partition: str | None
    start: datetime | None
    end: datetime | None
    today: int | None
    gpus_per_node: int
    queue_limits: Mapping[str, int]


def answer(
    store: Store, question: Question, sizes: Sequence[tuple[bool, int]], limits: Limits
) -> pl.DataFrame:
    """Rows of RESULT_COLUMNS, today's first. `sizes`: (is a change, GPUs). Raises InputError where records are missing."""
    if question.partition and not question.today:
        raise InputError("state with --today how many GPUs the partition had: no record tells")
    here = "cluster = $1 AND ($2::VARCHAR IS NULL OR partition = $2)"
    known = [question.cluster, question.partition]
    last = store.connection.execute(
        f"SELECT max(coalesce(observed_ts, ready_ts)), count(*) FROM lake.capacity_arrival WHERE {here}",  # noqa: S608 - no user text in it
        known,
    ).fetchone()
    if last is None or not last[1]:
        raise InputError(
            f"no attempts of cluster {question.cluster} that wanted GPUs: ingest scheduler records, and run `fleetmark build`"
        )
    end = question.end or last[0]
    start = question.start or end - LAST
    arrivals = store.connection.execute(
        f"SELECT * FROM lake.capacity_arrival WHERE {here} AND ready_ts < $4 "  # noqa: S608 - no user text in it
        "AND (coalesce(end_ts, 'infinity'::TIMESTAMP) >= $3 OR ready_ts >= $3)",
        [*known, start, end],
    ).pl()
    quota, assoc, nodes = (
        store.connection.execute(f"FROM lake.{name} WHERE cluster = $1", [question.cluster]).pl()
        for name in ("quota", "assoc", "node_known")
    )
    today = question.today or int(nodes["gpu_count"].sum())
    named = {**queue_limits(assoc, quota), **question.queue_limits}
    attempts, given_up = attempts_between(arrivals, quota, start, end)
    changes = [number if is_change else number - today for is_change, number in sizes]
    fleet = Fleet(today, question.gpus_per_node, named)
    found = what_if(attempts, given_up, fleet, changes, limits)
    return found.select(column.name for column in RESULT_COLUMNS)
