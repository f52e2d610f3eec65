"""The part `compute`: models, detectors and alerts whenever something changed; the store tended."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fleetmark.alerts import deliver
from fleetmark.catalog import Catalog
from fleetmark.errors import ServiceUnreachableError
from fleetmark.evidence import Ledger
from fleetmark.live.inputs import Run
from fleetmark.live.status import Status
from fleetmark.pipeline.build import build
from fleetmark.pipeline.detect import detect
from fleetmark.settings import Settings
from fleetmark.store import Store
from fleetmark.upkeep.tend import tend

# A quiet store is looked at so often for pages that wait for room in the budget.
_HELD_EVERY = timedelta(hours=1)


@dataclass
class Computation:
    """Keeps what the last round began with, so that a quiet store costs one question."""

    catalog: Catalog
    settings: Settings
    run: Run
    _began_at: int = -1
    _delivered_at: datetime = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC without zone
    _tended: float = field(default_factory=time.monotonic)

    def __call__(self, store: Store, now: datetime, status: Status) -> int:
        """One round; the findings delivered. Raises FleetmarkError."""
        if time.monotonic() - self._tended > self.run.tend_interval_s:
            with _timed(status, "tend"):
                tend(store, self.catalog, self.run.retention_days, now)
            self._tended = time.monotonic()
        due = now - self._delivered_at >= _HELD_EVERY
        if not self._changed(store) and not _waiting(store, "pending", *(["held"] if due else [])):
            return 0
        began_at = store.snapshot()
        with _timed(status, "build"):
            build(store, self.catalog, self.settings.params)
        with _timed(status, "detect"):
            detect(store, self.catalog, self.settings.params, now)
        with _timed(status, "deliver"), Ledger.of(self.settings, lambda: now) as ledger:
            sent = deliver(store, self.catalog, self.settings.webhooks, now, ledger)
        self._began_at, self._delivered_at = began_at, now
        if failed := [f"{s.channel}: {s.error}" for s in sent if s.failed]:
            raise ServiceUnreachableError(f"alerts wait: {'; '.join(failed)}")
        return sum(s.delivered for s in sent)

    def _changed(self, store: Store) -> bool:
        """Has a source written since the last round began? What came in during it counts."""
        found = store.connection.execute(
            "SELECT 1 FROM lake.meta.partition_change "
            "WHERE snapshot_id > $1 AND table_name IN (SELECT unnest($2)) LIMIT 1",
            [self._began_at, [t for t in self.catalog.tables if t not in self.catalog.models]],
        ).fetchone()
        return found is not None


def _waiting(store: Store, *statuses: str) -> bool:
    """Does an alert wait for another try, or for room in the week's budget?"""
    found = store.connection.execute(
        "SELECT 1 FROM lake.alert_delivery WHERE status IN (SELECT unnest($1)) LIMIT 1",
        [list(statuses)],
    ).fetchone()
    return found is not None


class _timed:  # noqa: N801 - reads as a statement
    def __init__(self, status: Status, step: str) -> None:
        self._status, self._step = status, step

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._status.timings_s[self._step] = round(time.monotonic() - self._began, 3)
