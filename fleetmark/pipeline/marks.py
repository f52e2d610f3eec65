"""How far a growing file was read, so that the next look need not hash it from its start.

Kept in memory by whoever looks again and again. A mark counts only while the file still holds what it held:
that is asked of blocks spread over all of it, so a file that was cut, replaced or written anew is read from
its start. A change of a few bytes within what was read long ago can stay unseen until the process starts again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fleetmark.pipeline.files import Content

if TYPE_CHECKING:
    from hashlib import _Hash

# A smaller file is hashed in less time than its blocks are compared in.
LEAST_BYTES = 8 << 20
BLOCK_BYTES = 64 << 10
BLOCKS = 16


@dataclass(frozen=True, slots=True)
class Position:
    """How far into the unpacked content, and the hash of everything before."""

    size: int = 0
    digest: _Hash = field(default_factory=hashlib.sha256)

    def plus(self, data: bytes) -> Position:
        digest = self.digest.copy()
        digest.update(data)
        return Position(self.size + len(data), digest)


@dataclass
class Marks:
    """Marks by device and inode, with the hash of the blocks they are told by."""

    _kept: dict[tuple[int, int], tuple[Position, str]] = field(default_factory=dict)

    def of(self, path: Path) -> Position | None:
        """How far this file was read, if it still begins with that."""
        position, blocks = self._kept.get(_key(path), (None, ""))
        if position is None or path.stat().st_size < position.size:
            return None
        return position if _blocks(path, position.size) == blocks else None

    def keep(self, path: Path, position: Position) -> None:
        """Remember how far this file was read. Packed files cannot be gone on with and have no mark."""
        if position.size < LEAST_BYTES:
            return
        content = Content(path)
        content.close()
        if content.is_plain:
            self._kept[_key(path)] = (position, _blocks(path, position.size))

    def forget_others(self, paths: list[Path]) -> None:
        """Keep marks of these files alone."""
        there = {_key(path) for path in paths if path.exists()} if self._kept else set()
        self._kept = {key: mark for key, mark in self._kept.items() if key in there}


def _key(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino


def _blocks(path: Path, size: int) -> str:
    """Hash of blocks from the first to the last of the file's first `size` bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for number in range(BLOCKS):
            file.seek((size - BLOCK_BYTES) * number // (BLOCKS - 1))
            digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()
