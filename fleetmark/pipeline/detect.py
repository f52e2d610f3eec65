"""Detectors over tables into `finding`, and whether each could judge at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import duckdb

from fleetmark.catalog import Catalog
from fleetmark.detector import (
    DETECTED_OPTIONAL,
    DETECTED_REQUIRED,
    ENTITIES,
    FINDING,
    Detector,
)
from fleetmark.errors import ContractError, InputError
from fleetmark.model import Params
from fleetmark.pipeline.build import Built, Compute, Standing, bring_up_to_date
from fleetmark.pipeline.thresholds import check
from fleetmark.store import Store
from fleetmark.table import literal, quote


def detect(
    store: Store,
    catalog: Catalog,
    params: Mapping[str, Params],
    now: datetime,
    only: Sequence[str] = (),
    on_detector: Callable[[str], None] = lambda name: None,
) -> list[Built]:
    """Run detectors (all, or `only` these ids) and record how each stands."""
    if unknown := set(only) - set(catalog.detectors):
        raise InputError(
            f"no detector {', '.join(sorted(unknown))}; there are {', '.join(catalog.detectors)}"
        )
    check(catalog, params)
    results = []
    standing: list[tuple[Detector, str | None]] = []
    seen = Standing(store)
    filled = Filled(store)
    for name, detector in catalog.detectors.items():
        if only and name not in only:
            continue
        on_detector(name)
        reason = not_evaluable(catalog, detector, filled)
        if reason is None and not seen.is_current(detector.model, params.get(name, {})):
            results.append(_run(store, catalog, detector, params.get(name, {}), now))
            if results[-1].changed_days:
                seen.changed("finding")
        standing.append((detector, reason))
    store.commit(lambda: _record(store, standing, now))
    store.settle(["finding", "detector_status"])
    return results


class Filled:
    """Which tables hold rows; each question is put to the store once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._with_files = store.with_files()
        self._known: dict[tuple[str, str], bool] = {}

    def has_row(self, table: str, condition: str = "true") -> bool:
        """Is there a row that fulfils this SQL condition?"""
        if table not in self._with_files:
            return False
        key = (table, condition)
        if key not in self._known:
            query = f"SELECT 1 FROM lake.{quote(table)} WHERE {condition} LIMIT 1"
            self._known[key] = self._store.connection.execute(query).fetchone() is not None
        return self._known[key]


def source_tables(catalog: Catalog, inputs: Sequence[str]) -> set[str]:
    """The tables that sources write, on which these inputs rest in the end."""
    found: set[str] = set()
    walk, seen = list(inputs), set[str]()
    while walk:
        name = walk.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in catalog.models:
            walk.extend(catalog.models[name].inputs)
        else:
            found.add(name)
    return found


def not_evaluable(catalog: Catalog, detector: Detector, filled: Filled) -> str | None:
    """Why a detector cannot judge: an input without rows, or none that says what it asks for.

    None when it can.
    """
    resting = source_tables(catalog, detector.model.inputs)
    empty = {name for name in resting if not filled.has_row(name)}
    needed = resting - {*detector.optional, *detector.one_of}
    if empty & needed:
        return f"no rows in {', '.join(sorted(empty & needed))}"
    if detector.one_of and empty.issuperset(detector.one_of):
        return f"no rows in any of {', '.join(detector.one_of)}"
    for table, condition in detector.needs.items():
        if not filled.has_row(table, condition):
            return f"no row of {table} in which {condition}"
    return None


def _run(
    store: Store, catalog: Catalog, detector: Detector, overrides: Params, now: datetime
) -> Built:
    compute = computed_findings(detector, now)
    return bring_up_to_date(
        store, catalog, detector.model, overrides, owner=detector.name, compute=compute
    )


def computed_findings(detector: Detector, now: datetime) -> Compute:
    """The detector's function with `finding` as its output."""

    def compute(connection: duckdb.DuckDBPyConnection, values: Params) -> duckdb.DuckDBPyRelation:
        relation = detector.model.compute(connection, values)
        check_detected(relation, detector.name)
        return relation.query("detected", finding_sql(detector, relation.columns, now))

    return compute


def check_detected(relation: duckdb.DuckDBPyRelation, name: str) -> None:
    """Raise ContractError when a detector's query returns other columns than it may."""
    columns = set(relation.columns)
    missing = set(DETECTED_REQUIRED) - columns
    unknown = columns - {*DETECTED_REQUIRED, *DETECTED_OPTIONAL}
    if missing or unknown:
        raise ContractError(
            f"detector {name}: lacks {sorted(missing)}, has unknown {sorted(unknown)}"
        )


def finding_sql(detector: Detector, returned: Sequence[str], now: datetime) -> str:
    """The SELECT that makes rows of `finding` from the view `detected`."""
    card = detector.card
    fixed = {
        "finding_id": f"{literal(detector.name + '-')} || left(sha256(subject), 20)",
        "detector": literal(detector.name),
        "domain": literal(card.domain),
        "evaluated_at": f"{literal(str(now))}::TIMESTAMP",
        "detector_version": literal(detector.model.version),
    }
    absent = {"kind": literal(card.kind), "severity": literal(card.severity)}
    absent |= {name: f"[]::{kind}" for name, (kind, _) in ENTITIES.items()}
    parts = []
    for column in FINDING.columns:
        value = fixed.get(column.name)
        if value is None and column.name in returned:
            value = quote(column.name)
            if column.name in absent:
                value = f"coalesce({value}, {absent[column.name]})"
        parts.append(
            f"({value or absent.get(column.name, 'NULL')})::{column.type} AS {quote(column.name)}"
        )
    return f"SELECT {', '.join(parts)} FROM detected"


def _record(store: Store, standing: Sequence[tuple[Detector, str | None]], now: datetime) -> None:
    """How each detector stands, in one transaction; what is as it was is left alone."""
    counts = dict(
        store.connection.execute(
            "SELECT detector, count(*) FROM lake.finding GROUP BY detector"
        ).fetchall()
    )
    stands = set(
        store.connection.execute(
            "SELECT detector, status, reason, finding_count FROM lake.detector_status"
        ).fetchall()
    )
    for detector, reason in standing:
        status = "evaluated" if reason is None else "not_evaluable"
        values = (detector.name, status, reason, counts.get(detector.name, 0))
        if values not in stands:
            store.connection.execute(
                "DELETE FROM lake.detector_status WHERE detector = $1", [detector.name]
            )
            store.connection.execute(
                "INSERT INTO lake.detector_status (detector, status, reason, finding_count, evaluated_at) "
                "VALUES ($1, $2, $3, $4, $5)",
                [*values, now],
            )
