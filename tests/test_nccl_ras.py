"""Answers of NCCL's monitor: damage anywhere is refused or counted, never raised."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.source import Context

SOURCE = load_catalog().sources["nccl_ras"]
CASES = Path(__file__).parent / "cases/sources/nccl_ras"
OPTIONS = {"cluster": "c", "job_id": "j", "attempt": "1", "tz": "UTC"}
PIECES = (b'"', b"{", b"[", b"null", b"-1", b"1e400", b"99999999999999999999", b"true", b"\\ud800")


@pytest.mark.parametrize("name", ["json_and_monitor", "text_snapshots"])
def test_damage_never_raises(name: str) -> None:
    whole = (CASES / name / "input.txt").read_bytes()
    chance = random.Random(7)  # noqa: S311 - seeded damage, no secret
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(damaged))
            damaged[at : at + chance.randint(0, 40)] = chance.choice(PIECES)
        parsed = SOURCE.parse(bytes(damaged), Context("x", OPTIONS))  # type: ignore[arg-type]  # a document
        assert parsed.skipped >= 0


@pytest.mark.parametrize("name", ["json_and_monitor", "text_snapshots"])
def test_a_cut_answer_adds_no_rank(name: str) -> None:
    whole = (CASES / name / "input.txt").read_bytes()
    full = SOURCE.parse(whole, Context("x", OPTIONS))  # type: ignore[arg-type]  # a document
    most = full.tables["rank_map"].lazy().collect().height
    for end in range(0, len(whole), 97):
        parsed = SOURCE.parse(whole[:end], Context("x", OPTIONS))  # type: ignore[arg-type]  # a document
        tables = parsed.tables
        if tables:
            assert tables["rank_map"].lazy().collect().height <= most
