"""The evidence ledger: whatever is changed in it is found, and where."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from fleetmark.cli import main
from fleetmark.evidence import Head, Ledger
from fleetmark.evidence.ledger import FILE, GENESIS

NOW = datetime(2026, 11, 30, 12)  # noqa: DTZ001 - UTC without zone, as everywhere


def clock() -> datetime:
    return NOW


def filled(root: Path, *, key: bytes = b"") -> Head:
    with Ledger(root, clock, key=key) as ledger:
        for n in range(5):
            head = ledger.append("query", {"who": "a", "row_count": n})
    return head


def faults(root: Path, *, key: bytes = b"", noted: Head | None = None) -> list[int]:
    with Ledger(root, clock, key=key) as ledger:
        return [fault.number for fault in ledger.verify(noted)]


def meddle(root: Path, *statements: str) -> None:
    with sqlite3.connect(root / FILE) as sqlite:
        for statement in statements:
            sqlite.execute(statement)
    sqlite.close()


def test_a_ledger_that_nobody_touched_verifies(tmp_path: Path) -> None:
    head = filled(tmp_path)
    assert faults(tmp_path, noted=head) == []
    with Ledger(tmp_path, clock) as ledger:
        assert ledger.head() == head
        assert [e.number for e in ledger.entries(after=3)] == [4, 5]
        assert next(ledger.entries()).previous == GENESIS


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ('UPDATE entry SET body = \'{"row_count":9,"who":"a"}\' WHERE number = 3', [3]),
        ("UPDATE entry SET at = '2026-11-30T12:00:01Z' WHERE number = 3", [3]),
        ("UPDATE entry SET kind = 'alert' WHERE number = 1", [1]),
        ("UPDATE entry SET hash = previous WHERE number = 3", [3, 4]),
        ("DELETE FROM entry WHERE number = 2", [3]),
        ("DELETE FROM entry WHERE number = 1", [2]),
        ("DELETE FROM entry WHERE number > 3", [0]),
        ("DELETE FROM entry", [0]),
        ("UPDATE head SET number = 4", [0]),
    ],
)
def test_every_change_is_found_where_it_was_made(
    change: str, found: list[int], tmp_path: Path
) -> None:
    filled(tmp_path)
    meddle(tmp_path, change)
    assert faults(tmp_path) == found


def test_two_entries_that_change_places_are_found(tmp_path: Path) -> None:
    filled(tmp_path)
    meddle(
        tmp_path,
        "UPDATE entry SET number = 9 WHERE number = 2",
        "UPDATE entry SET number = 2 WHERE number = 3",
        "UPDATE entry SET number = 3 WHERE number = 9",
    )
    assert faults(tmp_path)[0] == 2


def test_a_cut_with_a_forged_head_needs_a_noted_head(tmp_path: Path) -> None:
    """The whole limit of a chain in one file, and what lifts it."""
    noted = filled(tmp_path)
    meddle(
        tmp_path,
        "DELETE FROM entry WHERE number > 3",
        "UPDATE head SET number = 3, hash = (SELECT hash FROM entry WHERE number = 3)",
    )
    assert faults(tmp_path) == []
    assert faults(tmp_path, noted=noted) == [0]


def test_a_chain_built_anew_without_the_key_is_found(tmp_path: Path) -> None:
    filled(tmp_path)
    assert faults(tmp_path, key=b"kept elsewhere") == [1, 2, 3, 4, 5]
    (tmp_path / "keyed").mkdir()
    filled(tmp_path / "keyed", key=b"kept elsewhere")
    assert faults(tmp_path / "keyed", key=b"kept elsewhere") == []


def test_several_writers_share_one_chain(tmp_path: Path) -> None:
    def write() -> None:
        with Ledger(tmp_path, clock) as ledger:
            for _ in range(20):
                ledger.append("alert", {"text": "é"})

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Ledger(tmp_path, clock) as ledger:
        assert ledger.head().number == 80
        assert ledger.verify() == []


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    def invoke(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["evidence", *arguments, "--store", str(tmp_path)])
        return done.exit_code, done.output

    return invoke


def test_the_command_verifies_and_exports(
    tmp_path: Path, run: Callable[..., tuple[int, str]]
) -> None:
    assert run("verify")[0] == 2
    head = filled(tmp_path)
    assert run("head") == (0, f"5:{head.hash}\n")
    assert run("verify", "--noted", f"5:{head.hash}") == (0, "5 entries, unbroken\n")
    assert run("verify", "--noted", "5:00")[0] == 1
    code, text = run("export", "--after", "4")
    assert (code, text.count("\n")) == (0, 1)
    assert '"row_count": 4' in text
    meddle(tmp_path, "DELETE FROM entry WHERE number = 2")
    code, text = run("verify")
    assert code == 1
    assert "entry 3" in text
