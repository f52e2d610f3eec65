"""Files that grow, rotate and are cut, and bodies that were posted: each record exactly once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.live.follow import follower_of
from fleetmark.live.inputs import Files, Webhook
from fleetmark.live.status import Looked
from fleetmark.pipeline import marks
from fleetmark.pipeline.files import Content
from fleetmark.settings import Settings
from fleetmark.store import Store
from fleetmark.testing import EPOCH
from tests.access_line import access_lines, request_id


def lines(start: int, end: int) -> str:
    return access_lines(start, end)


class Tailed:
    """A folder of logs, the look at it and the store."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.log = folder / "access.log"
        self.store = store
        one = Files(name="s3", source="s3_access", paths=[str(folder / "access.log*")])
        self._follower = follower_of([one], load_catalog(), Settings(store=store.root))

    def look(self) -> tuple[int, int]:
        looked = self._follower(self.store, ["s3"], EPOCH)["s3"]
        assert isinstance(looked, Looked), looked
        return looked.rows, looked.rejects

    def requests(self) -> list[str]:
        return [
            row[0]
            for row in self.store.connection.execute(
                "SELECT request_id FROM lake.storage_access ORDER BY 1"
            ).fetchall()
        ]


@pytest.fixture
def tailed(
    tmp_path: Path, new_store: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> Tailed:
    """Small files are gone on with like large ones."""
    monkeypatch.setattr(marks, "LEAST_BYTES", 1)
    monkeypatch.setattr(marks, "BLOCK_BYTES", 64)
    folder = tmp_path / "logs"
    folder.mkdir()
    return Tailed(folder, new_store("tailed"))


def expected(count: int) -> list[str]:
    return [request_id(n) for n in range(count)]


def test_nothing_there_yet_is_no_error(tailed: Tailed) -> None:
    assert tailed.look() == (0, 0)


def test_a_growing_file(tailed: Tailed) -> None:
    text = lines(0, 5)
    tailed.log.write_text(text[:-40])  # the last line is not whole yet
    assert tailed.look()[0] == 4
    tailed.log.write_text(text)
    assert tailed.look()[0] == 1
    assert tailed.look() == (0, 0)
    assert tailed.requests() == expected(5)


def test_rotation_by_renaming(tailed: Tailed) -> None:
    tailed.log.write_text(lines(0, 3))
    tailed.look()
    with tailed.log.open("a") as log:
        log.write(lines(3, 5))  # written after the look, before the rotation
    tailed.log.rename(tailed.log.with_suffix(".log.1"))
    tailed.log.write_text(lines(5, 7))
    tailed.look()
    assert tailed.requests() == expected(7)


def test_rotation_to_a_name_that_is_not_watched(tailed: Tailed) -> None:
    tailed.log.write_text(lines(0, 3))
    tailed.look()
    with tailed.log.open("a") as log:
        log.write(lines(3, 5))
    tailed.log.rename(tailed.log.parent / "old.log")
    tailed.look()
    assert tailed.requests() == expected(5)


def test_rotation_by_copying_and_cutting(tailed: Tailed) -> None:
    tailed.log.write_text(lines(0, 4))
    tailed.look()
    shutil.copy(tailed.log, tailed.log.with_suffix(".log.1"))
    with tailed.log.open("w") as log:  # the same inode, cut and longer than before
        log.write(lines(4, 12))
    tailed.look()
    assert tailed.requests() == expected(12)


def test_a_look_at_a_large_file_costs_what_is_new(
    tailed: Tailed, monkeypatch: pytest.MonkeyPatch
) -> None:
    tailed.log.write_text(lines(0, 8000))
    tailed.look()
    size, sizes, read = tailed.log.stat().st_size, [], Content.read

    def counted(content: Content, wanted: int) -> bytes:
        data = read(content, wanted)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(Content, "read", counted)
    for number in range(8000, 8003):
        with tailed.log.open("a") as log:
            log.write(lines(number, number + 1))
        sizes.clear()
        assert tailed.look()[0] == 1
        assert sum(sizes) < size / 4
    monkeypatch.undo()
    assert tailed.requests() == expected(8003)


def test_a_file_written_anew_behind_an_equal_beginning(tailed: Tailed) -> None:
    tailed.log.write_text(lines(0, 100))
    tailed.look()
    with tailed.log.open("w") as log:  # the same inode, longer, other lines from the sixtieth on
        log.write(lines(0, 60) + lines(200, 260))
    tailed.look()
    assert tailed.requests() == expected(100) + [request_id(n) for n in range(200, 260)]


def test_bodies_are_read_once_and_go(tmp_path: Path, new_store: Callable[[str], Store]) -> None:
    store = new_store("hooked")
    hook = Webhook(name="hook", source="s3_access")
    follower = follower_of([hook], load_catalog(), Settings(store=store.root))

    def rows() -> int:
        looked = follower(store, ["hook"], EPOCH)["hook"]
        assert isinstance(looked, Looked), looked
        return looked.rows

    spool = store.root / "spool" / "hook"
    spool.mkdir(parents=True)
    for n in range(3):
        (spool / f"{n:020}-x.body").write_text(lines(n, n + 1))
    (spool / "half.new").write_text("being written")
    assert rows() == 3
    assert [path.name for path in spool.iterdir()] == ["half.new"]
    (spool / f"{9:020}-x.body").write_text(lines(1, 2))  # a sender that tries again
    assert rows() == 0
