"""Replay a detector over the stored history, with other parameters than today's, and compare.

Nothing is written to the store: what a changed parameter of a model moves is computed into temporary
tables, and the detector reads those. The models that do not depend on it are read as they are stored,
so the store should be built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from math import ceil
from types import MappingProxyType

import duckdb

from fleetmark.catalog import Catalog
from fleetmark.detector import FINDING
from fleetmark.errors import InputError
from fleetmark.model import Model, Params
from fleetmark.pipeline.build import Compute, check_schema, show_inputs
from fleetmark.pipeline.detect import Filled, computed_findings, not_evaluable
from fleetmark.pipeline.outcome import Flagged, weigh
from fleetmark.pipeline.ranges import Range, ranges_of
from fleetmark.pipeline.thresholds import check, resolved
from fleetmark.store import Store
from fleetmark.table import Table, quote

Settings = Mapping[str, Params]
NO_SETTINGS: Settings = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Compared:
    """One line of the comparison: findings of today's rule, of the replayed one, and where they differ.

    severe_count         of high and critical severity
    gpu_h_at_stake       GPU-hours that jobs running on the flagged nodes went on to use within the
                         horizon: what draining them at that moment would have interrupted
    with_outcome_count   followed by a failed job or a fatal event on the same nodes within the horizon
    lead_median_s        median time from finding to that outcome
    """

    findings: str
    finding_count: int
    severe_count: int
    node_count: int
    gpu_h_at_stake: float
    with_outcome_count: int
    lead_median_s: float | None


def backtest(
    store: Store,
    catalog: Catalog,
    rule: str,
    today: Settings,
    changed: Settings,
    period: tuple[date | None, date | None] = (None, None),
    horizon: timedelta = timedelta(days=1),
) -> list[Flagged]:
    """Every finding of the detector `rule` in the period, by today's parameters or the changed ones.

    `today` and `changed` hold parameters by model or detector; the changed ones go on top of today's.
    The period is half-open, in UTC days; None: as far as the store reaches. Raises InputError for an
    unknown or not evaluable rule, SettingsError for parameters that do not exist or do not fit.
    """
    detector = catalog.detectors.get(rule)
    if detector is None:
        raise InputError(f"no detector {rule}; there are {', '.join(catalog.detectors)}")
    check(catalog, today)
    check(catalog, changed)
    reason = not_evaluable(catalog, detector, Filled(store))
    if reason is not None:
        raise InputError(f"{rule} cannot judge this store: {reason}")
    start, end = _period(store, catalog, detector.model, period)
    together = {
        name: {**today.get(name, {}), **changed.get(name, {})} for name in {*today, *changed}
    }
    compute = computed_findings(detector, datetime.combine(end, time()))
    replay = _Replay(store, catalog, detector.model, compute, start, end)
    replay.run("found_today", today, models=())
    replay.run("found_replayed", together, models=tuple(changed))
    return weigh(store, catalog, ("found_today", "found_replayed"), horizon)


def with_policy(catalog: Catalog, rule: str, policy: str) -> Settings:
    """The change that makes a rule, or a model it rests on, act on another policy. Raises InputError."""
    if rule not in catalog.detectors:
        raise InputError(f"no detector {rule}; there are {', '.join(catalog.detectors)}")
    model = catalog.detectors[rule].model
    named = [m.name for m in (model, *_upstream(catalog, model)) if "policy" in m.params]
    if not named:
        raise InputError(f"{rule} rests on no policy: it has no parameter of that name")
    return {name: {"policy": policy} for name in named}


def summarise(flagged: Sequence[Flagged]) -> list[Compared]:
    """The comparison, a line for each set of findings."""
    sets = {
        "today": [f for f in flagged if f.severity_today],
        "replayed": [f for f in flagged if f.severity_replayed],
        "both": [f for f in flagged if f.severity_today and f.severity_replayed],
        "only_today": [f for f in flagged if not f.severity_replayed],
        "only_replayed": [f for f in flagged if not f.severity_today],
    }
    return [_compared(name, found) for name, found in sets.items()]


def _compared(name: str, found: Sequence[Flagged]) -> Compared:
    leads = sorted(f.lead_s for f in found if f.lead_s is not None)
    middle = len(leads) // 2
    median = (leads[middle] + leads[-middle - 1]) / 2 if leads else None
    severe = {"high", "critical"}
    kind = (
        "severity_replayed" if name in ("replayed", "both", "only_replayed") else "severity_today"
    )
    return Compared(
        findings=name,
        finding_count=len(found),
        severe_count=sum(getattr(f, kind) in severe for f in found),
        node_count=len({(f.cluster[:1] and f.cluster[0], n) for f in found for n in f.node}),
        gpu_h_at_stake=sum(f.gpu_h_at_stake or 0 for f in found),
        with_outcome_count=len(leads),
        lead_median_s=median,
    )


def _upstream(catalog: Catalog, model: Model) -> list[Model]:
    """The models it rests on, inputs before outputs."""
    found: set[str] = set()
    walk = list(model.inputs)
    while walk:
        name = walk.pop()
        if name in catalog.models and name not in found:
            found.add(name)
            walk.extend(catalog.models[name].inputs)
    return [m for m in catalog.in_order() if m.name in found]


def _period(
    store: Store, catalog: Catalog, model: Model, period: tuple[date | None, date | None]
) -> tuple[date, date]:
    names = [*model.inputs, *(i for m in _upstream(catalog, model) for i in m.inputs)]
    row = store.connection.execute(
        "SELECT min(day), max(day) FROM lake.meta.partition_change "
        "WHERE table_name IN (SELECT unnest($1))",
        [names],
    ).fetchone()
    first, last = row or (None, None)
    start = period[0] or first
    end = period[1] or (last and last + timedelta(days=1))
    if start is None or end is None or start >= end:
        raise InputError(f"the period from {start} to {end} holds no day")
    return start, end


@dataclass(frozen=True, slots=True)
class _Replay:
    """One detector over one period, run with this or that set of parameters."""

    store: Store
    catalog: Catalog
    rule: Model
    compute: Compute
    start: date
    end: date

    def run(self, target: str, settings: Settings, models: Sequence[str]) -> None:
        """Findings of the period into the temporary table `target`; `models` have other parameters
        than those the store was built with.
        """
        moved: set[str] = {name for name in models if name in self.catalog.models}
        chain = _upstream(self.catalog, self.rule)
        for model in chain:
            if moved & set(model.inputs):
                moved.add(model.name)
        begins = self._begins([m for m in chain if m.name in moved])
        stand_ins: dict[str, str] = {}
        for model in chain:
            if model.name in moved:
                table = f"temp.{quote('replayed_' + model.name)}"
                values = resolved(model, settings.get(model.name, {}))
                self._fill(table, model, model.compute, values, begins[model.name], stand_ins)
                stand_ins[model.name] = table
        values = resolved(self.rule, settings.get(self.rule.name, {}))
        self._fill(f"temp.{quote(target)}", self.rule, self.compute, values, self.start, stand_ins)

    def _begins(self, moved: Sequence[Model]) -> dict[str, date]:
        """From which day each recomputed model is needed: what reads it looks back."""
        begins = {model.name: self.start for model in moved}
        for reader in (self.rule, *reversed(moved)):
            since = begins.get(reader.name, self.start)
            back = timedelta(days=ceil(reader.lookback / timedelta(days=1)))
            for name in reader.inputs:
                if name in begins:
                    begins[name] = min(begins[name], since - back)
        return begins

    def _fill(
        self,
        table: str,
        model: Model,
        compute: Compute,
        values: Params,
        start: date,
        stand_ins: Mapping[str, str],
    ) -> None:
        connection = self.store.connection
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {table.removeprefix('temp.')} ({model.output.ddl()})"
        )
        days = {start + timedelta(days=n) for n in range((self.end - start).days)}
        parts: Sequence[Range | None] = [None] if model.window == "all" else ranges_of(days, model)
        for part in parts:
            show_inputs(self.store, self.catalog, model, part, stand_ins)
            relation = compute(connection, values)
            check_schema(relation, model.output, model.name)
            _insert(relation, table, model.output, part)
        if model.output == FINDING:
            connection.execute(
                f"DELETE FROM {table} WHERE detected_at < $1 OR detected_at >= $2",
                [datetime.combine(self.start, time()), datetime.combine(self.end, time())],
            )


def _insert(
    relation: duckdb.DuckDBPyRelation, table: str, output: Table, part: Range | None
) -> None:
    names = ", ".join(quote(c) for c in output.column_names)
    inside = "true"
    if part is not None and output.time is not None:
        inside = f"{quote(output.time)} >= '{part.start}' AND {quote(output.time)} < '{part.end}'"
    relation.query("computed", f"INSERT INTO {table} SELECT {names} FROM computed WHERE {inside}")
