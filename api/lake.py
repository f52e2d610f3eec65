"""The store as the API sees it: the current snapshot, and the API's own queries over it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from fleetmark.access.gate import Principal
from fleetmark.access.rules import Role, Scope
from fleetmark.access.scope import Visibility
from fleetmark.catalog import Catalog
from fleetmark.errors import StoreError
from fleetmark.query.answer import Reader, records
from fleetmark.query.mirror import Mirror
from fleetmark.query.snapshot import Snapshot, read_snapshot
from fleetmark.store import Store
from fleetmark.store_place import Place
from fleetmark.table import quote

_MAX_BYTES = 64 << 20
_MAX_SIGHTS = 1000
_MAX_ANSWERS = 200
_FRESH_S = 0.2


class Lake:
    """A read-only store, opened at its first use; safe to use from several threads.

    `rows` runs the API's own SQL, with values bound. SQL from people goes to the worker pool.
    Raises StoreError when the store cannot be read.
    """

    def __init__(
        self,
        root: Path,
        catalog: Catalog,
        memory_mb: int,
        place: Place = Place(),  # noqa: B008 - frozen
    ) -> None:
        self.root = root
        self.place = place
        self._mirror = Mirror(place, root) if place.remote else None
        self.catalog = catalog
        self._memory_mb = memory_mb
        self._store: Store | None = None
        self._snapshot: Snapshot | None = None
        self._fresh_until = 0.0
        self._answers: OrderedDict[tuple[object, ...], list[dict[str, Any]]] = OrderedDict()
        self._visibility = Visibility(catalog)
        self._narrowed: dict[tuple[Role, tuple[Scope, ...] | None], Snapshot] = {}
        self._lock = threading.Lock()

    def snapshot(self) -> Snapshot:
        """The newest state of the store, or what was that a fifth of a second ago."""
        with self._lock:
            if self._snapshot is not None and time.monotonic() < self._fresh_until:
                return self._snapshot
            if self._store is None:
                self._store = Store(
                    self.root, place=self.place, read_only=True, memory_mb=self._memory_mb
                )
            try:
                if self._snapshot is None or self._store.snapshot() != self._snapshot.id:
                    self._snapshot = self._read_snapshot(self._store)
            except duckdb.Error as error:
                # The connection may be past use: the next request opens another.
                self._store.connection.close()
                self._store = self._snapshot = None
                raise StoreError(
                    f"cannot read the store {self.place.name(self.root)}: {error}"
                ) from None
            self._fresh_until = time.monotonic() + _FRESH_S
            return self._snapshot

    def _read_snapshot(self, store: Store) -> Snapshot:
        snapshot = read_snapshot(store, self.catalog.tables.values(), self._mirror)
        if self._mirror is not None:
            listed = (path for files in snapshot.files.values() for pair in files for path in pair)
            self._mirror.tidy(filter(None, listed), time.time())
        return snapshot

    def seen_by(self, principal: Principal) -> Snapshot:
        """The newest state of the store, as far as `principal` may see it."""
        snapshot = self.snapshot()
        key = (principal.role, principal.scopes)
        with self._lock:
            known = self._narrowed.get(key)
            if known is None or known.id != snapshot.id:
                if len(self._narrowed) > _MAX_SIGHTS:
                    self._narrowed.clear()
                known = self._narrowed[key] = self._visibility.narrowed(snapshot, principal)
            return known

    def rows(
        self,
        sql: str,
        tables: Sequence[str],
        params: Sequence[Any] | Mapping[str, Any] = (),
        *,
        limit: int = 10_000,
        snapshot: Snapshot,
    ) -> list[dict[str, Any]]:
        """Rows of `sql` as JSON values, over `tables` as `snapshot` shows them.

        Asked again while these tables are the same, the same rows are given: do not change them.
        """
        key = (snapshot.state(tables), sql, repr(params), limit)
        with self._lock:
            known = self._answers.get(key)
        if known is None:
            known = self._read(sql, tables, params, limit, snapshot)
            with self._lock:
                self._answers[key] = known
                while len(self._answers) > _MAX_ANSWERS:
                    self._answers.popitem(last=False)
        return list(known)

    def _read(
        self,
        sql: str,
        tables: Sequence[str],
        params: Sequence[Any] | Mapping[str, Any],
        limit: int,
        snapshot: Snapshot,
    ) -> list[dict[str, Any]]:
        with duckdb.connect(config={"memory_limit": f"{self._memory_mb}MB"}) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for name in tables:
                connection.execute(f"CREATE VIEW {quote(name)} AS {snapshot.view(name).sql}")
            connection.execute(sql, params)
            return [
                row for batch in Reader(connection, limit, _MAX_BYTES) for row in records(batch)
            ]

    def close(self) -> None:
        with self._lock:
            if self._store is not None:
                self._store.connection.close()
                self._store = None
