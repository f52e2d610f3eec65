"""Ingest paths: choose the source of each file, load it, and say what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError, SettingsError, SupersededError
from fleetmark.pipeline.commit import Batch, FileLoad
from fleetmark.pipeline.files import Content, expand, shown
from fleetmark.pipeline.known import FileRecord, Found, begins_like, find_all
from fleetmark.pipeline.load import load_file, options_of
from fleetmark.pipeline.marks import Marks
from fleetmark.source import Source, check_options, wrong_value
from fleetmark.store import Store

SNIFF_BYTES = 64 << 10
AUTO = "auto"
# Files looked up in the store at once.
SLICE = 500
_Job = tuple[Source, Mapping[str, str], Path]


@dataclass(frozen=True, slots=True)
class Asked:
    """Paths to be read with one source (or `auto`), and the options stated of them."""

    source: str
    paths: Sequence[Path]
    stated: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Turn:
    """What one who looks at growing files again and again keeps, and how much of a file a look may read.

    `marks` spares hashing files from their start; of a plain text file no more than about `most_bytes` are read,
    and its report is not `finished`.
    """

    marks: Marks
    most_bytes: int


@dataclass(frozen=True, slots=True)
class FileReport:
    """What became of one file. `state`: read, resumed, unchanged, or ignored (not this format)."""

    path: str
    source: str
    state: str
    line_count: int = 0
    row_count: int = 0
    repeat_count: int = 0
    reject_count: int = 0
    skipped_count: int = 0
    message: str = ""
    finished: bool = True

    @property
    def fine(self) -> bool:
        return not self.message


def ingest(
    store: Store,
    catalog: Catalog,
    name: str,
    paths: Sequence[Path],
    stated: Mapping[str, str],
    settings: Mapping[str, Mapping[str, str]],
    now: datetime,
    on_bytes: Callable[[int], None] = lambda count: None,
    beside: Callable[[], None] = lambda: None,
) -> Iterator[FileReport]:
    """Load every file of `paths` with the source `name`, or the one that knows it (`auto`).

    `beside` runs in each transaction that writes rows of them.

    Raises InputError before anything is read when a path, the source or a stated option is
    wrong. In folders only files that look like the source's are taken, the others reported.
    """
    asked = [Asked(name, paths, stated)]
    for _, report in ingest_together(store, catalog, asked, settings, now, on_bytes, beside):
        yield report


def ingest_together(
    store: Store,
    catalog: Catalog,
    asked: Sequence[Asked],
    settings: Mapping[str, Mapping[str, str]],
    now: datetime,
    on_bytes: Callable[[int], None] = lambda count: None,
    beside: Callable[[], None] = lambda: None,
    turn: Turn | None = None,
) -> Iterator[tuple[Asked, FileReport]]:
    """The same for several sources and options at once: their chunks share transactions."""
    wanted: list[tuple[Asked, Path, bool]] = []
    for one in asked:
        _check(catalog, one.source, one.stated, settings)
        files = expand(one.paths)
        if not files:
            raise InputError(f"no files in {', '.join(map(shown, one.paths))}")
        named = {path for path in one.paths if path.is_file()}
        wanted += [(one, path, path in named) for path in files]
    touched = ingest_packaged(store, catalog, now)
    for start in range(0, len(wanted), SLICE):
        jobs: list[_Job] = []
        owners: list[Asked] = []
        for one, path, by_name in wanted[start : start + SLICE]:
            source, message = _choose(catalog, one.source, path, by_name=by_name)
            if source is None:
                yield one, FileReport(shown(path), one.source, "ignored", message=message)
                continue
            touched |= {t.name for t in source.outputs}
            options = options_of(source, path, one.stated, settings.get(source.name, {}))
            jobs.append((source, options, path))
            owners.append(one)
        yield from zip(owners, _load(store, now, jobs, on_bytes, beside, turn), strict=True)
    store.settle([*sorted(touched), "reject", "ingest_file"])


def ingest_packaged(store: Store, catalog: Catalog, now: datetime) -> set[str]:
    """Read the files that ship with Fleetmark, where the store lacks them; the tables they fill."""
    jobs = [
        (source, options_of(source, path, {}, {}), path)
        for source in catalog.sources.values()
        for path in source.packaged
    ]
    touched: set[str] = set()
    if jobs and not all(found.unchanged for found in _found(store, jobs)):
        list(_load(store, now, jobs, lambda count: None))
        touched = {t.name for source, _, _ in jobs for t in source.outputs}
    return touched


def _load(
    store: Store,
    now: datetime,
    jobs: Sequence[_Job],
    on_bytes: Callable[[int], None] = lambda count: None,
    beside: Callable[[], None] = lambda: None,
    turn: Turn | None = None,
) -> Iterator[FileReport]:
    """Load a slice of files, and again where another ingest was first: each time it is further."""
    states: dict[Path, str] = {}
    records: list[FileRecord] | None = None
    while records is None:
        with suppress(SupersededError):
            records = _load_once(Batch(store, now, beside), jobs, on_bytes, states, turn)
    first = _commonest_rejects(store, [r.file_id for r in records if r.reject_count])
    for record, (_, _, path) in zip(records, jobs, strict=True):
        yield FileReport(
            record.path, record.source, states[path], record.line_count, record.row_count,
            record.repeat_count, record.reject_count, record.skipped_count,
            _problem(record, first.get(record.file_id)), record.finished,
        )  # fmt: skip


def _load_once(
    batch: Batch, jobs: Sequence[_Job], on_bytes: Callable[[int], None], states: dict[Path, str],
    turn: Turn | None,
) -> list[FileRecord]:  # fmt: skip
    """Their records. A file that may go on from one before it is looked up after it.

    `states` keeps what was first said of each path. Raises SupersededError.
    """
    records: list[FileRecord] = []
    loads: list[FileLoad] = []
    heads: dict[tuple[str, str], set[tuple[int, str]]] = {}
    marks = turn.marks if turn else None
    for job, early in zip(jobs, _found(batch.store, jobs, marks), strict=True):
        source, options, path = job
        found = early
        # Only a file of the same source and facts can be the beginning of another.
        alike = heads.setdefault((source.name, early.record.facts), set())
        if not early.head or begins_like(early.head, alike):
            batch.flush()
            (found,) = _found(batch.store, [job], marks)
        alike.add((found.record.head_bytes, found.record.head_sha256))
        record, state = found.record, "unchanged"
        if not found.unchanged:
            state = "resumed" if record.content_bytes else "read"
            most_bytes = turn.most_bytes if turn else None
            loads.append(load_file(batch, source, path, options, found, on_bytes, most_bytes))
        states.setdefault(path, state)
        records.append(record)
    batch.flush()
    if marks is not None:
        for load in loads:
            marks.keep(load.path, load.settled)
    return records


def _found(store: Store, jobs: Sequence[_Job], marks: Marks | None = None) -> list[Found]:
    return find_all(store, [(source.name, options, path) for source, options, path in jobs], marks)


def size_of(paths: Sequence[Path]) -> int:
    """Bytes on disk of all files, for the progress bar."""
    return sum(path.stat().st_size for path in expand(paths))


def _check(
    catalog: Catalog,
    name: str,
    stated: Mapping[str, str],
    settings: Mapping[str, Mapping[str, str]],
) -> None:
    if name != AUTO and name not in catalog.sources:
        raise InputError(f"no source {name}; there are auto, {', '.join(catalog.sources)}")
    check_settings(catalog, settings)
    chosen = catalog.sources.values() if name == AUTO else [catalog.sources[name]]
    check_options(name, (option for source in chosen for option in source.options), stated)
    for option, value in stated.items():
        if problem := wrong_value(option, value):
            raise InputError(f"--set {option}={value}: {value!r} {problem}")


def check_settings(catalog: Catalog, settings: Mapping[str, Mapping[str, str]]) -> None:
    """Raise SettingsError for options of a source that does not exist or does not have them."""
    for name, values in settings.items():
        if name not in catalog.sources:
            raise SettingsError(
                f"[sources.{name}]: no such source; there are {', '.join(catalog.sources)}"
            )
        known = {option.name for option in catalog.sources[name].options}
        if unknown := set(values) - known:
            raise SettingsError(
                f"[sources.{name}] has no option {', '.join(sorted(unknown))}; it has "
                f"{', '.join(sorted(known))}"
            )
        for option, value in values.items():
            if problem := wrong_value(option, value):
                raise SettingsError(f"[sources.{name}] {option}: {value!r} {problem}")


def _choose(catalog: Catalog, name: str, path: Path, *, by_name: bool) -> tuple[Source | None, str]:
    if name != AUTO and by_name:
        return catalog.sources[name], ""
    content = Content(path)
    try:
        head = content.read(SNIFF_BYTES)
    finally:
        content.close()
    if name != AUTO:
        source = catalog.sources[name]
        looks = not head or source.sniff(head, path.name)
        return (source, "") if looks else (None, f"does not look like {name}; name it to read it")
    fitting = [s for s in catalog.sources.values() if head and s.sniff(head, path.name)]
    if len(fitting) == 1:
        return fitting[0], ""
    if not fitting:
        unknown = "no source knows this format; name one: fleetmark ingest SOURCE FILE"
        return None, content.damage or unknown
    return None, f"could be {', '.join(s.name for s in fitting)}; name one"


def _commonest_rejects(store: Store, file_ids: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Per file the reason that most of its lines were refused for, and the first of these lines."""
    if not file_ids:
        return {}
    rows = store.connection.execute(
        "SELECT file_id, arg_max((line_no, reason), (lines, -line_no)) FROM ("
        "SELECT file_id, reason, count(*) AS lines, min(line_no) AS line_no FROM lake.reject "
        "WHERE file_id IN (SELECT unnest($1)) GROUP BY ALL) GROUP BY file_id",
        [list(file_ids)],
    ).fetchall()
    return {file_id: (first[0], first[1]) for file_id, first in rows}


def _problem(record: FileRecord, first: tuple[int, str] | None) -> str:
    """Why a file is not fine: its commonest reason with the first such line, and how many rejects there are."""
    if first is None:
        return ""
    line_no, reason = first
    where = f"line {line_no}: " if line_no else ""
    count = record.reject_count
    more = f" ({count} in all: SELECT * FROM reject)" if count > 1 else ""
    nothing = "" if record.row_count + record.repeat_count else "nothing could be read: "
    return f"{nothing}{where}{reason}{more}"
