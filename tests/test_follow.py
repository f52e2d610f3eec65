"""Rounds over many inputs: one commit, a share for each, and one that fails holds up no other."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import FleetmarkError, InputError, StoreError
from fleetmark.live import follow
from fleetmark.live.follow import Follower, follower_of
from fleetmark.live.inputs import Files
from fleetmark.live.status import Looked
from fleetmark.pipeline import lines, run
from fleetmark.settings import Settings
from fleetmark.store import Store
from fleetmark.testing import EPOCH
from tests.access_line import access_lines, request_id

NAMES = ("a", "b", "c")


class Fleet:
    """Three inputs, each with a file of its own, and facts of its own."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder, self.store = folder, store
        inputs = [
            Files(
                name=name, source="s3_access", paths=[str(folder / f"{name}.log")],
                options={"cluster": name},
            )
            for name in NAMES
        ]  # fmt: skip
        self.follower: Follower = follower_of(inputs, load_catalog(), Settings(store=store.root))

    def write(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.log"
        path.write_text(text)
        return path

    def rows(self) -> dict[str, int | FleetmarkError | OSError | duckdb.Error]:
        """A round: rows of each input, or what went wrong."""
        found = self.follower(self.store, NAMES, EPOCH)
        return {n: one.rows if isinstance(one, Looked) else one for n, one in found.items()}

    def requests(self) -> list[str]:
        return [
            row[0]
            for row in self.store.connection.execute(
                "SELECT request_id FROM lake.storage_access ORDER BY 1"
            ).fetchall()
        ]


@pytest.fixture
def fleet(tmp_path: Path, new_store: Callable[[str], Store]) -> Fleet:
    folder = tmp_path / "logs"
    folder.mkdir()
    return Fleet(folder, new_store("followed"))


def expected(count: int) -> list[str]:
    return [request_id(n) for n in range(count)]


def test_a_round_is_one_commit_even_of_files_that_begin_alike(fleet: Fleet) -> None:
    for name in NAMES:
        fleet.write(name, access_lines(0, 5))
    before = fleet.store.snapshot()
    assert fleet.rows() == {"a": 5, "b": 5, "c": 5}  # the cluster is part of the key
    assert fleet.store.snapshot() == before + 1
    assert fleet.requests() == sorted(3 * expected(5))


def test_one_with_much_to_read_gets_its_share(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 4096)
    monkeypatch.setattr(follow, "LEAST_BYTES", 8000)  # two chunks, less a line
    monkeypatch.setattr(follow, "ROUND_BYTES", 1)
    size = fleet.write("a", access_lines(0, 500)).stat().st_size
    fleet.write("b", access_lines(500, 503))
    first = fleet.rows()
    assert first["b"] == 3
    assert first["c"] == 0
    assert first["a"] == pytest.approx(500 * 8192 / size, abs=500 * 4096 / size)
    assert fleet.follower.behind("a")
    assert not fleet.follower.behind("b")
    rounds = 1
    while fleet.follower.behind("a"):
        fleet.rows()
        rounds += 1
    assert rounds == pytest.approx(size / 8192, abs=1)
    assert fleet.requests() == expected(503)
    assert fleet.rows() == {"a": 0, "b": 0, "c": 0}


def test_the_oldest_files_go_first(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LEAST_BYTES", 1)
    monkeypatch.setattr(follow, "ROUND_BYTES", 1)
    paths = [fleet.write(name, access_lines(n, n + 1)) for n, name in enumerate("xyz")]
    one = Files(name="all", source="s3_access", paths=[str(p) for p in paths])
    follower = follower_of([one], load_catalog(), Settings(store=fleet.store.root))
    for count in (1, 2, 3):
        assert isinstance(follower(fleet.store, ["all"], EPOCH)["all"], Looked)
        assert fleet.requests() == expected(count)
        assert follower.behind("all") == (count < 3)


def test_one_that_fails_is_read_apart(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = run._choose

    def gone(catalog: object, name: str, path: Path, *, by_name: bool) -> object:
        if path.name == "b.log":
            raise InputError("b.log: no such file or folder")
        return choose(catalog, name, path, by_name=by_name)  # type: ignore[arg-type]  # passed on

    for n, name in enumerate(NAMES):
        fleet.write(name, access_lines(n, n + 1))
    monkeypatch.setattr(run, "_choose", gone)
    found = fleet.rows()
    assert (found["a"], found["c"]) == (1, 1)
    assert str(found["b"]) == "b.log: no such file or folder"
    monkeypatch.undo()
    assert fleet.rows() == {"a": 0, "b": 1, "c": 0}
    assert fleet.requests() == expected(3)


def test_what_was_moved_away_while_the_store_refused_is_not_lost(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fleet.write("a", access_lines(0, 2))
    fleet.rows()
    with log.open("a") as out:
        out.write(access_lines(2, 4))
    log.rename(log.with_name("old"))  # a name that is not watched

    def full(*_: object) -> None:
        raise StoreError("the store refused a write: no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "commit", full)
        assert isinstance(fleet.rows()["a"], StoreError)
    fleet.rows()
    assert fleet.requests() == expected(4)


def test_a_clock_that_steps_back_loses_nothing(fleet: Fleet) -> None:
    log = fleet.write("a", access_lines(0, 2))
    fleet.rows()
    with log.open("a") as out:
        out.write(access_lines(2, 4))
    earlier = fleet.follower(fleet.store, ["a"], EPOCH - timedelta(days=400))["a"]
    assert isinstance(earlier, Looked)
    assert earlier.rows == 2
    assert fleet.requests() == expected(4)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "fleetmark", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("no right to mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_told_and_recovers(small_disk: Path, tmp_path: Path) -> None:
    """The disk is really full: what was not committed is read again when there is room."""
    logs = tmp_path / "logs"
    logs.mkdir()
    ballast = small_disk / "ballast"
    with Store(small_disk / "store", memory_mb=256) as store:
        store.ensure(load_catalog().tables.values())
        fleet = Fleet(logs, store)
        fleet.write("a", access_lines(0, 3))
        assert fleet.rows()["a"] == 3
        with ballast.open("wb", buffering=0) as out, suppress(OSError):
            while True:
                out.write(bytes(4096))
        assert shutil.disk_usage(small_disk).free < 4096
        fleet.write("a", access_lines(0, 2000))
        fleet.write("b", access_lines(2000, 2003))
        refused = fleet.rows()
        assert isinstance(refused["a"], StoreError | duckdb.Error)
        assert isinstance(refused["b"], StoreError | duckdb.Error)
        ballast.unlink()
        assert fleet.rows() == {"a": 1997, "b": 3, "c": 0}
        assert fleet.requests() == expected(2003)
