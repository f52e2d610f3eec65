"""The catalog: every source, model and detector, found by walking the folders. No list to edit."""

from __future__ import annotations

import importlib
import importlib.resources
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import duckdb

from fleetmark.detector import FINDING, Detector, sql_detector
from fleetmark.errors import DefinitionError
from fleetmark.model import Model, sql_model
from fleetmark.source import Source
from fleetmark.store_tables import PUBLIC_OPERATIONAL
from fleetmark.table import Table

T = TypeVar("T")
D = TypeVar("D", Source, Model, Detector)


@dataclass(frozen=True)
class Catalog:
    """Definitions by name. `tables` are the stored contracts, those of sources with provenance."""

    sources: Mapping[str, Source]
    models: Mapping[str, Model]
    detectors: Mapping[str, Detector]
    tables: Mapping[str, Table]

    def needs(self) -> dict[str, set[str]]:
        """Of each model the models that it reads. It may name its own table, which does not count."""
        return {
            name: {i for i in model.inputs if i in self.models and i != name}
            for name, model in self.models.items()
        }

    def in_order(self) -> list[Model]:
        """Models so that each comes after its inputs."""
        try:
            return [self.models[name] for name in TopologicalSorter(self.needs()).static_order()]
        except CycleError as error:
            raise DefinitionError(f"models need each other: {' -> '.join(error.args[1])}") from None


@cache
def load_catalog() -> Catalog:
    """The definitions installed with Fleetmark. Raises DefinitionError with file and remedy."""
    folders = {
        n: importlib.import_module(f"fleetmark.{n}") for n in ("ingest", "models", "detectors")
    }
    return catalog_of(folders["ingest"], folders["models"], folders["detectors"])


def catalog_of(ingest: ModuleType, models: ModuleType, detectors: ModuleType) -> Catalog:
    """Build the catalog of three packages, refusing duplicates and unknown inputs."""
    sources = _unique(_values(ingest, Source))
    found_models, found_detectors = _values(models, Model), _values(detectors, Detector)
    with duckdb.connect() as parser:
        found_models += [sql_model(p, parser) for p in _sql_files(models)]
        found_detectors += [sql_detector(p, parser) for p in _sql_files(detectors)]
    by_name = _unique(found_models)
    tables = _tables(sources, by_name)
    rules = _unique(found_detectors)
    for reader in (*by_name.values(), *(d.model for d in rules.values())):
        if unknown := [name for name in reader.inputs if name not in tables]:
            raise DefinitionError(
                f"{reader.path or reader.name} reads {', '.join(unknown)}: no such table"
            )
    if shared := sorted(by_name.keys() & rules.keys()):
        raise DefinitionError(
            f"{', '.join(shared)}: model and detector need different names, by which settings and "
            "the state of the last run are kept"
        )
    catalog = Catalog(sources, by_name, rules, tables)
    catalog.in_order()
    return catalog


def _tables(sources: Mapping[str, Source], models: Mapping[str, Model]) -> dict[str, Table]:
    tables: dict[str, Table] = {t.name: t for t in (*PUBLIC_OPERATIONAL, FINDING)}
    written: dict[str, Table] = {}
    for source in sources.values():
        for table in source.outputs:
            if written.setdefault(table.name, table) != table:
                raise DefinitionError(f"source {source.name}: table {table.name} has two contracts")
    for table in (*(t.with_provenance() for t in written.values()),
                  *(m.output for m in models.values())):  # fmt: skip
        if table.name in tables:
            raise DefinitionError(f"table {table.name} is defined twice")
        tables[table.name] = table
    return dict(sorted(tables.items()))


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for name, folder in _packages(package):
        for path in sorted(folder.glob("*.py")):
            if not path.stem.startswith("_"):
                yield importlib.import_module(f"{name}.{path.stem}")


def _sql_files(package: ModuleType) -> list[Path]:
    return sorted(path for _, folder in _packages(package) for path in folder.glob("*.sql"))


def _packages(package: ModuleType) -> Iterator[tuple[str, Path]]:
    """The package and its subjects, one level of sub-packages, as (name, folder)."""
    for root in map(Path, package.__path__):
        yield package.__name__, root
        for init in sorted(root.glob("*/__init__.py")):
            yield f"{package.__name__}.{init.parent.name}", init.parent


def _values(package: ModuleType, kind: type[T]) -> list[T]:
    found: dict[int, T] = {}
    for module in _modules(package):
        for value in vars(module).values():
            if isinstance(value, kind):
                found[id(value)] = value
    return list(found.values())


def _unique(values: list[D]) -> dict[str, D]:
    names: dict[str, D] = {}
    for value in values:
        if value.name in names:
            raise DefinitionError(f"{type(value).__name__.lower()} {value.name} is defined twice")
        names[value.name] = value
    return dict(sorted(names.items()))
