"""A store that lives as long as one measurement: ingest, build, detect, ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError
from fleetmark.pipeline.build import build
from fleetmark.pipeline.detect import detect
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store

NOW = datetime(2026, 6, 1)  # noqa: DTZ001 - times are UTC without zone; only bookkeeping columns show it

# source, paths, stated options
Inputs = Sequence[tuple[str, Sequence[Path], Mapping[str, str]]]


def judged(root: Path, inputs: Inputs, detectors: Sequence[str]) -> Store:
    """A new store with the inputs read, all models built and the detectors run.

    Raises InputError when a file is not read cleanly: a figure on half of its input is no figure.
    """
    catalog = load_catalog()
    store = Store(root)
    store.ensure(catalog.tables.values())
    for name, paths, options in inputs:
        for report in ingest(store, catalog, name, paths, options, {}, NOW):
            if not report.fine:
                raise InputError(f"{report.path}: {report.message}")
    build(store, catalog, {})
    detect(store, catalog, {}, NOW, detectors)
    return store


def rows(store: Store, sql: str) -> pl.DataFrame:
    """What a query returns; tables of the lake are named `lake.NAME`."""
    return store.connection.sql(sql).pl()


def simulated(
    out: Path, seed: int, nodes: int, days: int, logs: Sequence[str], scenario: str = "week"
) -> Any:  # noqa: ANN401 - the simulator is loaded by name, as folders do not import each other
    """Write a simulated scenario to `out`; returns its World."""
    simulate = import_module("fleetmark.simulate")
    return simulate.run(scenario, out, seed, nodes, days, logs=logs)
