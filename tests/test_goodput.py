"""The goodput ledger: it closes whatever the records say, and it agrees with published definitions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from importlib import import_module
from pathlib import Path

import duckdb
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fleetmark.model import Model
from fleetmark.pipeline.ranges import Range, cut_of
from fleetmark.testing import compute, differences, parse_file, source_rows
from tests.ledger_rows import (
    CATALOG,
    KEY,
    START,
    Rows,
    Spans,
    at,
    attempt,
    built,
    event,
    library_s,
    seconds,
    step,
)

SAMPLES = Path(__file__).parent.parent / "samples/training"


# What Google's library says in its own tests (ml-goodput-measurement, goodput_test.py): steps of 3 s
# behind a start-up of 5 s, and a disruption of 5 s after which the job goes on from an earlier step.
@pytest.mark.parametrize(("resumes_at", "kept_s"), [(None, 15), (2, 12), (0, 6)])
def test_agrees_with_googles_library(resumes_at: int | None, kept_s: float) -> None:
    steps = [step(n, 5 + 3 * n, 3) for n in range(5)]
    attempts = [attempt(0, 0, 20)]
    if resumes_at is not None:
        count = {2: 2, 0: 2}[resumes_at]
        attempts.append(attempt(30, 30, 35 + 3 * count))
        steps += [step(resumes_at + n, 35 + 3 * n, 3, attempt=2) for n in range(count)]
    done = built({"job_attempt": attempts, "train_step": steps})["goodput_segment"]
    assert library_s(done) == kept_s
    assert seconds(done)["init"] == 5


def test_every_class_has_its_seconds() -> None:
    """One attempt with an evaluation, a save, a slow step; a second that loads and repeats ten steps."""
    steps = [step(n, 100 + 10 * n + (60 if n > 50 else 0), 10) for n in range(1, 101)]
    steps[79] |= {"step_s": 25.0}
    for later in steps[80:]:
        later["ts"] += timedelta(seconds=15)
    ends_s = 100 + 10 * 101 + 60 + 15
    steps += [step(n, ends_s + 700 + 10 * (n - 90), 10, attempt=2) for n in range(91, 121)]
    events = [
        event("eval_start", 610), event("eval_stop", 650), event("checkpoint_save_start", 650),
        event("checkpoint_save_stop", 670, step=50),
        event("checkpoint_load_start", ends_s + 600), event("checkpoint_load_stop", ends_s + 690),
    ]  # fmt: skip
    attempts = [
        attempt(0, 0, ends_s + 320, "NODE_FAIL"),
        attempt(5_000, ends_s + 500, ends_s + 1_010),
    ]
    done = built({"job_attempt": attempts, "train_step": steps, "train_event": events})
    assert seconds(done["goodput_segment"]) == {
        "init": 110,
        "evaluation": 40,
        "checkpoint_save": 20,
        "productive": 900 + 300,
        "unexplained": 15,
        "lost_work": 100,
        "hang_detection": 320,
        "restart": 210 - 90,
        "checkpoint_load": 90,
    }


def day_by_day(model: Model, inputs: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """What the runner gets when it shows a model one day at a time."""
    rows = []
    for day in range(3):
        span = Range((START + timedelta(day)).date(), (START + timedelta(day + 1)).date())
        with duckdb.connect() as connection:
            cut = {}
            for name, rows_in in inputs.items():
                connection.register("f", rows_in.to_arrow())
                where = cut_of(CATALOG.tables[name], span, model.lookback)
                cut[name] = connection.sql(f"SELECT * FROM f WHERE {where}").pl()
        got = compute(CATALOG, model, cut, {})
        is_in = (
            pl.col(str(model.output.time)).dt.date().is_between(span.start, span.end, closed="left")
        )
        rows.append(got.filter(is_in))
    return pl.concat(rows)


moments = st.floats(-3_000, 90_000, allow_nan=False).map(lambda s: round(s, 6))
lengths = st.one_of(st.none(), st.floats(0.001, 4_000).map(lambda s: round(s, 6)))
names = st.sampled_from(
    [f"{kind}_{edge}" for edge in ("start", "stop")
     for kind in ("eval", "checkpoint_save", "checkpoint_load", "init", "data")]
    + ["job_start", "checkpoint_saved"]
)  # fmt: skip
steps = st.lists(
    st.builds(step, st.integers(0, 40), moments, lengths, st.sampled_from([1, 2])), max_size=25
)
events = st.lists(
    st.builds(lambda n, s, k: event(n, s, step=k), names, moments, st.integers(0, 40)), max_size=12
)
states = st.sampled_from(["COMPLETED", "PREEMPTED", "NODE_FAIL", "RUNNING", "TIMEOUT"])
spans = st.lists(st.tuples(moments, st.floats(0, 40_000), states, st.integers(1, 16)), max_size=4)


def check(examples: int) -> settings:
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],  # shrinking takes minutes
        suppress_health_check=[HealthCheck.too_slow],
    )


@check(5)
@given(steps, events, spans)
def test_the_ledger_closes_whatever_is_logged(steps: Rows, events: Rows, spans: Spans) -> None:
    closes(steps, events, spans)


@pytest.mark.long
@check(200)
@given(steps, events, spans)
def test_the_ledger_closes_in_many_more_cases(steps: Rows, events: Rows, spans: Spans) -> None:
    closes(steps, events, spans)


def closes(steps: Rows, events: Rows, spans: Spans) -> None:
    """Any order, overlap, gap or clock step; attempts of other sizes; half windows equal the whole."""
    free, attempts = -10_000.0, []
    for number, (start, length, state, gpus) in enumerate(sorted(spans)):
        start_s = max(start, free)
        free = start_s + length
        attempts.append(attempt(1_000 + number, start_s, free, state, gpus))
    done = built({"job_attempt": attempts, "train_step": steps, "train_event": events})
    segments = done["goodput_segment"].filter("is_scheduled")
    held_us = {
        row["attempt"]: (row["end_ts"] - row["start_ts"]) // timedelta(microseconds=1)
        for row in done["job_attempt"].iter_rows(named=True)
    }
    lasted = (pl.col("end_ts") - pl.col("start_ts")).dt.total_microseconds()
    for number, us in held_us.items():
        mine = segments.filter(pl.col("attempt") == number).sort("start_ts")
        assert mine.select(lasted.sum()).item() == us
        assert (mine["start_ts"][1:] == mine["end_ts"][:-1]).all()
        gpus = next(a["alloc_gpus"] for a in attempts if a["attempt"] == number)
        assert mine["gpu_s"].sum() == pytest.approx(us * gpus / 1e6)
    for name in ("train_run_day", "goodput_segment"):
        model = CATALOG.models[name]
        whole = done[name]
        inputs = {n: done[n] for n in model.inputs}
        in_reach = whole.filter(pl.col(str(model.output.time)).dt.date() >= START.date())
        assert differences(day_by_day(model, inputs), in_reach, 1e-9) == []


def test_simulated_jobs_are_owned_as_they_were() -> None:
    """One small cluster; the figures of the page are those of `fleetmark accuracy mfu`."""
    timeline = import_module("fleetmark.simulate.timeline")
    records = import_module("fleetmark.simulate.timeline_records")
    jobs = timeline.jobs(3, 1, 1)
    rows = records.tables(jobs, 3, timeline.START_S, timeline.START_S + timeline.DAY_S)
    tables = {
        n: f.to_dicts()
        for n, f in rows.items()
        if n in {"job_attempt", "train_step", "train_event"}
    }
    segments = built(tables)["goodput_segment"]
    got, held_s = seconds(segments), sum(seconds(segments).values())
    true: dict[str, float] = {}
    for own in timeline.owners(jobs[0]).values():
        for name, value in own.items():
            true[name] = true.get(name, 0.0) + value
    for name in ("productive", "lost_work", "evaluation", "checkpoint_save", "init"):
        assert got.get(name, 0.0) == pytest.approx(true.get(name, 0.0), abs=0.01 * held_s)
    assert library_s(segments) == pytest.approx(
        true["productive"] + true["slow"], abs=0.01 * held_s
    )


# MLPerf v5.1: length of the steps by the run (init left out) and by all that the log covers. The first
# step's excess over the ideal counts as init here, 1.4 s of the 405B run.
@pytest.mark.parametrize(
    ("name", "of_run", "of_all", "tolerance"),
    [
        ("tyche_ngpu512_llama31_405b_result_0.txt", 0.9758, 0.930, 0.001),
        ("uf_b200_n16_llama31_8b_result_1.txt", 0.984, 0.806, 0.006),
    ],
)
def test_mlperf_runs_close(name: str, of_run: float, of_all: float, tolerance: float) -> None:
    source = CATALOG.sources["mlperf"]
    rows, _ = source_rows(source, parse_file(source, SAMPLES / name))
    segments = built({n: f.to_dicts() for n, f in rows.items()})["goodput_segment"]
    all_s = sum(seconds(segments).values())
    run_s = all_s - seconds(segments)["init"]
    assert library_s(segments) / run_s == pytest.approx(of_run, abs=tolerance)
    assert library_s(segments) / all_s == pytest.approx(of_all, abs=tolerance)
    assert seconds(segments)["unexplained"] / all_s < 0.01


def test_a_trace_from_the_middle_says_nothing_of_the_ends() -> None:
    """Records of ranks over two minutes of five hours: neither start-up nor hang can be told."""
    parts = [
        {
            **KEY,
            "attempt": 1,
            "step": 500 + n,
            "ts": at(6_000 + 10 * n),
            "rank_count": 8,
            "step_s": 10.0,
        }
        for n in range(12)
    ]
    done = built({"job_attempt": [attempt(0, 0, 18_000, "FAILED")], "job_step_parts": parts})
    assert seconds(done["goodput_segment"]) == {"productive": 120, "unexplained": 18_000 - 120}
