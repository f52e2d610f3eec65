"""Ingest paths: choose the source of each file, load it, and say what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fleetmark.catalog import Catalog
from fleetmark.errors import InputError
from fleetmark.pipeline.files import Content, expand
from fleetmark.pipeline.load import load_file, options_of
from fleetmark.source import Source
from fleetmark.store import Store
from fleetmark.table import literal, quote

SNIFF_BYTES = 64 << 10
AUTO = "auto"


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
) -> Iterator[FileReport]:
    """Load every file of `paths` with the source `name`, or the one that knows it (`auto`).

    Raises InputError before anything is read when a path, the source or a stated option is
    wrong. In folders only files that look like the source's are taken, the others reported.
    """
    _check(catalog, name, stated)
    files = expand(paths)
    if not files:
        raise InputError(f"no files in {', '.join(map(str, paths))}")
    named = {path for path in paths if path.is_file()}
    touched: set[str] = set()
    for path in files:
        source, message = _choose(catalog, name, path, by_name=path in named)
        if source is None:
            yield FileReport(str(path), name, "ignored", message=message)
            continue
        options = options_of(source, path, stated, settings.get(source.name, {}))
        record, state = load_file(store, source, path, options, now, on_bytes)
        touched |= {t.name for t in source.outputs}
        yield FileReport(
            str(path), source.name, state, record.line_count, record.row_count,
            record.repeat_count, record.reject_count, record.skipped_count,
            _problem(store, record.file_id, record.reject_count, record.row_count),
        )  # fmt: skip
    store.settle([*sorted(touched), "reject", "ingest_file"])


def size_of(paths: Sequence[Path]) -> int:
    """Bytes on disk of all files, for the progress bar."""
    return sum(path.stat().st_size for path in expand(paths))


def _check(catalog: Catalog, name: str, stated: Mapping[str, str]) -> None:
    if name != AUTO and name not in catalog.sources:
        raise InputError(f"no source {name}; there are auto, {', '.join(catalog.sources)}")
    chosen = catalog.sources.values() if name == AUTO else [catalog.sources[name]]
    known = {option.name for source in chosen for option in source.options}
    if unknown := set(stated) - known:
        raise InputError(
            f"{name} has no option {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}"
        )


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
        return None, "no source knows this format; name one: fleetmark ingest SOURCE FILE"
    return None, f"could be {', '.join(s.name for s in fitting)}; name one"


def _problem(store: Store, file_id: str, reject_count: int, row_count: int) -> str:
    """Why a file is not fine: the first reject with its line, and how many there are."""
    if not reject_count:
        return ""
    row = store.connection.execute(
        f"SELECT line_no, reason FROM lake.{quote('reject')} WHERE file_id = {literal(file_id)} "
        "ORDER BY line_no LIMIT 1"
    ).fetchone()
    if row is None:
        return ""
    where = f"line {row[0]}: " if row[0] else ""
    more = f" ({reject_count} in all: SELECT * FROM reject)" if reject_count > 1 else ""
    nothing = "nothing could be read: " if not row_count else ""
    return f"{nothing}{where}{row[1]}{more}"
