"""All inputs that are files, in rounds: what is new of those whose time has come is read together.

One commit holds what all of them brought, so that many inputs cost no more than one. Each has its share of
a round, so that one with much to read delays the others by a round at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import duckdb

from fleetmark.catalog import Catalog
from fleetmark.errors import FleetmarkError, InputError, StoreError
from fleetmark.live.inputs import Files, Input, Webhook
from fleetmark.live.status import PASSING, Looked
from fleetmark.live.tail import SPOOL, Spool, Tail, found_paths
from fleetmark.pipeline.marks import Marks
from fleetmark.pipeline.run import Asked, FileReport, Turn, ingest_together
from fleetmark.settings import Settings
from fleetmark.store import Store

# New bytes of all inputs in one round, about; and the least share of one of them.
ROUND_BYTES = 128 << 20
LEAST_BYTES = 4 << 20
Outcome = Looked | FleetmarkError | OSError | duckdb.Error


@dataclass
class Follower:
    """The tails by name of their input, and how far large files were read."""

    catalog: Catalog
    settings: Settings
    tails: Mapping[str, Tail]
    _marks: Marks = field(default_factory=Marks)

    def __call__(self, store: Store, names: Sequence[str], now: datetime) -> dict[str, Outcome]:
        """A round of these inputs. What fails for one is read apart from the others."""
        share = max(LEAST_BYTES, ROUND_BYTES // max(1, len(names)))
        found: dict[str, Outcome] = {}
        asked: dict[str, Asked] = {}
        for name in names:
            tail = self.tails[name]
            try:
                paths = tail.turn(share)
            except PASSING as error:
                found[name] = error
                continue
            found[name] = Looked()
            if paths:
                asked[name] = Asked(tail.input.source, paths, tail.input.options)
        found |= self._read(store, asked, share, now)
        return found

    def behind(self, name: str) -> bool:
        """Did the last round leave something of this input to read?"""
        return self.tails[name].behind

    def _read(
        self, store: Store, asked: Mapping[str, Asked], share: int, now: datetime
    ) -> dict[str, Outcome]:
        if not asked:
            return {}
        turn = Turn(self._marks, share)
        reports: dict[str, list[FileReport]] = {name: [] for name in asked}
        names = {id(one): name for name, one in asked.items()}
        try:
            for one, report in ingest_together(
                store, self.catalog, list(asked.values()), self.settings.sources, now, turn=turn
            ):
                reports[names[id(one)]].append(report)
        except PASSING as error:
            # A store that refuses refuses all of them.
            if len(asked) == 1 or isinstance(error, StoreError | duckdb.Error):
                return dict.fromkeys(asked, error)
            found: dict[str, Outcome] = {}
            for name, one in asked.items():
                found |= self._read(store, {name: one}, share, now)
            return found
        self._marks.forget_others([path for tail in self.tails.values() for path in tail.known])
        return {name: self.tails[name].took(reports[name]) for name in asked}


def follower_of(inputs: Iterable[Input], catalog: Catalog, settings: Settings) -> Follower:
    """Raises InputError for an input that is no file."""
    return Follower(catalog, settings, {one.name: _tail(one, settings) for one in inputs})


def _tail(one: Input, settings: Settings) -> Tail:
    if isinstance(one, Files):
        return Tail(one, lambda: found_paths(one.paths))
    if isinstance(one, Webhook):
        spool = settings.store / SPOOL / one.name
        return Spool(one, lambda: sorted(spool.glob("*.body")))
    raise InputError(f"input {one.name}: {one.kind} is not followed")
