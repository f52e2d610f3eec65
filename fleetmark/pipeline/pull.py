"""Pull telemetry from a Prometheus into the store, one bounded slice of time after the other.

Each slice becomes a document that a source (`prometheus_read`, `serving_read`) reads, so that what holds for files
holds here: rows that are known already vanish. Which times were pulled stands in `pull_range`, written
in the transaction of their rows: a kill leaves both or neither.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import polars as pl

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError, ServiceUnreachableError
from fleetmark.pipeline.known import facts_json
from fleetmark.pipeline.prometheus import (
    AnswerTooLargeError,
    Matcher,
    Prometheus,
    matchers_of,
    unpacked_size,
)
from fleetmark.pipeline.run import ingest
from fleetmark.pipeline.write import showing
from fleetmark.store import Store
from fleetmark.store_tables import PULL_RANGE

SOURCE = "prometheus_read"
# dcgm-exporter of all versions, nvidia_gpu_exporter, ROCm exporters.
GPU_METRICS = '{__name__=~"(DCGM|dcgm|nvidia_smi|rocm|amd_gpu)_.+"}'
# vLLM, SGLang, TGI, Triton, and when their processes began.
SERVING_METRICS = (
    '{__name__=~"(vllm|sglang):.+|(vllm|sglang|tgi|nv_inference|nv_trt_llm|nv_llm)_.+'
    '|process_start_time_seconds"}'
)
# What is asked for where no selector is stated, by the source that reads the answers.
SELECTORS = {SOURCE: GPU_METRICS, "serving_read": SERVING_METRICS}
# Unpacked; 1.2 million samples or more. They take some 400 MiB while they become rows.
ANSWER_BYTES = 24 << 20
# One query without a series.
EMPTY_BYTES = 2
FIRST_SLICE = timedelta(minutes=5)
# A scrape is stored when it is done, under the time it began: Prometheus lets it take 10 s.
SETTLE = timedelta(minutes=1)
LONGEST_SLICE = timedelta(hours=6)
SHORTEST_SLICE = timedelta(seconds=1)
Span = tuple[datetime, datetime]


class Keyed(Protocol):
    """Whatever has rows in `pull_range`."""

    @property
    def key(self) -> list[str]:
        """What its rows have in common: endpoint, selector, options as JSON."""
        ...


@dataclass(frozen=True, slots=True)
class Pull:
    """What is pulled: the selector's series of one server; `options` as of the source that reads them."""

    server: Prometheus
    selector: str = GPU_METRICS
    options: Mapping[str, str] = field(default_factory=dict)
    source: str = SOURCE

    @property
    def key(self) -> list[str]:
        """What its rows in `pull_range` have in common."""
        return [self.server.url, self.selector, facts_json(self.options)]


@dataclass(frozen=True, slots=True)
class SliceReport:
    """What became of one slice. `state`: pulled, empty (no sample in it) or failed."""

    start_ts: datetime
    end_ts: datetime
    state: str
    row_count: int = 0
    repeat_count: int = 0
    reject_count: int = 0
    message: str = ""

    @property
    def fine(self) -> bool:
        return not self.message


def spans(store: Store, pull: Keyed, status: str) -> list[Span]:
    """The stretches of this pull with a status, in order."""
    return store.connection.execute(
        "SELECT start_ts, end_ts FROM lake.pull_range "
        "WHERE (endpoint, selector, options) = ($1, $2, $3) AND status = $4 ORDER BY start_ts",
        [*pull.key, status],
    ).fetchall()


def gaps(pulled: Sequence[Span], start: datetime, end: datetime) -> list[Span]:
    """What of [start, end) lies in none of the stretches, which are in order and apart."""
    missing = []
    for begins, ends in pulled:
        if begins > start and min(begins, end) > start:
            missing.append((start, min(begins, end)))
        start = max(start, ends)
    return [*missing, (start, end)] if start < end else missing


def pull_prometheus(
    store: Store,
    catalog: Catalog,
    pull: Pull,
    start: datetime | None,
    end: datetime,
    now: datetime,
    *,
    again: bool = False,
) -> Iterator[SliceReport]:
    """Pull [start, end) but for what was pulled before, unless `again`; yield a report per slice.

    Without `start` it goes on where the last pull ended. Raises InputError when there was none, when
    `start` does not lie before `end`, or when an option or the selector is none, and ServiceError (with Retryable mixed in when trying again may help); the slice at which the service
    failed is a row of `pull_range`.
    """
    catalog.sources[pull.source].check_options(pull.options)
    if start is not None and start >= end:
        raise InputError(f"nothing lies from {start} to {end}: --from must be before --to")
    matchers = matchers_of(pull.selector)
    pulled = spans(store, pull, "pulled")
    if start is None:
        if not pulled:
            raise InputError("nothing has been pulled from there yet: say from when with --from")
        start = pulled[-1][1]
    if start >= end:
        return
    pull.server.metric_names(pull.selector, start, end)
    for span in [(start, end)] if again else gaps(pulled, start, end):
        yield from _pull_span(store, catalog, pull, matchers, span, now)


def _pull_span(
    store: Store, catalog: Catalog, pull: Pull, matchers: Sequence[Matcher], span: Span,
    now: datetime,
) -> Iterator[SliceReport]:  # fmt: skip
    """Slice by slice; they grow while answers are small, and halve when one is too large."""
    start, end = span
    width = FIRST_SLICE
    while start < end:
        until = min(start + width, end)
        try:
            answer = pull.server.read(matchers, start, until, ANSWER_BYTES)
        except AnswerTooLargeError as error:
            if until - start > SHORTEST_SLICE:
                width = max((until - start) / 2, SHORTEST_SLICE)
                continue
            reason = f"a second holds too much: narrow the selector ({error})"
            record(store, pull, "failed", (start, until), now, reason)
            yield SliceReport(start, until, "failed", message=reason)
        except ServiceUnreachableError as error:
            record(store, pull, "failed", (start, until), now, str(error))
            raise
        else:
            yield _load(store, catalog, pull, answer, (start, until), now)
            if unpacked_size(answer) < ANSWER_BYTES / 4:
                width = min(width * 2, LONGEST_SLICE)
        start = until


def _load(
    store: Store, catalog: Catalog, pull: Pull, answer: bytes, span: Span, now: datetime
) -> SliceReport:
    """Ingest an answer as the file that it would be, and note the time as pulled with its rows."""
    if unpacked_size(answer) <= EMPTY_BYTES:
        record(store, pull, "pulled", span, now)
        return SliceReport(*span, "empty")
    host = urlsplit(pull.server.url).netloc.replace(":", "-")
    name = f"{host}_{span[0]:%Y%m%dT%H%M%S}Z_{span[1]:%Y%m%dT%H%M%S}Z.read"
    scratch = store.root / "tmp"
    scratch.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pull-", dir=scratch) as folder:
        path = Path(folder) / name
        path.write_bytes(answer)
        (report,) = ingest(
            store, catalog, pull.source, [path], pull.options, {}, now,
            beside=lambda: note(store, pull, "pulled", span, now),
        )  # fmt: skip
    rows, repeats = report.row_count, report.repeat_count
    if report.state == "unchanged":  # nothing was written: the counts of its first reading
        record(store, pull, "pulled", span, now)
        rows, repeats = 0, rows + repeats
    store.settle(["pull_range"])
    return SliceReport(*span, "pulled", rows, repeats, report.reject_count, report.message)


def record(
    store: Store, pull: Keyed, status: str, span: Span, now: datetime, reason: str | None = None
) -> None:
    """Note a slice that gave no rows, in a transaction of its own."""
    store.commit(lambda: note(store, pull, status, span, now, reason))
    store.settle(["pull_range"])


def note(
    store: Store, pull: Keyed, status: str, span: Span, now: datetime, reason: str | None = None,
    cursor: str | None = None,
) -> None:  # fmt: skip
    """A slice in `pull_range`, inside a transaction: stretches that touch become one, failures inside it go."""
    mine = "(endpoint, selector, options) = ($1, $2, $3)"
    start, end = span
    if status == "pulled":
        touching = store.connection.execute(
            f"SELECT min(start_ts), max(end_ts) FROM lake.pull_range WHERE {mine} "
            "AND status = 'pulled' AND start_ts <= $5 AND end_ts >= $4",
            [*pull.key, start, end],
        ).fetchone()
        if touching and touching[0]:
            start, end = min(start, touching[0]), max(end, touching[1])
    store.connection.execute(
        f"DELETE FROM lake.pull_range WHERE {mine} AND start_ts >= $4 AND end_ts <= $5 "
        "AND (status = 'failed' OR status = $6)",
        [*pull.key, start, end, status],
    )
    row = (*pull.key, status, start, end, reason, now, cursor)
    frame = pl.DataFrame([row], schema=PULL_RANGE.polars_schema(), orient="row")
    with showing(store, "noted", frame):
        store.connection.execute("INSERT INTO lake.pull_range BY NAME FROM noted")
