"""The benchmarks: what counts as reached, how growth is found, what is kept, and that speed has not collapsed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

# Folders meet only at tables: the benchmarks are looked up as the command does it.
workload: Any = import_module("fleetmark.benchmarks.workload")
rounds: Any = import_module("fleetmark.benchmarks.rounds")
results: Any = import_module("fleetmark.benchmarks.results")

SCALE = 0.01
# Multiples of REF in the same run: about a third of what a quiet machine shows at this size, so that
# only a loss of speed by a factor trips them.
FLOORS = {"s3_access": 0.15, "exposition": 0.4}


@pytest.mark.parametrize(
    ("value", "at_most", "word"),
    [(1.3, False, "stretch"), (0.9, False, "required"), (0.7, False, "missed"),
     (0.7, True, "stretch"), (0.9, True, "missed"), (None, False, "-")],
)  # fmt: skip
def test_a_goal_is_reached_at_its_bounds(value: float | None, at_most: bool, word: str) -> None:
    required, aim = (0.8, 0.75) if at_most else (0.8, 1.2)
    assert workload.Goal("x", required, aim, at_most=at_most).reached(value) == word


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_growth_is_the_exponent_whatever_the_start_costs(exponent: float) -> None:
    cpu = [0.3 + 0.05 * size**exponent for size in (10, 40, 160)]
    assert rounds.growth(cpu) == pytest.approx(exponent, abs=0.005)


def test_growth_is_unknown_where_more_work_took_no_longer() -> None:
    assert rounds.growth([1.0, 1.0, 1.2]) is None


def test_a_workload_measured_again_replaces_its_own_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(results, "PAGE", tmp_path / "benchmarks.md")
    goal = rounds.Reached("x REF", 1.0, 0.9, 1.1, 0.8, 1.2, at_most=False, met="required")
    made = rounds.Result("a", "what a is", "lines", 10, 0.25, 3, 5.0, 2.0, 2.1, 5 << 20, None, 1.0,
                         (), {}, (goal,))  # fmt: skip
    one = results.stamped(made, "2026-01-01")
    for name, day in (("a", "2026-01-01"), ("b", "2026-01-02"), ("gone", "2026-01-02")):
        results.keep({**one, "workload": name, "day": day}, ["a", "b", "gone"])
    results.keep({**one, "day": "2026-01-03"}, ["a", "b"])
    assert {k: v["day"] for k, v in results.entries().items()} == {"a": "2026-01-03", "b": "2026-01-02"}  # fmt: skip
    page = results.PAGE.read_text(encoding="utf-8")
    assert "| a | x REF | **1** (0.9 to 1.1) | ≥ 0.8 / ≥ 1.2 | required |" in page


def test_a_goal_says_when_its_peer_is_not_here(tmp_path: Path) -> None:
    absent = workload.Workload("peer", "", "lines", lambda f, _: f, len, peer="no_such_module_here")
    assert not rounds.present(absent, tmp_path)


@pytest.mark.parametrize("name", FLOORS)
def test_speed_has_not_collapsed(name: str, tmp_path: Path) -> None:
    """One pair on this machine, now; no wall clock and no stored figure."""
    found = workload.find()
    reference = found[workload.REFERENCE]
    base = rounds.fresh(reference, reference.prepare(tmp_path, SCALE))
    run = rounds.fresh(found[name], found[name].prepare(tmp_path, SCALE))
    assert workload.speed(run, base) > FLOORS[name]
