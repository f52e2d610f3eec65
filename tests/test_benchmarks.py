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
speed: Any = import_module("fleetmark.accuracy.speed")

SCALE = 0.01
# Multiples of REF in the same run: about a third of what a quiet machine shows at this size, so that
# only a loss of speed by a factor trips them.
FLOORS = {"s3_access": 0.15, "exposition": 0.4}


FOUND = workload.find()
# Those that start commands and servers, and those of one size.
HEAVY = {
    "api_start", "arrow_stream", "catalog_start", "cli_start", "contracts", "dashboards", "day", "day_access",
    "day_telemetry", "exposition_ingest", "first_ingest", "large_file", "one_process", "planner", "s3_access_ingest", "storage",
    "two_processes", "what_if", "what_if_large",
}  # fmt: skip
# Of a trace there must be a whole step.
TINY = {"kineto": 0.05}
OWN = [
    pytest.param(name, marks=[pytest.mark.long] if name in HEAVY else [])
    for name, one in FOUND.items()
    if one.peer is None and name != workload.REFERENCE
]


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


def test_pages_are_those_of_the_committed_results() -> None:
    kept = results.entries()
    assert results.PAGE.read_text(encoding="utf-8") == results.page(kept)
    scaling = results.SCALING.read_text(encoding="utf-8")
    assert scaling == results.sized(scaling, kept)


def test_a_goal_says_when_its_peer_is_not_here(tmp_path: Path) -> None:
    absent = workload.Workload("peer", "", "lines", lambda f, _: f, len, peer="no_such_module_here")
    assert not rounds.present(absent, tmp_path)


def test_speed_has_not_collapsed(tmp_path: Path) -> None:
    """Ratios of one round on this machine, now; no wall clock and no stored figure."""
    reference = FOUND[workload.REFERENCE]
    base = rounds.fresh(reference, reference.prepare(tmp_path, SCALE))
    for name, floor in FLOORS.items():
        run = rounds.fresh(FOUND[name], FOUND[name].prepare(tmp_path, SCALE))
        assert workload.speed(run, base) > floor, name


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Workloads of one file share their input, as they do in a run."""
    return tmp_path_factory.mktemp("inputs")


@pytest.mark.parametrize("name", OWN)
def test_a_workload_runs_at_a_tiny_size(name: str, inputs: Path) -> None:
    """Here and now: inputs are made, values are checked, every goal has what it needs."""
    one = FOUND[name]
    run = workload.measure(one, one.prepare(inputs, TINY.get(name, 0.0005)))
    assert run.units > 0
    for goal in one.goals:
        assert goal.beside in FOUND
        assert goal.of(run, run) >= 0


def test_every_figure_of_speed_is_a_goal_of_a_workload() -> None:
    for source in speed.FIGURES.values():
        goals = FOUND[source.workload].goals or (workload.Goal(speed.REF),)
        assert source.goal in {goal.figure for goal in goals}, source


def test_figures_of_speed_are_made_of_the_goals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every workload at 2 of everything: multiples of REF become shares of a peer's CPU."""

    def compare(one: Any, *_: Any) -> Any:
        goals = [
            rounds.Reached(g.figure, 2.0, 1.6, 2.5, None, None, at_most=False, met="-")
            for g in one.goals or (workload.Goal(speed.REF),)
        ]
        return rounds.Result(one.name, "", "", 1, 1.0, 3, 1.0, 1.0, 1.0, 1 << 29, None, 1.05, (), {}, tuple(goals))  # fmt: skip

    monkeypatch.setattr(rounds, "compare", compare)
    monkeypatch.setattr(speed, "LINES", 1_000)
    found = speed.measured(1, tmp_path)
    assert found["s3_access_lost_lines"].value == 0
    assert found["s3_access_ref"].value == 2.0
    what_if = found["what_if_cpu"]
    assert (what_if.low, what_if.value, what_if.high) == pytest.approx((0.076, 0.095, 0.11875))
    assert found["peak_memory_gib"].value == 0.5
    assert found["scaling_exponent"].value == 1.05
