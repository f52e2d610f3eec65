"""Tables into tables: recompute the days whose inputs changed, and publish only what differs.

Each range of days is one transaction. A killed build is simply run again: what it had published
compares equal and is left alone, so nothing doubles.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from math import ceil, inf
from types import MappingProxyType

import duckdb

from fleetmark.catalog import Catalog
from fleetmark.errors import ContractError
from fleetmark.model import Model, Params
from fleetmark.pipeline.publish import publish
from fleetmark.pipeline.ranges import Range, bounded, cut_of, ranges_of
from fleetmark.pipeline.thresholds import check, resolved
from fleetmark.store import Store
from fleetmark.table import Table, quote

Compute = Callable[[duckdb.DuckDBPyConnection, Params], duckdb.DuckDBPyRelation]


@dataclass(frozen=True, slots=True)
class Built:
    """What became of one model: ranges computed, days whose rows changed, rows now in its table."""

    name: str
    ranges: int
    changed_days: int


def build(
    store: Store,
    catalog: Catalog,
    params: Mapping[str, Params],
    on_model: Callable[[str], None] = lambda name: None,
) -> list[Built]:
    """Bring every model up to date, inputs before outputs. Raises SettingsError for `params`."""
    check(catalog, params)
    results = []
    standing = Standing(store)
    for model in catalog.in_order():
        on_model(model.name)
        overrides = params.get(model.name, {})
        if standing.is_current(model, overrides):
            results.append(Built(model.name, 0, 0))
            continue
        results.append(bring_up_to_date(store, catalog, model, overrides))
        if results[-1].changed_days:
            standing.changed(model.output.name)
    store.settle(result.name for result in results if result.changed_days)
    return results


class Standing:
    """What every model has seen, and when each table last changed, in two questions for all of them.

    To ask for each model costs more than most have to do.
    """

    def __init__(self, store: Store) -> None:
        self._seen: dict[str, tuple[str, int]] = {
            model: (version, snapshot)
            for model, version, snapshot in store.connection.execute(
                "SELECT model, version, snapshot FROM lake.meta.model_state"
            ).fetchall()
        }
        self._changed: dict[str, float] = dict(
            store.connection.execute(
                "SELECT table_name, max(snapshot_id) FROM lake.meta.partition_change GROUP BY ALL"
            ).fetchall()
        )

    def is_current(self, model: Model, overrides: Params) -> bool:
        """True when it has seen the last change of all its inputs, or none of them ever had a row."""
        inputs = [name for name in model.inputs if name != model.name]
        last = max((self._changed.get(name, -1) for name in inputs), default=-1)
        version, snapshot = self._seen.get(model.name, ("", -1))
        return last < 0 or (version == version_of(model, overrides) and last <= snapshot)

    def changed(self, table: str) -> None:
        """The table has just been written to."""
        self._changed[table] = inf


def version_of(model: Model, overrides: Params) -> str:
    """Changes with the definition and with its parameters."""
    return f"{model.version}-{_hash(resolved(model, overrides))}"


@dataclass(frozen=True, slots=True)
class Due:
    """What of a model has to be computed anew: ranges whose inputs changed up to a snapshot.

    None of them where no day holds what changed, as for packaged rows without a time.
    """

    version: str
    snapshot: int
    ranges: tuple[Range | None, ...]


def due(store: Store, catalog: Catalog, model: Model, overrides: Params) -> Due | None:
    """What became due since a model last ran; None when none of its inputs changed.

    What has no ranges is noted as seen at once, so that it is not asked again.
    """
    version = version_of(model, overrides)
    snapshot = store.snapshot()
    ranges = _stale_ranges(store, catalog, model, version)
    if ranges is None:
        return None
    stale = Due(version, snapshot, tuple(ranges))
    if not stale.ranges:
        store.commit(lambda: remember(store, model.name, stale))
    return stale


def bring_up_to_date(
    store: Store,
    catalog: Catalog,
    model: Model,
    overrides: Params,
    owner: str | None = None,
    compute: Compute | None = None,
) -> Built:
    """Recompute the ranges of one model whose inputs changed since it last ran.

    `owner` restricts publication to the rows of one detector in a shared table; `compute`
    replaces the model's own function.
    """
    stale = due(store, catalog, model, overrides)
    if stale is None:
        return Built(model.name, 0, 0)
    changed = 0
    for number, part in enumerate(stale.ranges, 1):

        def work(part: Range | None = part, number: int = number) -> int:
            published = compute_range(store, catalog, model, overrides, part, owner, compute)
            if number == len(stale.ranges):
                remember(store, model.name, stale)
            return published

        changed += store.commit(work)
    return Built(model.name, len(stale.ranges), changed)


def compute_range(
    store: Store,
    catalog: Catalog,
    model: Model,
    overrides: Params,
    part: Range | None,
    owner: str | None = None,
    compute: Compute | None = None,
    snapshot: int | None = None,
) -> int:
    """Compute one range and publish it, inside a transaction; how many days changed.

    `snapshot`: read the inputs as they were then, not as they are.
    """
    span = None if part is None else (part.start, part.end)
    show_inputs(store, catalog, model, part, _at(model, snapshot))
    relation = (compute or model.compute)(store.connection, resolved(model, overrides))
    check_schema(relation, model.output, model.name)
    return publish(store, model.output, relation, span, owner)


def _at(model: Model, snapshot: int | None) -> dict[str, str]:
    """The stored inputs at a snapshot. Of its own table a model reads what its last range has written."""
    if snapshot is None:
        return {}
    return {
        name: f"lake.{quote(name)} AT (VERSION => {snapshot})"
        for name in model.inputs
        if name != model.name
    }


def _hash(values: Params) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]


def remember(store: Store, name: str, done: Due) -> None:
    """Note, inside a transaction, that a model has seen its inputs up to a snapshot."""
    store.connection.execute("DELETE FROM lake.meta.model_state WHERE model = $1", [name])
    store.connection.execute(
        "INSERT INTO lake.meta.model_state VALUES ($1, $2, $3)", [name, done.version, done.snapshot]
    )


def _stale_ranges(
    store: Store, catalog: Catalog, model: Model, version: str
) -> list[Range | None] | None:
    """Ranges to recompute; None when nothing changed since the model last ran."""
    state = store.connection.execute(
        "SELECT snapshot FROM lake.meta.model_state WHERE model = $1 AND version = $2",
        [model.name, version],
    ).fetchone()
    inputs = [name for name in model.inputs if name != model.name]
    since = state[0] if state else -1
    changes = store.connection.execute(
        "SELECT DISTINCT table_name, day FROM lake.meta.partition_change "
        "WHERE table_name IN (SELECT unnest($1)) AND snapshot_id > $2",
        [inputs, since],
    ).fetchall()
    if not changes:
        return None
    if model.window == "all":
        return [None]
    days = {day for _, day in changes if day is not None}
    if any(day is None for _, day in changes):
        timed = [name for name in inputs if catalog.tables[name].time]
        rows = store.connection.execute(
            "SELECT DISTINCT day FROM lake.meta.partition_change "
            "WHERE table_name IN (SELECT unnest($1)) AND day IS NOT NULL",
            [timed],
        ).fetchall()
        days |= {row[0] for row in rows}
    return bounded(store, catalog, model, ranges_of(_carried_on(days, model), model))


def _carried_on(days: set[date], model: Model) -> set[date]:
    """The days whose rows may change with these: each carried on by the lookback."""
    reach = ceil(model.lookback / timedelta(days=1))
    return {day + timedelta(days=n) for day in days for n in range(reach + 1)}


def show_inputs(
    store: Store,
    catalog: Catalog,
    model: Model,
    part: Range | None,
    stand_ins: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Temporary views named like the inputs, cut to what the range may see.

    `stand_ins` names the table to read in place of the stored one, for inputs that have one.
    """
    for name in model.inputs:
        table = catalog.tables[name]
        where = "true" if part is None else cut_of(table, part, model.lookback)
        columns = ", ".join(quote(c) for c in table.column_names)
        store.connection.execute(
            f"CREATE OR REPLACE TEMP VIEW {quote(name)} AS "
            f"SELECT {columns} FROM {stand_ins.get(name, f'lake.{quote(name)}')} WHERE {where}"
        )


def check_schema(relation: duckdb.DuckDBPyRelation, table: Table, where: str) -> None:
    """Raise ContractError unless a relation has exactly the columns and types of `table`."""
    got = dict(zip(relation.columns, map(str, relation.types), strict=True))
    want = {c.name: c.type for c in table.columns}
    if got != want:
        wrong = sorted(
            f"{name}: {got.get(name, 'missing')} instead of {want.get(name, 'nothing')}"
            for name in got.keys() | want.keys()
            if got.get(name) != want.get(name)
        )
        raise ContractError(f"{where} does not return what its contract says: {'; '.join(wrong)}")
