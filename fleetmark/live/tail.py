"""Files that grow, rotate and appear, and the bodies that the receiver spools."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from glob import glob
from pathlib import Path

from fleetmark.live.inputs import Input
from fleetmark.live.status import Looked
from fleetmark.pipeline.files import expand, shown
from fleetmark.pipeline.run import FileReport

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

    Only files whose size, time or inode changed since they were read are opened. A file that was moved
    away is followed by its inode within its folder, for what was written between look and move.
    `behind`: the last turn left something to read.
    """

    input: Input
    paths: Callable[[], list[Path]]
    behind: bool = False
    _seen: dict[Path, os.stat_result] = field(default_factory=dict)
    _moved: set[Path] = field(default_factory=set)
    _turn: dict[Path, os.stat_result] = field(default_factory=dict)
    _counts: dict[str, tuple[int, int]] = field(default_factory=dict)

    def turn(self, share: int) -> list[Path]:
        """What to read now, the oldest first: files of about `share` bytes, at least one."""
        there = _stats(self.paths())
        for path, before in list(self._seen.items()):
            now = there.get(path)
            if now is None or now.st_ino != before.st_ino:
                self._moved.update(_moved_to(path, before))
                del self._seen[path]
        waiting = _stats(self._moved)
        self._moved = waiting.keys() - there.keys()
        waiting |= {path: stat for path, stat in there.items() if self._is_new(path, stat)}
        self._turn, left = {}, share
        for path, stat in sorted(waiting.items(), key=lambda one: (one[1].st_mtime_ns, one[0])):
            if left <= 0:
                break
            self._turn[path] = stat
            known = self._seen.get(path)
            left -= max(1, stat.st_size - (known.st_size if known else 0))
        self.behind = len(self._turn) < len(waiting)
        listed = {shown(path) for path in (*there, *waiting)}
        self._counts = {path: counts for path, counts in self._counts.items() if path in listed}
        return list(self._turn)

    def took(self, reports: Iterable[FileReport]) -> Looked:
        """The turn is in the store; rows and rejects that it added."""
        rows = rejects = 0
        done = dict(self._turn)
        for report in reports:
            before = self._counts.get(report.path, (0, 0))
            if report.state != "unchanged":
                rows += max(0, report.row_count - before[0])
                rejects += max(0, report.reject_count - before[1])
            self._counts[report.path] = (report.row_count, report.reject_count)
            if not report.finished:
                done = {path: stat for path, stat in done.items() if shown(path) != report.path}
        self.behind |= len(done) < len(self._turn)
        self._settle(done)
        return Looked(rows, rejects)

    @property
    def known(self) -> Iterable[Path]:
        """Files that were read, or are being read."""
        return {**self._seen, **self._turn}

    def _settle(self, done: dict[Path, os.stat_result]) -> None:
        """These were read to their end."""
        self._seen |= {path: stat for path, stat in done.items() if path not in self._moved}
        self._moved -= done.keys()

    def _is_new(self, path: Path, stat: os.stat_result) -> bool:
        before = self._seen.get(path)
        return before is None or _key(before) != _key(stat)


class Spool(Tail):
    """Bodies that the receiver wrote, a file each; what has been read goes."""

    def _settle(self, done: dict[Path, os.stat_result]) -> None:
        for path in done:
            path.unlink(missing_ok=True)


def _stats(paths: Iterable[Path]) -> dict[Path, os.stat_result]:
    """What is there; a file that has gone since it was listed is not."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = path.stat()
    return found


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
