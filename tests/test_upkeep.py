"""Tending, copying and examining a store changes no figure, and finds what is broken."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError, SettingsError
from fleetmark.evidence.ledger import Ledger
from fleetmark.pipeline.build import build
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store
from fleetmark.summary import summarise
from fleetmark.testing import EPOCH
from fleetmark.upkeep.backup import back_up
from fleetmark.upkeep.doctor import Check, examine
from fleetmark.upkeep.tend import tend
from tests.access_line import access_line

NOW = EPOCH.replace(year=2026, month=2, day=20)
TABLES = ("storage_access", "checkpoint_read_day")


def read(store: Store, folder: Path, number: int, day: int = 6) -> None:
    path = folder / f"access-{number}.log"
    path.write_text(access_line(number, day=day) + "\n")
    list(ingest(store, load_catalog(), "s3_access", [path], {}, {}, EPOCH))


def hashes(store: Store) -> dict[str, tuple[int, str]]:
    catalog = load_catalog()
    return {
        s.name: (s.row_count, s.content_hash)
        for s in summarise(store, [catalog.tables[name] for name in TABLES])
    }


@pytest.fixture
def store(new_store: Callable[[str], Store], tmp_path: Path) -> Store:
    opened = new_store("kept")
    for number in range(8):
        read(opened, tmp_path, number, day=6 + number % 2)
    return opened


def test_merging_changes_no_row_and_no_model_runs_again(store: Store, tmp_path: Path) -> None:
    build(store, load_catalog(), {})
    before, files = hashes(store), len(store.files("storage_access"))
    done = tend(store, load_catalog(), {}, NOW)
    assert done.files_merged > 0
    assert len(store.files("storage_access")) == 2 < files  # a file a day
    assert hashes(store) == before
    assert not any(built.ranges for built in build(store, load_catalog(), {}))
    read(store, tmp_path, 99)  # the changed day is still known
    assert any(built.ranges for built in build(store, load_catalog(), {}))


def test_files_that_nothing_refers_to_go_after_a_while(store: Store) -> None:
    orphan = store.root / "data" / "main" / "storage_access" / "left-by-a-kill.parquet"
    shutil.copy(store.files("storage_access")[0][0], orphan)
    tend(store, load_catalog(), {}, NOW.replace(year=2020))
    assert orphan.exists()  # it may belong to a commit in flight
    before = hashes(store)
    done = tend(store, load_catalog(), {}, NOW.replace(year=2999))
    assert not orphan.exists()
    assert (done.orphans_removed > 0, hashes(store)) == (True, before)


def test_days_past_their_keeping_go_and_models_follow(store: Store) -> None:
    build(store, load_catalog(), {})
    done = tend(store, load_catalog(), {"storage_access": 13}, NOW)  # up to 7 February goes
    assert done.rows_expired == 4
    assert hashes(store)["storage_access"][0] == 4
    build(store, load_catalog(), {})
    days = store.connection.execute(
        "SELECT DISTINCT day_ts FROM lake.checkpoint_read_day"
    ).fetchall()
    assert all(day >= NOW - timedelta(days=13) for (day,) in days)


@pytest.mark.parametrize(
    ("keep", "message"),
    [
        ({"storage_acess": 3}, "no table storage_acess"),
        ({"inventory_gpu": 3}, "inventory_gpu"),
        ({"goodput_day": 3}, "computed"),
        ({"storage_access": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_kept_by_days(keep: dict[str, int], message: str, store: Store) -> None:
    if "inventory_gpu" in keep and load_catalog().tables["inventory_gpu"].time is not None:
        pytest.skip("inventories have a time")
    with pytest.raises(SettingsError, match=message):
        tend(store, load_catalog(), keep, NOW)


def test_a_backup_is_a_store(store: Store, tmp_path: Path) -> None:
    target = tmp_path / "copy"
    first = back_up(store, target)
    assert (first.files, first.files > 0) == (first.files_copied, True)
    with Store(target, read_only=True) as copy:
        assert hashes(copy) == hashes(store)
    with Ledger(store.root, lambda: EPOCH) as ledger:
        ledger.append("query", {"who": "a"})
        kept = ledger.head()
    read(store, tmp_path, 50)
    again = back_up(store, target)
    assert 0 < again.files_copied < again.files
    with Ledger(target, lambda: EPOCH) as copied:
        assert copied.head() == kept
    with Store(target) as copy:  # restored: it can be written to
        assert hashes(copy) == hashes(store)
        read(copy, tmp_path, 51)
        assert states(examine(copy, load_catalog(), NOW))["files"] == "fine"


def test_a_backup_takes_no_folder_of_others(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("x")
    with Store(tmp_path / "other") as other:
        other.ensure(load_catalog().tables.values())
    before = (tmp_path / "other" / "catalog.sqlite").read_bytes()
    inside = store.root / "data" / "copy"
    others = (tmp_path / "mine", tmp_path / "mine" / "letter.txt", tmp_path / "other")
    for folder in (*others, store.root, inside):
        with pytest.raises(InputError):
            back_up(store, folder)
    assert (tmp_path / "other" / "catalog.sqlite").read_bytes() == before
    assert not inside.exists()
    assert (tmp_path / "mine" / "letter.txt").read_text() == "x"


def states(checks: list[Check]) -> dict[str, str]:
    return {check.check: check.state for check in checks}


def test_a_whole_store_is_fine(store: Store) -> None:
    found = states(examine(store, load_catalog(), NOW))
    assert {found[name] for name in ("catalog", "files", "contracts")} == {"fine"}
    assert "bad" not in found.values()


def test_broken_and_missing_files_are_found(store: Store) -> None:
    (first, _), (second, _), *_ = store.files("storage_access")
    Path(first).write_bytes(Path(first).read_bytes()[:100])
    Path(second).unlink()
    check = next(c for c in examine(store, load_catalog(), NOW) if c.check == "files")
    assert check.state == "bad"
    assert "1 missing, 1 unreadable" in check.found


def test_gaps_losses_and_rejects_are_found(store: Store, tmp_path: Path) -> None:
    (tmp_path / "bad.log").write_text("nonsense\n" * 3)
    list(ingest(store, load_catalog(), "s3_access", [tmp_path / "bad.log"], {}, {}, EPOCH))
    store.connection.execute(
        "INSERT INTO lake.pull_range BY NAME SELECT 'http://p' AS endpoint, 'up' AS selector, "
        "'{}' AS options, 'failed' AS status, $1::TIMESTAMP AS start_ts, $1::TIMESTAMP AS end_ts, "
        "'no answer' AS reason, $1::TIMESTAMP AS pulled_at",
        [EPOCH],
    )
    store.connection.execute(
        "INSERT INTO lake.stream_position VALUES ('in', 't', 0, 's3_access', 'f', 9, 1, 1, 0, 0, 0, 8, $1)",
        [EPOCH],
    )
    found = {check.check: check for check in examine(store, load_catalog(), NOW)}
    assert found["gaps of pulls"].found.startswith(
        "1: http://p from 2026" if EPOCH.year == 2026 else "1: http://p from"
    )
    assert "in: 8 of t" in found["lost messages"].found
    assert "3 of 11 lines" in found["rejects of s3_access"].found


def test_a_file_read_again_with_what_it_lacked_is_no_reject(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "sacct.txt"
    file.write_text(
        "JobID|State|Submit|Start|End\n1|COMPLETED|2026-03-01T00:00:00|2026-03-01T00:01:00|2026-03-01T01:00:00\n"
    )
    list(ingest(store, load_catalog(), "sacct", [file], {}, {}, EPOCH))
    checks = [check.check for check in examine(store, load_catalog(), NOW)]
    assert "rejects of sacct" in checks
    list(
        ingest(
            store, load_catalog(), "sacct", [file], {"tz": "UTC"}, {}, EPOCH + timedelta(minutes=1)
        )
    )
    checks = [check.check for check in examine(store, load_catalog(), NOW)]
    assert "rejects of sacct" not in checks
