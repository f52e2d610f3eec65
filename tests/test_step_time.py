"""Step times of real runs: no alarm on healthy ones, injected slowdowns found, BLOOM's in time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute, parse_file, source_rows

CATALOG = load_catalog()
LOGS = Path(__file__).parent.parent / "samples/training"
MIXTRAL = "mixtral_8x7b_alltoall_tp2pp4ep4_release_sm.golden_values_dev_dgx_h100.json"
HEALTHY = {
    "gpt3_15b_8t_release_sm.golden_values_lts_dgx_a100.json": ("megatron_golden", 127),
    MIXTRAL: ("megatron_golden", 263),
    "tyche_ngpu512_llama31_405b_result_0.txt": ("mlperf", 288),
    "uf_b200_n16_llama31_8b_result_1.txt": ("mlperf", 108),
}


@cache
def steps(name: str, source: str) -> pl.DataFrame:
    rows, rejects = source_rows(
        CATALOG.sources[source], parse_file(CATALOG.sources[source], LOGS / name)
    )
    assert rejects.is_empty()
    return rows["train_step"]


def slowdowns(series: pl.DataFrame) -> pl.DataFrame:
    inputs = {
        "train_step_run": complete(CATALOG.tables["train_step_run"], series),
        "step_sample": CATALOG.tables["step_sample"].empty(),
    }
    return compute(CATALOG, CATALOG.models["step_time_change"], inputs, {})


def slowed_from(series: pl.DataFrame, percent: int, starts: range) -> Iterator[pl.DataFrame]:
    """Copies of a run, each a job of its own, longer from one of its logged steps on."""
    ordered = series.sort("step").with_row_index("place")
    for start in starts:
        slower = pl.when(pl.col("place") >= start).then(1 + percent / 100).otherwise(1)
        yield ordered.with_columns(
            pl.lit(f"{start}").alias("job_id"), pl.col("step_s") * slower
        ).drop("place")


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_runs_raise_no_alarm(name: str) -> None:
    source, count = HEALTHY[name]
    series = steps(name, source)
    assert series.height == count
    assert slowdowns(series).is_empty()


@pytest.mark.parametrize("name", [n for n in HEALTHY if n != MIXTRAL])
def test_five_percent_is_found_in_stable_runs_at_the_second_slow_step(name: str) -> None:
    series = steps(name, HEALTHY[name][0])
    starts = range(40, series.height - 20, 5)
    found = slowdowns(pl.concat(slowed_from(series, 5, starts)))
    assert found["job_id"].n_unique() == len(starts)
    assert found["delay_count"].median() == 2


def test_a_slow_start_does_not_hide_ten_percent() -> None:
    """Mixtral's first 20 samples are 12 % slower than the rest: a baseline of them hid everything.

    What is left are slowdowns that set in while it warms up: they keep the run at the level it had.
    """
    series = steps(MIXTRAL, "megatron_golden")
    starts = range(40, series.height - 20)
    found = slowdowns(pl.concat(slowed_from(series, 10, starts)))
    missed = {str(n) for n in starts} - set(found["job_id"])
    assert found["job_id"].n_unique() >= 0.9 * len(starts)
    assert missed <= {str(n) for n in range(40, 55)}


def test_iteration_lines_among_the_output_of_many_ranks() -> None:
    """The 5 and 3 iteration lines of two real logs; figures read off the files."""
    source = CATALOG.sources["train_log"]
    for name, lengths, tflops in (
        ("superbench_megatron_deepspeed.log", [76.0153, 75.254, 75.2496, 75.1824, 74.4949], 147.61),
        ("bigscience_meg_gpt2_perf_n16.out", [155.4838, 129.0288, 128.8915], None),
    ):
        parsed = parse_file(source, LOGS / name, job_id="J")
        rows, rejects = source_rows(source, parsed)
        assert rejects.is_empty()
        assert rows["train_step"]["step_s"].to_list() == pytest.approx(lengths)
        assert rows["train_step"]["logged_tflops"][0] == tflops
