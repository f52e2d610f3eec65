"""How each kind of service is looked at."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError
from fleetmark.live.inputs import Input, Kubernetes, ObjectStore, Prometheus, Slurm
from fleetmark.live.objects import Objects
from fleetmark.live.status import Looked
from fleetmark.pipeline.kube import Kubernetes as ApiServer
from fleetmark.pipeline.prometheus import Prometheus as Server
from fleetmark.pipeline.pull import GPU_METRICS, SETTLE, SOURCE, Pull, pull_prometheus, spans
from fleetmark.pipeline.pull_answer import Asked
from fleetmark.pipeline.pull_kubernetes import SOURCE as KUBERNETES
from fleetmark.pipeline.pull_kubernetes import pull_kubernetes
from fleetmark.pipeline.pull_slurm import pull_slurm
from fleetmark.pipeline.slurm import SlurmCommands, SlurmRest
from fleetmark.settings import Settings
from fleetmark.store import Store


class Look(Protocol):
    """Reads what is new, into the store. Raises FleetmarkError."""

    def __call__(self, store: Store, now: datetime) -> Looked: ...


def look_of(one: Input, catalog: Catalog, settings: Settings) -> Look:
    """How to look at this input."""
    if isinstance(one, Prometheus):
        return _PrometheusLook(one, catalog, settings)
    if isinstance(one, Slurm):
        return _SlurmLook(one, catalog, settings)
    if isinstance(one, Kubernetes):
        return _KubernetesLook(one, catalog, settings)
    if isinstance(one, ObjectStore):
        return Objects(one, catalog, settings)
    raise InputError(f"input {one.name}: {one.kind} is not pulled")


@dataclass
class _PrometheusLook:
    """Samples since the last pull, up to a minute ago."""

    input: Prometheus
    catalog: Catalog
    settings: Settings

    def __call__(self, store: Store, now: datetime) -> Looked:
        one = self.input
        headers = (
            {"Authorization": f"Bearer {one.token.read(self.settings.environment)}"}
            if one.token
            else {}
        )
        with Server(one.url, headers) as server:
            options = self.settings.options(SOURCE, one.options)
            pull = Pull(server, one.selector or GPU_METRICS, options)
            known = spans(store, pull, "pulled")
            start = None if known else now - timedelta(hours=one.backfill_h)
            return _sum(pull_prometheus(store, self.catalog, pull, start, now - SETTLE, now))


@dataclass
class _SlurmLook:
    """Histories since the last pull, and how nodes, queue, partitions and reservations stand now."""

    input: Slurm
    catalog: Catalog
    settings: Settings

    def __call__(self, store: Store, now: datetime) -> Looked:
        one = self.input
        cluster = self._rest() if one.url else self._commands()
        asked = [Asked(cluster.endpoint, name, one.options) for name in cluster.histories]
        known = all(spans(store, history, "pulled") for history in asked)
        start = None if known else now - timedelta(hours=one.backfill_h)
        return _sum(pull_slurm(store, self.catalog, cluster, one.options, start, now))

    def _commands(self) -> SlurmCommands:
        return SlurmCommands(self.settings.environment, self.input.slurm_cluster or None)

    def _rest(self) -> SlurmRest:
        one = self.input
        sent = {"X-SLURM-USER-NAME": one.user} if one.user else {}
        if one.token:
            sent["X-SLURM-USER-TOKEN"] = one.token.read(self.settings.environment)
        return SlurmRest(one.url, sent)


@dataclass
class _KubernetesLook:
    """What changed since the last pull, and all that is. The client is made anew each time, so that
    renewed credentials count.
    """

    input: Kubernetes
    catalog: Catalog
    settings: Settings

    def __call__(self, store: Store, now: datetime) -> Looked:
        options = self.settings.options(KUBERNETES, self.input.options)
        with closing(ApiServer(self.input.context or None)) as cluster:
            return _sum(pull_kubernetes(store, self.catalog, cluster, options, now))


class _Report(Protocol):
    @property
    def row_count(self) -> int: ...
    @property
    def reject_count(self) -> int: ...
    @property
    def message(self) -> str: ...


def _sum(reports: Iterable[_Report]) -> Looked:
    """All parts of a pull together; the first problem of any."""
    rows = rejects = 0
    problem = ""
    for report in reports:
        rows += report.row_count
        rejects += report.reject_count
        problem = problem or report.message
    return Looked(rows, rejects, problem)
