"""One answer of a scheduler on its way into the store: read as the file that it would be."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from fleetmark.catalog import Catalog
from fleetmark.pipeline.commit import BATCH_BYTES
from fleetmark.pipeline.known import facts_json
from fleetmark.pipeline.pull import Span
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked of whom, with which options: names its rows in `pull_range`."""

    endpoint: str
    selector: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> list[str]:
        return [self.endpoint, self.selector, facts_json(self.options)]


@dataclass(frozen=True, slots=True)
class Answer:
    """A document that the source `source` reads; `options` are facts about it."""

    source: str
    content: bytes
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartReport:
    """What became of one answer. `what`: what was asked for."""

    what: str
    start_ts: datetime
    end_ts: datetime
    row_count: int = 0
    repeat_count: int = 0
    reject_count: int = 0
    message: str = ""

    @property
    def fine(self) -> bool:
        return not self.message


def load_answer(
    store: Store, catalog: Catalog, answer: Answer, options: Mapping[str, str], span: Span,
    now: datetime, what: str, note_cursor: Callable[[], None] | None = None,
) -> PartReport:  # fmt: skip
    """Ingest an answer; what `note_cursor` writes is committed with its rows.

    Options that the source does not have are passed over: answers of several sources share them. Rows
    of an answer too large for one transaction come first: a kill in between only asks once more.
    """
    scratch = store.root / "tmp"
    scratch.mkdir(exist_ok=True)
    known = {option.name for option in catalog.sources[answer.source].options}
    stated = {n: v for n, v in {**options, **answer.options}.items() if n in known}
    noted = False

    def beside() -> None:
        nonlocal noted
        if note_cursor is not None and len(answer.content) < BATCH_BYTES:
            note_cursor()
            noted = True

    with tempfile.TemporaryDirectory(prefix="pull-", dir=scratch) as folder:
        path = Path(folder) / f"{answer.source}_{span[0]:%Y%m%dT%H%M%S}Z_{span[1]:%Y%m%dT%H%M%S}Z"
        path.write_bytes(answer.content)
        (report,) = ingest(store, catalog, answer.source, [path], stated, {}, now, beside=beside)
    if note_cursor is not None and not noted:
        store.commit(note_cursor)
    store.settle(["pull_range"])
    rows, repeats = report.row_count, report.repeat_count
    if report.state == "unchanged":  # the counts of its first reading
        rows, repeats = 0, rows + repeats
    return PartReport(what, *span, rows, repeats, report.reject_count, report.message)
