"""Pull Slurm's records into the store: histories by time, and how things stand now.

Each history (attempts, times of nodes out of service) has a cursor of its own in `pull_range`,
which is committed with the rows. Slurm answers a window with all that overlaps it, so one call from
the cursor to now also brings the ends of what was open; `OVERLAP` covers what its database learns
late. Rows that are known vanish, whatever the order of the pulls. Times never asked for lie in no row
of `pull_range`, times that failed have one that says why. Of days long past Slurm does not show jobs
that were cancelled before a begin time beyond the slice.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError, ServiceError
from fleetmark.pipeline.known import facts_json
from fleetmark.pipeline.pull_range import Key, Span, gaps, note, record, spans
from fleetmark.pipeline.run import ingest
from fleetmark.pipeline.slurm import Answer, Slurm
from fleetmark.store import Store

# slurmctld holds records back while the database is away, and sends them in bursts.
OVERLAP = timedelta(minutes=10)
# Longer windows are asked for in slices: there is no paging.
LONGEST_SLICE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class PartReport:
    """What became of one answer. `what`: the history's name, or the source of a state."""

    what: str
    start_ts: datetime
    end_ts: datetime
    row_count: int
    repeat_count: int
    reject_count: int
    message: str = ""

    @property
    def fine(self) -> bool:
        return not self.message


def pull_slurm(
    store: Store,
    catalog: Catalog,
    slurm: Slurm,
    options: Mapping[str, str],
    start: datetime | None,
    now: datetime,
) -> Iterator[PartReport]:
    """Pull histories from `start` (default: where the last pull ended) to now, then the state now.

    Raises InputError when nothing was pulled before and no start is given, and ServiceError when
    Slurm refuses (with Retryable mixed in when trying again may help); the slice that failed is
    a row of `pull_range`.
    """
    for name in slurm.histories:
        key = [slurm.endpoint, name, facts_json(options)]
        pulled = spans(store, key, "pulled")
        if start is None and not pulled:
            raise InputError(
                f"no {name} has been pulled from {slurm.endpoint}: say from when with --from"
            )
        begin = pulled[-1][1] if start is None else start
        for span in gaps(pulled, begin, now):
            for piece in _slices(span):
                yield _pull_slice(store, catalog, slurm, name, key, piece, options, now)
    for answer in slurm.state(now):
        yield _load(store, catalog, answer, options, (now, now), now, answer.source)


def _slices(span: Span) -> Iterator[Span]:
    start, end = span
    while start < end:
        until = min(start + LONGEST_SLICE, end)
        yield start, until
        start = until


def _pull_slice(
    store: Store, catalog: Catalog, slurm: Slurm, name: str, key: Key, span: Span,
    options: Mapping[str, str], now: datetime,
) -> PartReport:  # fmt: skip
    try:
        answer = slurm.history(name, span[0] - OVERLAP, span[1], is_now=span[1] == now)
    except ServiceError as error:
        record(store, key, "failed", span, now, str(error))
        raise
    return _load(store, catalog, answer, options, span, now, name, key)


def _load(
    store: Store, catalog: Catalog, answer: Answer, options: Mapping[str, str], span: Span,
    now: datetime, what: str, key: Key | None = None,
) -> PartReport:  # fmt: skip
    """Ingest an answer as the file that it would be; the cursor moves with its rows."""
    scratch = store.root / "tmp"
    scratch.mkdir(exist_ok=True)
    stated = {**options, **answer.options}
    known = {option.name for option in catalog.sources[answer.source].options}
    stated = {name: value for name, value in stated.items() if name in known}

    def advance() -> None:
        if key is not None:
            note(store, key, "pulled", span, now)

    with tempfile.TemporaryDirectory(prefix="pull-", dir=scratch) as folder:
        path = Path(folder) / f"{answer.source}_{span[0]:%Y%m%dT%H%M%S}Z_{span[1]:%Y%m%dT%H%M%S}Z"
        path.write_bytes(answer.content)
        (report,) = ingest(store, catalog, answer.source, [path], stated, {}, now, also=advance)
    store.settle(["pull_range"])
    return PartReport(
        what, *span, report.row_count, report.repeat_count, report.reject_count, report.message
    )
