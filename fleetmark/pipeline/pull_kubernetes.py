"""Pull the objects of a Kubernetes cluster into the store: what changed since last time, and all that is.

Per resource one watch goes on from the resource version where the last pull ended, and one list shows
how things stand: the first brings what came and went in between, the second makes groups of pods whole.
Events are listed once and then only watched. All of a pull is one document, so that what one kind tells
of a job is not told again by another. Resource versions are committed with the rows. Where the server
has forgotten the last one (410 Gone), the time since is a row of `pull_range` with status `failed`:
what was made and deleted in it is not known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from fleetmark.catalog import Catalog
from fleetmark.errors import Retryable, ServiceError
from fleetmark.pipeline.kube import CursorGoneError, Kubernetes
from fleetmark.pipeline.pull import Span, note, record
from fleetmark.pipeline.pull_answer import Answer, Asked, PartReport, load_answer
from fleetmark.store import Store

SOURCE = "kubernetes"
GONE = "changes in this time were not seen: the server had forgotten them (410 Gone)"
# Kept for an hour and many: the watch is enough.
WATCHED_ONLY = "/events"


@dataclass(frozen=True, slots=True)
class Part:
    """What one resource gave: JSON values, one after the other, and the cursor to go on from."""

    asked: Asked
    span: Span
    content: bytes
    cursor: str | None
    is_gap: bool


def pull_kubernetes(
    store: Store, catalog: Catalog, cluster: Kubernetes, options: Mapping[str, str], now: datetime
) -> Iterator[PartReport]:
    """Pull every resource that the source reads; a report for each that failed, and one of the rows.

    Raises ServiceError when the server cannot be reached; a resource that it refuses is a row of
    `pull_range` and a report, and does not keep others from being pulled.
    """
    parts = []
    for path in cluster.paths():
        asked = Asked(cluster.endpoint, path, options)
        since, cursor = _last(store, asked)
        span = (since or now, now)
        try:
            parts.append(_ask(cluster, asked, span, cursor))
        except ServiceError as error:
            record(store, asked, "failed", span, now, str(error))
            if isinstance(error, Retryable):
                raise
            yield PartReport(path, *span, message=str(error))

    def note_cursors() -> None:
        for part in parts:
            begin = now if part.is_gap else part.span[0]
            note(store, part.asked, "pulled", (begin, now), now, cursor=part.cursor)
            if part.is_gap:
                note(store, part.asked, "failed", part.span, now, GONE)

    stated = {"observed_at": f"{now:%Y-%m-%dT%H:%M:%S}"}
    answer = Answer(SOURCE, b"\n".join(part.content for part in parts), stated)
    begin = min((part.span[0] for part in parts), default=now)
    yield load_answer(store, catalog, answer, options, (begin, now), now, SOURCE, note_cursors)


def _last(store: Store, asked: Asked) -> tuple[datetime | None, str | None]:
    """Until when it was pulled, and the cursor."""
    row = store.connection.execute(
        "SELECT end_ts, cursor FROM lake.pull_range WHERE (endpoint, selector, options) = ($1, $2, $3) "
        "AND status = 'pulled' ORDER BY end_ts DESC LIMIT 1",
        asked.key,
    ).fetchone()
    return (row[0], row[1]) if row else (None, None)


def _ask(cluster: Kubernetes, asked: Asked, span: Span, cursor: str | None) -> Part:
    changes, is_gap = b"", False
    path = asked.selector
    if cursor is not None:
        try:
            changes = cluster.changes(path, cursor)
        except CursorGoneError:
            is_gap = True
    if cursor is not None and not is_gap and path.endswith(WATCHED_ONLY):
        return Part(asked, span, changes, _cursor_of(changes) or cursor, is_gap)
    listing = cluster.list(path)
    # Not the list's version after changes: a watch that was cut before it told all goes on where it ended.
    after = _cursor_of(changes) or listing.cursor
    return Part(asked, span, b"\n".join([changes, *listing.pages]), after, is_gap)


def _cursor_of(changes: bytes) -> str | None:
    """The resource version of the last change of a watch, bookmarks included."""
    last = changes.rstrip().rpartition(b"\n")[2]
    if not last:
        return None
    found = msgspec.json.decode(last)
    version = found.get("object", {}).get("metadata", {}).get("resourceVersion")
    return version if isinstance(version, str) else None
