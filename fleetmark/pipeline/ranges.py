"""Which days of a model are computed in one transaction, and what of its inputs they may see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta

from fleetmark.catalog import Catalog
from fleetmark.model import Model
from fleetmark.store import Store
from fleetmark.table import Table, quote

# Days computed in one transaction. More saves commits, fewer saves memory and redone work.
RANGE_DAYS = 31
# And rows of the inputs, where they are so large on disk that they may hold that many: joins of a million requests
# take 1.4 GiB. A day is never cut.
RANGE_ROWS = 500_000
RANGE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """A half-open range of UTC days; None stands for all time."""

    start: date
    end: date


def ranges_of(days: set[date], model: Model) -> list[Range]:
    """Group days into ranges of whole windows."""
    if model.window == "month":
        firsts = {day.replace(day=1) for day in days}
        return [Range(first, _next_month(first)) for first in sorted(firsts)]
    ranges: list[Range] = []
    for day in sorted(days):
        last = ranges[-1] if ranges else None
        if last and last.end == day and (day - last.start).days < RANGE_DAYS:
            ranges[-1] = Range(last.start, day + timedelta(days=1))
        else:
            ranges.append(Range(day, day + timedelta(days=1)))
    return ranges


def _next_month(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)


def bounded(
    store: Store, catalog: Catalog, model: Model, ranges: list[Range]
) -> list[Range | None]:
    """The ranges, cut between days where the inputs hold too many rows for one transaction."""
    if model.window != "day" or all(r.end - r.start == timedelta(days=1) for r in ranges):
        return [*ranges]
    found = store.connection.execute(
        "SELECT table_name FROM ducklake_table_info('lake') "
        "WHERE file_size_bytes > $1 AND table_name IN (SELECT unnest($2))",
        [RANGE_BYTES, [name for name in model.inputs if catalog.tables[name].time]],
    ).fetchall()
    large = [catalog.tables[name] for (name,) in found]
    if not large:
        return [*ranges]
    whole = Range(ranges[0].start, ranges[-1].end)
    counts = " UNION ALL ".join(
        f"SELECT {quote(t.time or '')}::DATE AS day FROM lake.{quote(t.name)} WHERE {cut_of(t, whole, timedelta(0))}"
        for t in large
    )
    rows = dict(
        store.connection.execute(f"SELECT day, count(*) FROM ({counts}) GROUP BY day").fetchall()
    )
    return [part for one in ranges for part in cut_by_rows(one, rows)]


def cut_by_rows(one: Range, rows: Mapping[date, int]) -> list[Range]:
    """A range in parts of at most RANGE_ROWS rows, or of one day."""
    parts: list[Range] = []
    room = 0
    for number in range((one.end - one.start).days):
        day = one.start + timedelta(days=number)
        if parts and rows.get(day, 0) <= room:
            parts[-1] = Range(parts[-1].start, day + timedelta(days=1))
        else:
            parts.append(Range(day, day + timedelta(days=1)))
            room = RANGE_ROWS
        room -= rows.get(day, 0)
    return parts


def cut_of(table: Table, part: Range, lookback: timedelta) -> str:
    """The SQL condition that shows a range what it may see of a table; intervals that reach into it too."""
    if table.time is None:
        return "true"
    start = f"('{part.start}'::TIMESTAMP - INTERVAL {int(lookback.total_seconds())} SECOND)"
    end = f"'{part.end}'::TIMESTAMP"
    if table.end is None:
        return f"{quote(table.time)} >= {start} AND {quote(table.time)} < {end}"
    until = f"coalesce({quote(table.end)}, 'infinity'::TIMESTAMP)"
    return f"{quote(table.time)} < {end} AND ({until} > {start} OR {quote(table.time)} >= {start})"
