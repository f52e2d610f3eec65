"""A part of the catalog, for tests of how things are computed and not of what: all models take a minute."""

from __future__ import annotations

from dataclasses import replace

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.detect import source_tables


def part_of_the_catalog(*wanted: str) -> Catalog:
    """What these models and detectors need, and nothing else: all 159 would take a minute."""
    whole = load_catalog()
    walk, models = list(wanted), {}
    for name in walk:
        definition = whole.models.get(name) or whole.detectors[name].model
        if name in whole.models:
            models[name] = whole.models[name]
        walk += [i for i in definition.inputs if i in whole.models and i not in walk]
    detectors = {name: whole.detectors[name] for name in wanted if name in whole.detectors}
    return replace(whole, models=models, detectors=detectors)


def tables_of(catalog: Catalog) -> set[str]:
    read = [i for m in catalog.models.values() for i in m.inputs] + ["storage_access", "finding"]
    written = [
        table.name
        for name, source in catalog.sources.items()
        if source.packaged or name == "s3_access"
        for table in source.outputs
    ]
    return {*read, *catalog.models, *source_tables(catalog, read), *written}
