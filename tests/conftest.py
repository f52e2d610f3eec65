"""Fixtures: the example catalog and stores."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from fleetmark.catalog import Catalog, catalog_of, load_catalog
from fleetmark.pipeline.run import ingest_packaged
from fleetmark.spared import spare_pandas
from fleetmark.store import Store
from fleetmark.testing import EPOCH, complete, read_rows

# As in every process of Fleetmark's own; the tests of contracts take it back.
spare_pandas()

EXAMPLE = Path(__file__).parent / "example"
FLEET = Path(__file__).parent / "fleet"
CLUSTERS = Path(__file__).parent / "clusters"


def _load_package(folder: Path, name: str) -> ModuleType:
    for known in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
        del sys.modules[known]
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def load_package() -> Callable[[Path, str], ModuleType]:
    """Import a folder as the package of a name, wherever it lies."""
    return _load_package


@pytest.fixture(scope="session")
def example() -> Catalog:
    """One source, one model, one detector."""
    names = ("ingest", "models", "detectors")
    return catalog_of(*(_load_package(EXAMPLE / n, f"example_{n}") for n in names))


@pytest.fixture(scope="session")
def _empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every table of the catalog and what ships in packaged files, else empty; making
    one costs a second, copying does not.
    """
    root = tmp_path_factory.mktemp("empty") / "store"
    with Store(root, memory_mb=512) as opened:
        opened.ensure(load_catalog().tables.values())
        ingest_packaged(opened, load_catalog(), EPOCH)
    return root


@pytest.fixture
def new_store(_empty_store: Path, tmp_path: Path) -> Callable[[str], Store]:
    """Open an empty store of its own under a name."""

    def make(name: str) -> Store:
        shutil.copytree(_empty_store, tmp_path / name)
        return Store(tmp_path / name, memory_mb=512)

    return make


@pytest.fixture
def store(tmp_path: Path, example: Catalog) -> Iterator[Store]:
    """An empty store with the example's tables."""
    with Store(tmp_path / "store", memory_mb=512) as opened:
        opened.ensure(example.tables.values())
        yield opened


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with every table of Fleetmark, some filled from tests/fleet. Read it, do not write."""
    return _filled(tmp_path_factory.mktemp("fleet") / "store", FLEET)


@pytest.fixture(scope="session")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of tests/clusters. Read it, do not write."""
    return _filled(tmp_path_factory.mktemp("clusters") / "store", CLUSTERS)


def _filled(root: Path, folder: Path) -> Path:
    tables = load_catalog().tables
    with Store(root, memory_mb=512) as opened:
        opened.ensure(tables.values())
        for path in sorted(folder.glob("*.csv")):
            table = tables[path.stem]
            frame = complete(table, read_rows(path, table))
            empty = [name for name in table.required() if frame[name].null_count()]
            assert not empty, f"{path}: {', '.join(empty)} may not be empty"
            rows = frame.to_arrow()
            opened.connection.register("filled", rows)
            fill = f"INSERT INTO lake.{table.name} FROM filled"
            opened.commit(lambda fill=fill: opened.connection.execute(fill))  # type: ignore[misc]  # bound per file
            opened.connection.unregister("filled")
    return root
