"""Recompute published figures of a public trace in a store that lives as long as the check."""

from __future__ import annotations

import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.errors import InputError
from fleetmark.model import tables_in
from fleetmark.pipeline.build import bring_up_to_date
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store
from fleetmark.store_tables import PUBLIC_OPERATIONAL
from fleetmark.trace_check.layout import LAYOUTS, TraceFile, files_of

COLUMNS = (
    *("id", "scope", "metric", "published", "found", "unit", "tolerance", "verdict"),
    *("definition", "source", "note"),
)


@dataclass(frozen=True, slots=True)
class Published:
    """A published figure: `known` says why a sound computation on the release differs."""

    id: str
    scope: str
    metric: str
    value: float
    tolerance: float
    unit: str
    definition: str
    source: str
    known: str = ""


@cache
def published(name: str) -> tuple[Published, ...]:
    """The figures of a trace, in the order of the file."""
    text = files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    found = []
    for group in tomllib.loads(text)[name]:
        common = {key: value for key, value in group.items() if key != "values"}
        for scope, metrics in group["values"].items():
            found += [
                Published(scope=scope, metric=metric, value=value, **common)
                for metric, value in metrics.items()
            ]
    return tuple(found)


def check(name: str, path: Path, now: datetime) -> pl.DataFrame:
    """One row per published figure: found, and the verdict.

    match, differs, known_difference (the release itself differs from the paper) or no_data.
    Raises InputError for an unknown name, for a folder without files of the trace, and when a file is
    not read at all.
    """
    if name not in LAYOUTS:
        raise InputError(f"no trace named {name}: choose {', '.join(sorted(LAYOUTS))}")
    inputs = files_of(name, path)
    if not inputs:
        patterns = ", ".join(pattern for _, pattern in LAYOUTS[name])
        raise InputError(f"{path}: no file of {name} found; looked for {patterns}")
    figures = published(name)
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "store") as store:
        found = _computed(store, load_catalog(), name, inputs, now)
    return judged(figures, found)


def judged(
    figures: tuple[Published, ...], found: Mapping[tuple[str, str, str], float]
) -> pl.DataFrame:
    """Figures beside what was found, by id, scope and metric."""
    rows = [_judged(f, found.get((f.id, f.scope, f.metric))) for f in figures]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def query_of(name: str) -> str:
    """The SQL that recomputes a trace's figures: id, scope, metric, found."""
    return files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


def answers(connection: duckdb.DuckDBPyConnection, name: str) -> dict[tuple[str, str, str], float]:
    """What the query finds in the tables of `lake`."""
    rows = connection.execute(query_of(name)).fetchall()
    return {(row[0], row[1], row[2]): row[3] for row in rows if row[3] is not None}


_SCHEMA = {
    column: pl.Float64 if column in {"published", "found", "tolerance"} else pl.String
    for column in COLUMNS
}


def _judged(figure: Published, found: float | None) -> tuple[Any, ...]:
    if found is None:
        verdict = "no_data"
    elif abs(found - figure.value) <= figure.tolerance + 1e-9:
        verdict = "match"
    else:
        verdict = "known_difference" if figure.known else "differs"
    note = figure.known if verdict == "known_difference" else ""
    return (
        figure.id, figure.scope, figure.metric, figure.value, found, figure.unit, figure.tolerance,
        verdict, figure.definition, figure.source, note,
    )  # fmt: skip


def _computed(
    store: Store, catalog: Catalog, name: str, inputs: list[TraceFile], now: datetime
) -> Mapping[tuple[str, str, str], float]:
    query = tables_in(query_of(name), "the check's query", store.connection)
    needed = set(_inputs(catalog, query))
    sources = [s for s in catalog.sources.values() if s.packaged] + [
        catalog.sources[file.source] for file in inputs
    ]
    written = {table.name for source in sources for table in source.outputs}
    operational = {table.name for table in PUBLIC_OPERATIONAL}
    store.ensure(catalog.tables[n] for n in sorted(needed | written | operational))
    for file in inputs:
        for report in ingest(store, catalog, file.source, [file.path], file.options, {}, now):
            if report.row_count == 0 and report.message:
                raise InputError(f"{report.path}: {report.message}")
    for model in catalog.in_order():
        if model.name in needed:
            bring_up_to_date(store, catalog, model, {})
    return answers(store.connection, name)


def _inputs(catalog: Catalog, names: tuple[str, ...]) -> Iterator[str]:
    """Tables that a query rests on, and what they rest on; others would cost time for nothing."""
    for name in names:
        yield name
        if name in catalog.models:
            yield from _inputs(catalog, catalog.models[name].inputs)
