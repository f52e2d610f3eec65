"""Pull Slurm's records into the store: histories by time, and how things stand now.

Each history (attempts, times of nodes out of service) has a cursor of its own in `pull_range`,
which is committed with the rows. Slurm answers a window with all that overlaps it, so one call from
the cursor to now also brings the ends of what was open; `OVERLAP` covers what its database learns
late. Rows that are known vanish, whatever the order of the pulls. Times never asked for lie in no row
of `pull_range`, times that failed have one that says why. Of days long past Slurm does not show jobs
that were cancelled before a begin time beyond the slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError, ServiceError
from fleetmark.pipeline.pull import Span, gaps, note, record, spans
from fleetmark.pipeline.pull_answer import Asked, PartReport, load_answer
from fleetmark.pipeline.slurm import Slurm
from fleetmark.store import Store

# slurmctld holds records back while the database is away, and sends them in bursts.
OVERLAP = timedelta(minutes=10)
# Longer windows are asked for in slices: there is no paging.
LONGEST_SLICE = timedelta(days=1)


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
        asked = Asked(slurm.endpoint, name, options)
        pulled = spans(store, asked, "pulled")
        if start is None and not pulled:
            raise InputError(
                f"no {name} has been pulled from {slurm.endpoint}: say from when with --from"
            )
        begin = pulled[-1][1] if start is None else start
        for span in gaps(pulled, begin, now):
            for piece in _slices(span):
                yield _pull_slice(store, catalog, slurm, asked, piece, now)
    for answer in slurm.state(now):
        yield load_answer(store, catalog, answer, options, (now, now), now, answer.source)


def _slices(span: Span) -> Iterator[Span]:
    start, end = span
    while start < end:
        until = min(start + LONGEST_SLICE, end)
        yield start, until
        start = until


def _pull_slice(
    store: Store, catalog: Catalog, slurm: Slurm, asked: Asked, span: Span, now: datetime
) -> PartReport:
    start, end = span
    try:
        answer = slurm.history(asked.selector, start - OVERLAP, end, is_now=end == now)
    except ServiceError as error:
        record(store, asked, "failed", span, now, str(error))
        raise
    return load_answer(
        store, catalog, answer, asked.options, span, now, asked.selector,
        lambda: note(store, asked, "pulled", span, now),
    )  # fmt: skip
