"""Profiles: what DuckDB computes of a table, one row per source and closed hour, or file.

Measures are columns named MEASURE or MEASURE.COLUMN: `row_count`, `duplicate_count`,
`filled_column_count`, `rejected_ratio`, `freshness_s`, `null_ratio.C` of required columns, `min.C` and
`max.C` of numbers and times (as epoch seconds), `out_of_range_count.U` of all values in the unit U. Of those
with a dot only what is asked for is computed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import polars as pl

from fleetmark.store import Store
from fleetmark.table import Column, Table, literal, quote

By = Literal["hour", "file"]
HOUR = timedelta(hours=1)
# How long after its end an hour is still given late rows: twice the longest usual pull interval.
SETTLE = timedelta(minutes=10)
# How far back the first judgement of a table goes, and what is usual for a source.
USUAL = timedelta(days=7)
MODEL = "model"
KEYS = ("source", "scope", "scope_kind", "start_ts")

# What a value in this unit can be. Seconds are left out: offsets and slacks are rightly negative.
RANGES: Mapping[str, tuple[float, float]] = {
    "ratio": (0, 1),
    "c": (-50, 150),
    **dict.fromkeys(
        ("w", "j", "mhz", "MHz", "bytes", "bytes/s", "count", "cycles", "tokens", "lanes"),
        (0, math.inf),
    ),
}
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UBIGINT", "FLOAT", "DOUBLE")
# The read rows' files, with their source: files, pulls and webhooks, or partitions of streams.
_ORIGIN = (
    "SELECT file_id, any_value(source) AS source, sum(line_count) AS lines, sum(reject_count) AS refused, "
    "max(read_at) AS read_at FROM ("
    "SELECT file_id, source, line_count, reject_count, ingested_at AS read_at FROM lake.ingest_file "
    "UNION ALL SELECT file_id, source, message_count, reject_count, committed_at FROM lake.stream_position"
    ") GROUP BY file_id"
)


@dataclass(frozen=True, slots=True)
class Window:
    """What to look at: hours of event time in [start, end), or files read since `start`."""

    by: By
    start: datetime
    end: datetime


def ranged(table: Table) -> dict[str, list[Column]]:
    """Its number columns by unit, for units that have a range. Ratios of models may exceed 1 (a slow
    rank's step against its peers'), so only those that sources read are held to 0 to 1.
    """
    found: dict[str, list[Column]] = {}
    for column in table.columns:
        unit = column.unit or ""
        if column.type in _NUMBERS and unit in RANGES and (unit != "ratio" or _is_read(table)):
            found.setdefault(unit, []).append(column)
    return found


def profile(
    store: Store, table: Table, window: Window, asked: Collection[str] = ()
) -> pl.DataFrame:
    """KEYS, the measures of the whole table, and those of columns and units that are `asked` for.

    Without rows where nothing lies in the window.
    """
    listed = ", ".join(
        f"{sql} AS {quote(name)}"
        for name, sql in measures(table)
        if "." not in name or name in asked
    )
    scope, kind, where = _scope(table, window)
    reads = _is_read(table)
    rows = f"lake.{quote(table.name)} AS t" + (" LEFT JOIN origin USING (file_id)" if reads else "")
    source = "coalesce(origin.source, 'unknown')" if reads else literal(MODEL)
    files = "list(DISTINCT file_id)" if reads else "NULL::VARCHAR[]"
    last = f"max(t.{quote(table.time)})" if table.time else "NULL::TIMESTAMP"
    first = f"date_trunc('hour', min(t.{quote(table.time)}))" if table.time else "NULL::TIMESTAMP"
    return store.connection.execute(
        f"WITH origin AS ({_ORIGIN}), profile AS (SELECT {source} AS source, {scope} AS scope, "
        f"{literal(kind)} AS scope_kind, {first} AS start_ts, {last} AS last_ts, {files} AS files, "
        f"{listed} FROM {rows} WHERE {where} GROUP BY 1, 2), "
        "read AS (SELECT p.source, p.scope, sum(refused) / nullif(sum(lines), 0) AS rejected_ratio, "
        "max(read_at) AS read_at FROM (SELECT source, scope, unnest(files) AS file_id FROM profile) p "
        "JOIN origin USING (file_id) GROUP BY 1, 2) "
        "SELECT profile.* EXCLUDE (last_ts, files), rejected_ratio, "
        f"epoch({_end(kind)}) - epoch(last_ts) AS freshness_s "
        "FROM profile LEFT JOIN read USING (source, scope) ORDER BY source, scope"
    ).pl()


def _is_read(table: Table) -> bool:
    """Written by sources, not computed."""
    return "file_id" in table.column_names


def _scope(table: Table, window: Window) -> tuple[str, str, str]:
    """SQL of the scope's name, its kind, and the condition on the rows."""
    start, end = (f"TIMESTAMP {literal(str(moment))}" for moment in (window.start, window.end))
    if window.by == "file" and _is_read(table):
        return "file_id", "file", f"origin.read_at >= {start} AND origin.read_at < {end}"
    if table.time is None:
        return "'all'", "table", "true"
    time = f"t.{quote(table.time)}"
    return (
        f"strftime({time}, '%Y-%m-%dT%H:00:00Z')",
        "hour",
        f"{time} >= {start} AND {time} < {end}",
    )


def _end(kind: str) -> str:
    ends = {"hour": "start_ts + INTERVAL 1 HOUR", "file": "read_at"}
    return ends.get(kind, "NULL::TIMESTAMP")


def measures(table: Table) -> Iterator[tuple[str, str]]:
    """Name and SQL aggregate of each measure.

    Duplicates are counted by a 64-bit hash of the grain: among a million rows it makes one up in
    forty million profiles.
    """
    grain = ", ".join(f"t.{quote(name)}" for name in table.grain)
    filled = " + ".join(f"(count(t.{quote(name)}) > 0)::INTEGER" for name in table.column_names)
    yield "row_count", "count(*)"
    yield "duplicate_count", f"count(*) - count(DISTINCT hash({grain}))"
    yield "filled_column_count", filled
    for name in table.required():
        yield f"null_ratio.{name}", f"1 - count(t.{quote(name)}) / count(*)"
    for column in table.columns:
        value = f"t.{quote(column.name)}"
        if column.type == "TIMESTAMP":
            value = f"epoch({value})"
        elif column.type not in _NUMBERS:
            continue
        yield f"min.{column.name}", f"min({value})::DOUBLE"
        yield f"max.{column.name}", f"max({value})::DOUBLE"
    for unit, columns in ranged(table).items():
        low, high = (f"{literal(str(limit))}::DOUBLE" for limit in RANGES[unit])
        # NaN lies above infinity, so it counts.
        outside = (
            f"count(*) FILTER (t.{quote(column.name)} NOT BETWEEN {low} AND {high})"
            for column in columns
        )
        yield f"out_of_range_count.{unit}", " + ".join(outside)
