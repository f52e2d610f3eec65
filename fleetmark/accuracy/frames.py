"""Shipped models and detectors over frames, without a store: what a simulated cluster is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import polars as pl

from fleetmark.catalog import Catalog
from fleetmark.detector import FINDING
from fleetmark.pipeline.detect import finding_sql
from fleetmark.pipeline.thresholds import resolved
from fleetmark.testing import EPOCH, complete


@dataclass(frozen=True, slots=True)
class Variant:
    """What differs from the shipped rules: thresholds per model or detector, and SQL in place of a model."""

    params: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sql: Mapping[str, str] = field(default_factory=dict)


SHIPPED = Variant()


def judged(
    catalog: Catalog,
    detectors: Sequence[str],
    tables: Mapping[str, pl.DataFrame],
    variant: Variant = SHIPPED,
) -> duckdb.DuckDBPyConnection:
    """A connection in which everything the detectors rest on, and `finding`, are tables.

    `tables` replaces models of that name; source tables it lacks are empty.
    """
    rules = [catalog.detectors[name] for name in detectors]
    inputs = [name for rule in rules for name in rule.model.inputs]
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for name in needed(catalog, inputs, tables):
        if name in tables or name not in catalog.models:
            rows = complete(catalog.tables[name], tables.get(name, catalog.tables[name].empty()))
            connection.register(f"frame_{name}", rows.to_arrow())
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT * FROM frame_{name}")  # noqa: S608 - names of the catalog
        elif name in variant.sql:
            connection.sql(variant.sql[name]).create(name)
        else:
            model = catalog.models[name]
            model.compute(connection, resolved(model, variant.params.get(name, {}))).create(name)
    connection.register("no_finding", FINDING.empty().to_arrow())
    connection.execute("CREATE TABLE finding AS FROM no_finding")
    for rule in rules:
        params = resolved(rule.model, variant.params.get(rule.model.name, {}))
        found = rule.model.compute(connection, params)
        found.query("detected", finding_sql(rule, found.columns, EPOCH)).insert_into("finding")
    return connection


def needed(catalog: Catalog, names: Sequence[str], given: Mapping[str, Any]) -> list[str]:
    """The tables that `names` rest on, inputs before outputs, none below those given."""
    order: dict[str, None] = {}
    for name in names:
        if name in catalog.models and name not in given:
            order |= dict.fromkeys(needed(catalog, catalog.models[name].inputs, given))
        order[name] = None
    return list(order)
