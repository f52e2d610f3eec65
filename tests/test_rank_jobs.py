"""Simulated jobs whose ranks record their steps: the records hold together, and sick ranks are found."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import polars as pl
import pytest

from fleetmark.accuracy import rank_communication, rank_monitor, rank_simulated
from fleetmark.catalog import load_catalog
from fleetmark.testing import compute, differences, parse_file, source_rows

CATALOG = load_catalog()
simulate = import_module("fleetmark.simulate")
minutes = import_module("fleetmark.simulate.minutes")
truth = import_module("fleetmark.simulate.rank_truth")
SEED, NODES, DAYS = 7, 2, 1


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day of two nodes as logs."""
    out = tmp_path_factory.mktemp("ranks")
    simulate.run("ranks", out, SEED, NODES, DAYS, logs=("slurm", "kernel", "steps"))
    return out


def read(raw: Path, source: str, pattern: str) -> pl.DataFrame:
    """What a source makes of raw files as rows of its first table; none may be refused."""
    frames = []
    for path in sorted((raw / "raw").glob(pattern)):
        rows, refused = source_rows(
            CATALOG.sources[source], parse_file(CATALOG.sources[source], path, cluster="sim")
        )
        assert refused.is_empty(), refused.row(0)
        frames.append(rows[CATALOG.sources[source].outputs[0].name].drop("file_id", "line_no"))
    return pl.concat(frames)


def test_records_read_back_equal_those_made_directly(raw: Path) -> None:
    """The accuracy figures rest on the direct way."""
    world = simulate.build_world("ranks", SEED, NODES, DAYS)
    made = minutes.tables(world, SEED)
    steps = read(raw, "step_record", "steps/*.jsonl")
    assert steps.height > 10_000
    want = made["step_sample"].cast({n: steps.schema[n] for n in made["step_sample"].columns})
    keys = ["job_id", "attempt", "rank", "step"]
    assert steps.sort(keys).select(want.columns).equals(want.sort(keys))
    jobs = read(raw, "sacct", "slurm/*.txt")
    held = compute(CATALOG, CATALOG.models["gpu_allocation"], {"job_attempt": jobs}, {})
    assert (
        differences(made["gpu_allocation"], held.select(made["gpu_allocation"].columns), 1e-9) == []
    )


def test_truth_is_written(raw: Path) -> None:
    faults = pl.read_csv(raw / "truth" / "rank_fault.csv")
    assert faults["rank"].len() > 0
    assert set(faults["cause"]) <= set(truth.RIGHT)
    assert "warm_up" in pl.read_csv(raw / "truth" / "twin.csv")["kind"].to_list()


def test_everybody_waits_for_the_slowest() -> None:
    """Own time and waiting make up the step, which is the same for all; the slowest waits least."""
    world = simulate.build_world("ranks", SEED, NODES, DAYS)
    samples = minutes.readings(world, SEED)
    steps = minutes.tables(world, SEED, samples)["step_sample"]
    step = ["job_id", "attempt", "step"]
    spread = steps.group_by(step).agg(
        (pl.col("step_s").max() - pl.col("step_s").min()).alias("spread_s"),
        (pl.col("rank").sort_by("communication_s").first()).alias("least_waiting"),
        (pl.col("communication_s").min() > 0).alias("is_positive"),
    )
    assert spread["spread_s"].max() == 0
    assert spread["is_positive"].all()
    for fault in world.rank_faults:
        found = truth.slow_ranks(world, steps, samples).filter(pl.col("cause") == fault.cause)
        assert found["slower"].max() == pytest.approx(fault.slower, abs=0.02)


def test_sick_ranks_are_found_and_nobody_else(tmp_path: Path) -> None:
    """Four nodes and two days: all that are 15 % slow or more, whatever the cause."""
    got = rank_simulated.outcome(11, 4, 2, tmp_path)
    large = got.faults.filter(pl.col("slower") > 0.15)
    assert large.height >= 2
    assert large["delay_s"].null_count() == 0
    assert got.false.is_empty()


def test_slow_links_and_hangs_are_found_and_their_twins_are_not(tmp_path: Path) -> None:
    """One job of each cause and of each benign twin."""
    got = rank_communication.figures(7, 8, tmp_path / "communication")
    for cause in rank_communication.KINDS:
        assert got[f"recall_{cause}"].value == 1
    assert got["communication_twins_accused"].value == 0
    assert got["hang_cause_right"].value == 1


def test_hangs_are_found_from_the_monitors_counts_and_their_twins_are_not(tmp_path: Path) -> None:
    """One job of each cause and of each benign twin; a stuck device has nobody to name."""
    got = rank_monitor.figures(7, 9, tmp_path / "monitor")
    for cause in rank_monitor.CAUSES:
        assert got[f"recall_monitor_{cause}"].value == 1
    assert got["precision_monitor_hang"].n == 4
    assert got["monitor_cause_right"].value == 1
    assert got["monitor_twins_accused"].value == 0
