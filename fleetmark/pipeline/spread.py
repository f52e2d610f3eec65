"""A build spread over worker processes, on this machine or many: the same models, one range a task.

The driver plans and notes what is done; workers compute and publish, each with its own connection to the
shared store. A task that is done twice finds its own rows equal and leaves them alone, so one whose worker
was lost is simply given to another, and a build whose driver was lost is simply run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Protocol

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.errors import DefinitionError, StoreError
from fleetmark.model import Model, Params
from fleetmark.pipeline.build import (
    Built,
    Due,
    Standing,
    compute_range,
    due,
    remember,
    version_of,
)
from fleetmark.pipeline.ranges import Range
from fleetmark.pipeline.thresholds import check
from fleetmark.store import Store
from fleetmark.store_open import back_off
from fleetmark.store_place import Place

# A worker or the catalog may be lost this often in one task; a fault of the task itself is not tried again.
TASK_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class Site:
    """What a worker needs to open the store. `root` is a folder of its own machine."""

    root: Path
    place: Place
    memory_mb: int
    threads: int


@dataclass(frozen=True, slots=True)
class Task:
    """Ranges of one model, computed from its inputs as they were at one snapshot.

    More than one only where each rests on the one before, in a model that reads its own table.
    """

    model: str
    version: str
    overrides: Params
    parts: tuple[Range | None, ...]
    snapshot: int


class Workers(Protocol):
    """Processes that run tasks."""

    def submit(self, task: Task) -> Future[int]:
        """The days that it will have changed. Raises nothing: the future does."""
        ...


def run_task(site: Site, task: Task) -> int:
    """In a worker: compute and publish. Raises StoreError where another attempt may help."""
    catalog = load_catalog()
    model = catalog.models.get(task.model)
    if model is None or version_of(model, task.overrides) != task.version:
        raise DefinitionError(
            f"a worker's Fleetmark has another {task.model}: install the same there"
        )
    changed = 0
    try:
        store = _opened(site)
        for part in task.parts:

            def work(part: Range | None = part) -> int:
                return compute_range(
                    store, catalog, model, task.overrides, part, snapshot=task.snapshot
                )

            changed += store.commit(work)
    except StoreError:
        _opened.cache_clear()  # the next attempt opens the store anew
        raise
    return changed


@cache
def _opened(site: Site) -> Store:
    """One connection for all tasks of a worker: to open costs as much as a small task."""
    return Store(site.root, place=site.place, memory_mb=site.memory_mb, threads=site.threads)


@dataclass
class _Job:
    """A model in the works."""

    model: Model
    due: Due
    open: int = 0
    changed: int = 0


@dataclass
class _Spread:
    store: Store
    catalog: Catalog
    params: Mapping[str, Params]
    workers: Workers
    standing: Standing
    running: dict[Future[int], tuple[_Job, Task, int]] = field(default_factory=dict)

    def begin(self, model: Model) -> _Job | None:
        """Hand out the tasks of a model; None when it is up to date."""
        overrides = self.params.get(model.name, {})
        if self.standing.is_current(model, overrides):
            return None
        stale = due(self.store, self.catalog, model, overrides)
        if stale is None or not stale.ranges:
            return None
        job = _Job(model, stale)
        for parts in _shares(model, stale.ranges):
            task = Task(model.name, stale.version, overrides, parts, stale.snapshot)
            self._hand_out(job, task, 1)
            job.open += 1
        return job

    def _hand_out(self, job: _Job, task: Task, attempt: int) -> None:
        self.running[self.workers.submit(task)] = (job, task, attempt)

    def finished(self) -> Iterator[_Job]:
        """Wait for a task; models whose last one it was. Raises what a task failed with."""
        for future in wait(self.running, return_when=FIRST_COMPLETED).done:
            job, task, attempt = self.running.pop(future)
            error = future.exception()
            if error is not None:
                if not isinstance(error, StoreError | BrokenExecutor) or attempt == TASK_ATTEMPTS:
                    raise error
                back_off(attempt)
                self._hand_out(job, task, attempt + 1)
                continue
            job.changed += future.result()
            job.open -= 1
            if not job.open:
                self.store.commit(lambda job=job: remember(self.store, job.model.name, job.due))  # type: ignore[misc]  # bound per job
                # Whether it changed is not asked: a worker may be lost between its commit and its answer.
                self.standing.changed(job.model.output.name)
                yield job


def _shares(model: Model, ranges: tuple[Range | None, ...]) -> list[tuple[Range | None, ...]]:
    return [ranges] if model.name in model.inputs else [(part,) for part in ranges]


def build_spread(
    store: Store,
    catalog: Catalog,
    params: Mapping[str, Params],
    workers: Workers,
    on_model: Callable[[str], None] = lambda name: None,
) -> list[Built]:
    """As `build`, with the work done by `workers`: what does not rest on each other at the same time.

    Raises what a task failed with: the rest is left undone, and done by the next build.
    """
    check(catalog, params)
    spread = _Spread(store, catalog, params, workers, Standing(store))
    order = TopologicalSorter(catalog.needs())
    order.prepare()
    built: dict[str, Built] = {}
    while order.is_active():
        for name in order.get_ready():
            if spread.begin(catalog.models[name]) is None:
                built[name] = Built(name, 0, 0)
                on_model(name)
                order.done(name)
        if not spread.running:
            continue
        for job in spread.finished():
            name = job.model.name
            built[name] = Built(name, len(job.due.ranges), job.changed)
            on_model(name)
            order.done(name)
    store.settle(name for name, one in built.items() if one.ranges)
    return [built[model.name] for model in catalog.in_order()]
