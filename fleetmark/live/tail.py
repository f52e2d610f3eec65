"""Files that grow, rotate and appear, and the bodies that the receiver spools."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from glob import glob
from pathlib import Path

from fleetmark.catalog import Catalog
from fleetmark.live.inputs import Input
from fleetmark.live.status import Looked
from fleetmark.pipeline.files import expand
from fleetmark.pipeline.marks import Marks
from fleetmark.pipeline.run import ingest
from fleetmark.settings import Settings
from fleetmark.store import Store

SPOOL = "spool"


def found_paths(patterns: list[str]) -> list[Path]:
    """Files that the patterns find now. None is no error: a log may appear later."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        for name in sorted(glob(pattern, recursive=True)):  # noqa: PTH207 - a pattern may begin at the root:
            found.update(dict.fromkeys(expand([Path(name)])))
    return list(found)


@dataclass
class Tail:
    """Files as they grow and rotate. A file is its content, so a renamed one is not read again.

    Only files whose size, time or inode changed since the last look are opened. A file that was moved
    away is followed by its inode within its folder, for what was written between look and move.
    """

    input: Input
    catalog: Catalog
    settings: Settings
    paths: Callable[[], list[Path]]
    _seen: dict[Path, os.stat_result] = field(default_factory=dict)
    _counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    _marks: Marks = field(default_factory=Marks)

    def __call__(self, store: Store, now: datetime) -> Looked:
        changed, stats = self._changed()
        rows = rejects = 0
        if changed:
            for report in ingest(
                store, self.catalog, self.input.source, changed, self.input.options,
                self.settings.sources, now, marks=self._marks,
            ):  # fmt: skip
                before = self._counts.get(report.path, (0, 0))
                if report.state != "unchanged":
                    rows += max(0, report.row_count - before[0])
                    rejects += max(0, report.reject_count - before[1])
                self._counts[report.path] = (report.row_count, report.reject_count)
        self._seen |= stats
        self._marks.forget_others(list(self._seen))
        return Looked(rows, rejects)

    def _changed(self) -> tuple[list[Path], dict[Path, os.stat_result]]:
        stats: dict[Path, os.stat_result] = {}
        changed: dict[Path, None] = {}
        for path in self.paths():
            try:
                stat = path.stat()
            except OSError:
                continue  # gone since it was listed
            stats[path] = stat
            before = self._seen.get(path)
            if before is None or _key(before) != _key(stat):
                changed[path] = None
            if before is not None and before.st_ino != stat.st_ino:
                changed.update(dict.fromkeys(_moved_to(path, before)))
        for path in self._seen.keys() - stats.keys():
            changed.update(dict.fromkeys(_moved_to(path, self._seen.pop(path))))
        return list(changed), stats


class Spool(Tail):
    """Bodies that the receiver wrote, a file each; what has been read goes."""

    def __call__(self, store: Store, now: datetime) -> Looked:
        looked = super().__call__(store, now)
        for path in self._seen:
            path.unlink(missing_ok=True)
            self._counts.pop(str(path), None)
        self._seen.clear()
        return looked


def _key(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _moved_to(path: Path, before: os.stat_result) -> Iterator[Path]:
    """The file that was `path`, under its new name in the same folder."""
    try:
        for entry in os.scandir(path.parent):
            if entry.inode() == before.st_ino and entry.is_file():
                yield Path(entry.path)
    except OSError:
        return
