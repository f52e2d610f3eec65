"""The what-if replay against the published results of its authors, and on damaged traces."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute, parse_file, source_rows

CATALOG = load_catalog()
TRACES = Path(__file__).parent.parent / "samples/collectives/straggler_whatif"
EQUAL = 1e-6  # relative; measured 2e-8 at most
JOB = ("step_t_base", "step_t_nodelay", "step_t_noblk")
PARTS = {
    "dp_rank": "blocking_decompose_by_dp_rank",
    "pp_stage": "blocking_decompose_by_stage",
    "op": "blocking_decompose_by_optype",
}


@cache
def rows_of(trace: str) -> dict[str, pl.DataFrame]:
    source = CATALOG.sources["straggler_trace"]
    rows, rejects = source_rows(source, parse_file(source, TRACES / f"trace-{trace}.parquet"))
    assert rejects.is_empty()
    return {name: complete(CATALOG.tables[name], frame) for name, frame in rows.items()}


def replayed(trace: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    rows = rows_of(trace)
    inputs = {"trace_op": rows["trace_op"]}
    steps = compute(CATALOG, CATALOG.models["what_if_step"], inputs, {})
    inputs = {"what_if_step": steps, "step_sample": rows["step_sample"]}
    return steps, compute(CATALOG, CATALOG.models["what_if"], inputs, {})


def published(name: str) -> Any:
    return json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("trace", ["AR", "ST"])
def test_equal_to_the_published_results(trace: str) -> None:
    steps, jobs = replayed(trace)
    result = published(f"result-{trace}")
    whole = steps.filter(pl.col("part") == "job")
    for theirs, ours in zip(JOB, ("base_s", "no_delay_s", "ideal_s"), strict=True):
        got = {str(step): value for step, value in whole.select("step", ours).iter_rows()}
        assert got == pytest.approx(result[theirs], rel=EQUAL)
    job = jobs.filter(pl.col("part") == "job").row(0, named=True)
    assert job["slowdown_ratio"] == pytest.approx(result["blocking_slowdown"], rel=EQUAL)
    assert job["launch_ratio"] == pytest.approx(result["launch_slowdown"], rel=EQUAL)
    assert job["coverage_ratio"] == 1
    ideal_s = whole["ideal_s"][0]
    for part, key in PARTS.items():
        got = dict(
            jobs.filter(pl.col("part") == part).select("part_id", "slowdown_ratio").iter_rows()
        )
        assert got == pytest.approx(result[key], rel=EQUAL)
        by_step: dict[str, dict[str, float]] = {}
        for step, name, kept_s in (
            steps.filter(pl.col("part") == part).select("step", "part_id", "kept_s").iter_rows()
        ):
            by_step.setdefault(str(step), {})[name] = kept_s / ideal_s
        for step, theirs in result[f"{key}_per_step"].items():
            assert by_step[step] == pytest.approx(theirs, rel=EQUAL)


@pytest.mark.parametrize(("trace", "slowest", "last"), [("AR", "0", "3"), ("ST", "7", "3")])
def test_equal_to_the_published_explanations(trace: str, slowest: str, last: str) -> None:
    """M_W of the slowest 3 % of ranks and M_S of the last stage; which rank it is, they do not say."""
    _, jobs = replayed(trace)
    for part, name, file, key in (
        ("slowest_ranks", slowest, "mw", "Mw"),
        ("last_stage", last, "ms", "Ms"),
    ):
        row = jobs.filter(pl.col("part") == part).row(0, named=True)
        assert row["part_id"] == name
        assert row["explained_ratio"] == pytest.approx(published(f"{file}-{trace}")[key], abs=EQUAL)


def test_only_the_slow_worker_of_trace_ar_slows_its_job() -> None:
    _, jobs = replayed("AR")
    ranks = jobs.filter(pl.col("part") == "rank").sort("slowdown_ratio", descending=True)
    assert ranks["part_id"][0] == "0"
    assert ranks["slowdown_ratio"][0] > 1.9
    assert ranks["slowdown_ratio"][1] < 1.02
    assert len(ranks) == 16


def test_a_step_that_lost_an_operation_is_left_out_and_counted() -> None:
    rows = rows_of("ST")
    steps = rows["step_sample"]["step"].unique().sort()
    lost = (pl.col("step") == steps[3]) & (pl.col("rank") == 2) & (pl.col("op") == "optimizer")
    inputs = {"trace_op": rows["trace_op"].filter(~lost)}
    found = compute(CATALOG, CATALOG.models["what_if_step"], inputs, {}).filter(
        pl.col("part") == "job"
    )
    assert found.filter(pl.col("reason").is_not_null())["step"].to_list() == [steps[3]]
    assert found["no_delay_s"].null_count() == 1
