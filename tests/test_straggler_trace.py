"""StragglerAnalysis traces: the published step times, order of rows, and any file at all."""

from __future__ import annotations

import json
from datetime import datetime
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetmark.source import Context, Parsed
from fleetmark.testing import parse_file

straggler_trace = import_module("fleetmark.ingest.collectives.straggler_trace").straggler_trace
TRACES = Path(__file__).parent.parent / "samples/collectives/straggler_whatif"
SCHEMA = {
    "dp_rank": pl.Int8(), "stage": pl.Int8(), "rank": pl.Int16(), "step": pl.Int64(),
    "optype": pl.String(), "start_ts": pl.Float32(), "duration": pl.Float32(),
}  # fmt: skip


def parse(frame: pl.DataFrame | pl.LazyFrame, **options: str) -> Parsed:
    defaults = {o.name: o.default for o in straggler_trace.options if o.default is not None}
    context = Context("trace-J1.parquet", defaults | {"job_id": "J1"} | options)
    parsed = straggler_trace.parse(frame.lazy(), context)
    assert isinstance(parsed, Parsed)
    return parsed


def steps(parsed: Parsed) -> pl.DataFrame:
    frame = parsed.tables["step_sample"]
    assert isinstance(frame, pl.DataFrame)
    return frame


@pytest.mark.parametrize("trace", ["AR", "ST"])
def test_step_lengths_are_the_published_ones(trace: str) -> None:
    """`step_t_base` of the authors' result files, float32: half a unit of it is 2e-6 s."""
    published = json.loads((TRACES / f"result-{trace}.json").read_text())["step_t_base"]
    rows = steps(parse_file(straggler_trace, TRACES / f"trace-{trace}.parquet"))
    ours = dict(rows.group_by("step").agg(pl.col("step_s").max()).iter_rows())
    assert {str(step) for step in ours} == set(published)
    assert all(abs(ours[int(step)] - seconds) < 4e-6 for step, seconds in published.items())


@pytest.mark.parametrize("trace", ["AR", "ST"])
def test_the_gap_between_ranks_is_the_tensor_parallel_size(trace: str) -> None:
    meta = (TRACES / f"meta-{trace}.yaml").read_text()
    size = int(meta.split("tp_size:")[1].split()[0])
    world = int(meta.split("world_size:")[1].split()[0])
    rows = steps(parse_file(straggler_trace, TRACES / f"trace-{trace}.parquet"))
    assert set(rows["gpu_count"]) == {size}
    assert rows["rank"].n_unique() * size == world


@pytest.mark.parametrize("trace", ["AR", "ST"])
def test_row_order_changes_no_bit(trace: str) -> None:
    frame = pl.read_parquet(TRACES / f"trace-{trace}.parquet")
    first = steps(parse(frame)).drop("line_no")
    for seed in range(3):
        shuffled = frame.sample(fraction=1, shuffle=True, seed=seed)
        assert steps(parse(shuffled)).drop("line_no").equals(first)


NUMBERS = st.one_of(
    st.floats(0, 100, width=32), st.floats(width=32), st.none(), st.sampled_from([-1.0, 1e30])
)
ROWS = st.tuples(
    st.one_of(st.integers(-1, 3), st.none()),
    st.integers(0, 3),
    st.one_of(st.integers(-1, 20), st.none()),
    st.one_of(st.integers(0, 5), st.integers(-(1 << 63), (1 << 63) - 1), st.none()),
    st.one_of(st.sampled_from(["forward-compute", "optimizer", "gc", "x-send"]), st.text()),
    NUMBERS,
    NUMBERS,
)


@given(rows=st.lists(ROWS, max_size=30), seed=st.integers(0, 100))
@settings(max_examples=150, deadline=None)
def test_every_row_is_summed_up_or_a_reject(rows: list[tuple[object, ...]], seed: int) -> None:
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    parsed = parse(frame)
    if not rows:
        assert parsed.rejects["reason"].to_list() == ["the trace holds no operation"]
        return
    if parsed.rejects["line_no"].to_list() == [0]:
        return
    assert steps(parsed)["op_count"].sum() + parsed.rejects.height == len(rows)
    again = parse(frame.sample(fraction=1, shuffle=True, seed=seed))
    assert steps(again).drop("line_no").equals(steps(parsed).drop("line_no"))


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_damaged_file_never_raises(data: st.DataObject) -> None:
    """The core turns Polars' own errors and panics into a reject; nothing else may come."""
    content = bytearray((TRACES / "trace-ST.parquet").read_bytes())
    tail = st.integers(1, 3000).map(lambda n: len(content) - n)
    for _ in range(data.draw(st.integers(1, 5))):
        place = data.draw(st.one_of(tail, st.integers(0, len(content) - 1)))
        content[place] = data.draw(st.integers(0, 255))
    try:
        parse(pl.scan_parquet(bytes(content)))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return


@pytest.mark.parametrize("name", ["dp_rank", "stage", "rank", "step", "optype", "duration"])
def test_a_wrong_schema_is_one_reject(name: str) -> None:
    frame = pl.DataFrame([(0, 0, 0, 1, "gc", 0.0, 1.0)], schema=SCHEMA, orient="row")
    assert parse(frame.drop(name)).rejects["reason"][0].startswith(f"no column {name}; ")
    other = frame.with_columns(pl.lit(value=True).alias(name))
    assert parse(other).rejects["reason"][0].startswith(f"column {name} is Boolean, not ")


def test_start_is_stated_in_any_zone_or_refused() -> None:
    frame = pl.DataFrame([(0, 0, 0, 1, "gc", 0.0, 1.0)], schema=SCHEMA, orient="row")
    assert steps(parse(frame))["time_basis"].to_list() == ["relative"]
    stated = steps(parse(frame, start_ts="2025-03-01T12:00:00+02:00"))
    assert stated["ts"].to_list() == [datetime(2025, 3, 1, 10)]  # noqa: DTZ001 - UTC without zone
    assert stated["time_basis"].to_list() == ["anchored"]
    for text in ("yesterday", "", "9999-12-31T23:59:59.999999"):
        assert parse(frame, start_ts=text).rejects["reason"][0].startswith("start_ts ")
