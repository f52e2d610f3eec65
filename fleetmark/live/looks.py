"""How each kind of polled input is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError
from fleetmark.live.inputs import Files, Input, ObjectStore, Prometheus, Webhook
from fleetmark.live.objects import Objects
from fleetmark.live.status import Looked
from fleetmark.live.tail import SPOOL, Spool, Tail, found_paths
from fleetmark.pipeline.prometheus import Prometheus as Server
from fleetmark.pipeline.pull import GPU_METRICS, Pull, pull_prometheus, spans
from fleetmark.settings import Settings
from fleetmark.store import Store

# A scrape is stored when it is done, under the time it began: Prometheus lets it take 10 s.
SETTLE = timedelta(minutes=1)


class Look(Protocol):
    """Reads what is new, into the store. Raises FleetmarkError."""

    def __call__(self, store: Store, now: datetime) -> Looked: ...


def look_of(one: Input, catalog: Catalog, settings: Settings) -> Look:
    """How to look at this input."""
    if isinstance(one, Files):
        return Tail(one, catalog, settings, lambda: found_paths(one.paths))
    if isinstance(one, Webhook):
        spool = settings.store / SPOOL / one.name
        return Spool(one, catalog, settings, lambda: sorted(spool.glob("*.body")))
    if isinstance(one, Prometheus):
        return _PrometheusLook(one, catalog, settings)
    if isinstance(one, ObjectStore):
        return Objects(one, catalog, settings)
    raise InputError(f"input {one.name}: {one.kind} is not polled")


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
        rows = rejects = 0
        problem = ""
        with Server(one.url, headers) as server:
            pull = Pull(server, one.selector or GPU_METRICS, one.options)
            known = spans(store, pull, "pulled")
            start = None if known else now - timedelta(hours=one.backfill_h)
            for report in pull_prometheus(store, self.catalog, pull, start, now - SETTLE, now):
                rows += report.row_count
                rejects += report.reject_count
                problem = problem or report.message
        return Looked(rows, rejects, problem)
