"""A build spread over workers gives the tables of one process, whatever workers do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import DefinitionError, FleetmarkError, InputError, StoreError
from fleetmark.pipeline import spread
from fleetmark.pipeline.build import Due, Standing, build, due
from fleetmark.pipeline.engine import workers_of
from fleetmark.pipeline.ranges import ranges_of
from fleetmark.pipeline.run import ingest
from fleetmark.pipeline.spread import Site, Task, build_spread, run_task
from fleetmark.store import Store
from fleetmark.store_place import Place
from fleetmark.summary import summarise
from fleetmark.testing import EPOCH
from tests.access_line import access_line
from tests.small_catalog import part_of_the_catalog

CATALOG = part_of_the_catalog("storage_read", "checkpoint_object")
DAYS = (6, 7, 9)


@dataclass
class Inline:
    """Workers in this process. Each task meets what `faults` still holds, after it has committed;
    `meanwhile` happens after the first one was planned.
    """

    site: Site
    faults: list[Exception] = field(default_factory=list)
    meanwhile: Callable[[], None] = lambda: None
    tasks: list[Task] = field(default_factory=list)

    def submit(self, task: Task) -> Future[int]:
        if not self.tasks:
            self.meanwhile()
        self.tasks.append(task)
        future: Future[int] = Future()
        try:
            changed = run_task(self.site, task)
            if self.faults:
                raise self.faults.pop()
            future.set_result(changed)
        except (FleetmarkError, BrokenExecutor) as error:
            future.set_exception(error)
        return future


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    spread._opened.cache_clear()


@pytest.fixture
def filled(new_store: Callable[[str], Store], tmp_path: Path) -> Callable[[str], Store]:
    """A store with access lines of three days, under a name."""

    def make(name: str) -> Store:
        store = new_store(name)
        read(store, tmp_path, DAYS)
        return store

    return make


def read(store: Store, folder: Path, days: Sequence[int]) -> None:
    path = folder / f"access-{days}.log"
    path.write_text("".join(access_line(len(days) + day, day=day) + "\n" for day in days))
    list(ingest(store, CATALOG, "s3_access", [path], {}, {}, EPOCH))


def site(store: Store) -> Site:
    return Site(store.root, Place(), 512, 1)


def hashes(store: Store) -> dict[str, str]:
    tables = [CATALOG.tables[name] for name in CATALOG.models]
    return {s.name: s.content_hash for s in summarise(store, tables)}


def test_lost_workers_and_a_late_row(filled: Callable[[str], Store], tmp_path: Path) -> None:
    alone, store = filled("alone"), filled("spread")
    part = part_of_the_catalog("storage_read")
    build(alone, part, {})
    # Lost after their commit, so the driver learns of no change; and the catalog away for a moment.
    faults = [BrokenExecutor(), StoreError("away"), BrokenExecutor()]
    workers = Inline(site(store), faults, lambda: read(store, tmp_path, [9]))
    (built,) = build_spread(store, part, {}, workers)
    assert built.ranges == 2  # the 6th and 7th, and the 9th
    assert len(workers.tasks) == 2 + 3
    # What came after the plan is not in the tables yet, however often a task was tried.
    assert hashes(store)["storage_read"] == hashes(alone)["storage_read"]
    read(alone, tmp_path, [9])
    build(alone, CATALOG, {})
    again = Inline(site(store))
    build_spread(store, CATALOG, {}, again)
    assert hashes(store) == hashes(alone)
    assert [
        t.parts[0].start.day for t in again.tasks if t.model == "storage_read" and t.parts[0]
    ] == [9]
    assert not any(one.ranges for one in build_spread(store, CATALOG, {}, Inline(site(store))))
    assert not any(one.ranges for one in build(store, CATALOG, {}))


@pytest.mark.parametrize("spreads", [False, True])
def test_what_no_day_holds_is_looked_at_once(
    spreads: bool, new_store: Callable[[str], Store]
) -> None:
    """Packaged rows without a time, and no log yet: nothing to compute, and noted as seen."""
    part = part_of_the_catalog("health_event_policy")
    model = part.models["health_event_policy"]
    with new_store("packaged") as store:
        assert not Standing(store).is_current(model, {})
        if spreads:
            build_spread(store, part, {}, Inline(site(store)))
        else:
            build(store, part, {})
        assert Standing(store).is_current(model, {})
        assert due(store, part, model, {}) is None


def test_what_does_not_pass_ends_the_build(filled: Callable[[str], Store]) -> None:
    store, part = filled("lost"), part_of_the_catalog("storage_read")
    away: list[Exception] = [StoreError("away") for _ in range(2 * spread.TASK_ATTEMPTS)]
    with pytest.raises(StoreError, match="away"):
        build_spread(store, part, {}, Inline(site(store), away))
    other = Task("storage_read", "of another version", {}, (None,), 1)
    with pytest.raises(DefinitionError, match="install the same"):
        run_task(site(store), other)
    build_spread(store, part, {}, Inline(site(store)))  # goes on where it ended
    assert not any(one.ranges for one in build(store, part, {}))


def test_processes_of_this_machine(filled: Callable[[str], Store]) -> None:
    alone, store = filled("alone"), filled("processes")
    build(alone, CATALOG, {})
    with workers_of("processes:1", site(store)) as workers:
        build_spread(store, CATALOG, {}, workers)
    assert hashes(store) == hashes(alone)


def test_a_model_that_reads_its_own_table_is_one_task() -> None:
    own = [m for m in load_catalog().models.values() if m.name in m.inputs]
    for model in own:
        ranges = tuple(ranges_of({EPOCH.date().replace(year=1980 + n) for n in range(3)}, model))
        assert spread._shares(model, Due("", 1, ranges).ranges) == [ranges]


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("spark", "there are local, processes"),
        ("processes:0", "write a number of processes"),
        ("ray:head:6379", r"other machines need a store that they can reach: \[lake\]"),
    ],
)
def test_engines_that_cannot_be(engine: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        workers_of(engine, Site(tmp_path, Place(), 512, 1))
