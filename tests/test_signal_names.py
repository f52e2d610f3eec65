"""Metamorphic proof of GPU telemetry: a name, a unit or one bad sample changes nothing but itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from fleetmark.catalog import load_catalog
from fleetmark.source import Context
from fleetmark.testing import complete, compute

# By name: type checkers cannot follow the mapping of top-level folders into the package.
SIGNALS: Any = import_module("fleetmark.ingest.telemetry._signals").SIGNALS
CATALOG = load_catalog()
START = 1_774_008_000
STEP_S = 15
SCRAPES = 10
SAMPLE = CATALOG.tables["gpu_sample"]
# Signals of a GPU, that is columns of gpu_sample.
OF_GPU = [signal for signal in SIGNALS if signal.column in SAMPLE.column_names]


@dataclass(frozen=True, slots=True)
class Reading:
    """One sample: which scrape, GPU (0 or 1) and signal, and the value in the registry's unit."""

    scrape: int
    gpu: int
    signal: Any
    value: float


def level_of(signal: Any, number: int) -> tuple[float, float]:
    """A plausible value that every exporter can print, and a step that a counter may take."""
    quantum = max(10.0**-signal.decimals, *signal.names.values())
    top = min(signal.max, 1000 * quantum)
    share = 0.1 + 0.4 * (number * 37 % 101) / 101
    return round(max(1, round(share * top / quantum)) * quantum, signal.decimals), quantum


def readings() -> list[Reading]:
    """Every signal of the registry on two GPUs over ten scrapes; counters rise by the scrape."""
    found = []
    for gpu in range(2):
        for number, signal in enumerate(OF_GPU):
            level, step = level_of(signal, number + gpu)
            for scrape in range(SCRAPES):
                rise = scrape * step if signal.kind == "counter" else 0
                found.append(Reading(scrape, gpu, signal, round(level + rise, signal.decimals)))
    return found


def printed(number: float) -> str:
    """As an exporter prints it: no noise behind the sixth decimal."""
    return f"{number:.6f}".rstrip("0").rstrip(".")


def line(reading: Reading, generation: int = 0, text: str | None = None, labels: str = "") -> str:
    """A sample as exporters of a generation print it: the signal's name of that number (or its last)."""
    names = list(reading.signal.names)
    name = names[min(generation, len(names) - 1)]
    number = text or printed(reading.value / reading.signal.names[name])
    gpu = f'gpu="{reading.gpu}",UUID="GPU-{reading.gpu}",modelName="H100",Hostname="h"{labels}'
    return f"{name}{{{gpu}}} {number}"


def pages(found: Iterable[Reading], print_one: Callable[[Reading], list[str]]) -> list[str]:
    """Lines of a file of pages, each reading as `print_one` prints it."""
    lines: dict[int, list[str]] = {}
    for reading in found:
        lines.setdefault(reading.scrape, []).extend(print_one(reading))
    return [
        text
        for scrape in sorted(lines)
        for text in (f"# fleetmark scrape ts={START + STEP_S * scrape}", *lines[scrape])
    ]


def tables(lines: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """gpu_sample and gpu_minute of pages."""
    frame = pl.DataFrame(
        {"line_no": range(1, len(lines) + 1), "text": lines},
        schema={"line_no": pl.Int64(), "text": pl.String()},
    )
    source = CATALOG.sources["dcgm_exporter"]
    parsed = source.parse(frame, Context("x", {"cluster": "c"}))  # type: ignore[arg-type]  # lines
    assert parsed.rejects.is_empty(), parsed.rejects
    rows = complete(SAMPLE, parsed.tables["gpu_sample"].lazy().collect())
    sample = rows.cast(SAMPLE.polars_schema())  # type: ignore[arg-type]  # a schema is one
    minute = compute(CATALOG, CATALOG.models["gpu_minute"], {"gpu_sample": sample}, {})
    keys = ["gpu_uuid", "mig_instance"]
    return sample.drop("file_id", "line_no").sort(*keys, "ts"), minute.sort(*keys, "minute_ts")


def same(found: Sequence[pl.DataFrame], want: Sequence[pl.DataFrame]) -> None:
    for ours, theirs in zip(found, want, strict=True):
        assert_frame_equal(ours, theirs)


READINGS = readings()
PLAIN = tables(pages(READINGS, lambda reading: [line(reading)]))
QUICK = settings(deadline=None, max_examples=8)
PLACES = st.tuples(st.integers(0, SCRAPES - 1), st.integers(0, 1), st.sampled_from(OF_GPU))
SENTINELS = {"2147483634": "not_supported", "9223372036854775792": "blank", "NaN": "not_a_number",
             "4294967295": "out_of_range"}  # fmt: skip


def test_every_signal_is_measured() -> None:
    sample, _ = PLAIN
    assert sample.height == 2 * SCRAPES
    assert sample.select(s.column for s in OF_GPU).null_count().row(0) == (0,) * len(OF_GPU)
    assert sample["quality"].list.len().sum() == 0


@pytest.mark.parametrize("generation", range(1, max(len(s.names) for s in OF_GPU)))
def test_every_name_of_a_signal_gives_the_same_tables(generation: int) -> None:
    """1.x, classic, 4.6 and base-unit names, and those of other exporters, each in its own unit."""
    twin = pages(READINGS, lambda reading: [line(reading, generation)])
    assert twin != pages(READINGS, lambda reading: [line(reading)])
    same(tables(twin), PLAIN)


@cache
def other_columns(signal: Any) -> list[str]:
    """Columns of gpu_minute in which a signal has no part: those that stay when it is left out."""
    without = [reading for reading in READINGS if reading.signal is not signal]
    _, minute = tables(pages(without, lambda reading: [line(reading)]))
    counts = {"flaw_count", "counter_reset_count"}
    return [c for c in minute.columns if minute[c].equals(PLAIN[1][c]) and c not in counts]


@QUICK
@given(PLACES, st.sampled_from(sorted(SENTINELS)))
def test_a_value_that_is_none_empties_its_cell_and_nothing_else(
    place: tuple[int, int, Any], text: str
) -> None:
    scrape, gpu, signal = place
    if float(text) * next(iter(signal.names.values())) <= signal.max:
        text = "-1000000"  # this signal can rightly be so large
    at = (scrape, gpu, signal)
    sample, minute = tables(pages(
        READINGS,
        lambda r: [line(r, text=text if (r.scrape, r.gpu, r.signal) == at else None)],
    ))  # fmt: skip
    row = gpu * SCRAPES + scrape
    reason = SENTINELS.get(text, "out_of_range")
    assert sample[signal.column][row] is None
    assert sample["quality"][row].to_list() == [f"{signal.column}:{reason}"]
    restored = sample.with_columns(PLAIN[0][signal.column], PLAIN[0]["quality"])
    assert_frame_equal(restored, PLAIN[0])
    others = other_columns(signal)
    assert_frame_equal(minute.select(others), PLAIN[1].select(others))
    theirs = pl.col("gpu_uuid") != f"GPU-{gpu}"
    assert_frame_equal(minute.filter(theirs), PLAIN[1].filter(theirs))
    assert minute["flaw_count"].sum() == 1


@QUICK
@given(st.integers(1, SCRAPES - 1), st.sampled_from([s for s in OF_GPU if s.kind == "counter"]))
def test_a_counter_that_begins_anew_touches_only_its_own_increase(scrape: int, signal: Any) -> None:
    def restarted(reading: Reading) -> list[str]:
        if reading.signal is signal and reading.gpu == 0 and reading.scrape >= scrape:
            _, step = level_of(signal, 0)
            value = round((reading.scrape - scrape) * step, signal.decimals)
            reading = replace(reading, value=value)
        return [line(reading)]

    sample, minute = tables(pages(READINGS, restarted))
    assert_frame_equal(sample.drop(signal.column), PLAIN[0].drop(signal.column))
    others = other_columns(signal)
    assert_frame_equal(minute.select(others), PLAIN[1].select(others))
    for column in set(minute.columns) - set(others) - {"flaw_count"}:
        assert minute[column].drop_nulls().ge(0).all()


def test_scrapes_that_come_twice_change_nothing() -> None:
    lines = pages(READINGS, lambda reading: [line(reading)])
    same(tables([*lines, *lines]), PLAIN)


def test_series_per_pod_and_per_mig_instance_count_a_gpu_once() -> None:
    pods = [f',pod="{pod}",namespace="n"' for pod in "abc"]
    same(tables(pages(READINGS, lambda r: [line(r, labels=pod) for pod in pods])), PLAIN)
    parts = ["", *(f',GPU_I_PROFILE="1g.10gb",GPU_I_ID="{n}"' for n in (7, 8))]
    whole = [r for r in READINGS if not r.signal.instance]
    want = tables(pages(whole, lambda r: [line(r)]))
    same(tables(pages(whole, lambda r: [line(r, labels=part) for part in parts])), want)


@QUICK
@given(st.integers(0, SCRAPES - 1), st.integers(0, 1))
def test_a_missing_scrape_is_a_missing_row_and_no_more(scrape: int, gpu: int) -> None:
    kept = [r for r in READINGS if (r.scrape, r.gpu) != (scrape, gpu)]
    sample, minute = tables(pages(kept, lambda reading: [line(reading)]))
    row = gpu * SCRAPES + scrape
    assert_frame_equal(sample, pl.concat([PLAIN[0][:row], PLAIN[0][row + 1 :]]))
    theirs = pl.col("gpu_uuid") != f"GPU-{gpu}"
    assert_frame_equal(minute.filter(theirs), PLAIN[1].filter(theirs))
    mine = minute.filter(~theirs)
    assert mine["sample_count"].sum() == SCRAPES - 1
    # What a counter gained is known from the scrapes around the gap, unless it is at the end.
    if 0 < scrape < SCRAPES - 1:
        before = PLAIN[1].filter(~theirs)
        for column in ("energy_used_j", "pcie_replay_new_count", "hw_thermal_slowdown_s"):
            assert mine[column].sum() == pytest.approx(before[column].sum())


def test_a_fall_is_a_reset_for_counters_and_for_nothing_else() -> None:
    middle = PLAIN[0]["ts"].unique().sort()[SCRAPES // 2]
    fallen = PLAIN[0].with_columns(
        pl.when(pl.col("ts") < middle).then(pl.col(s.column)).otherwise(0) for s in OF_GPU
    )
    rows = complete(SAMPLE, fallen).cast(SAMPLE.polars_schema())  # type: ignore[arg-type]  # a schema
    hour = compute(CATALOG, CATALOG.models["gpu_signal_hour"], {"gpu_sample": rows}, {})
    found = set(hour.filter(pl.col("reset_count") == 1)["signal"])
    assert found == {s.column for s in OF_GPU if s.kind == "counter"}
    assert hour["reset_count"].max() == 1
