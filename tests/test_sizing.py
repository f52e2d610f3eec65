"""The sums of a fleet from rates that are easy to work out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from fleetmark.errors import InputError
from fleetmark.sizing import Fleet, Rates, carried, limits, sums


def result(units: int, cpu_s: float, **more: Any) -> dict[str, Any]:
    return {"units": units, "cpu_s": cpu_s, "day": "2026-01-02", "smaller": [], "figures": {}, "scale": 1.0,
            "peak_bytes": 1 << 30, **more}  # fmt: skip


def steps(build: float, detect: float) -> dict[str, float]:
    return {"build CPU s": build, "detect CPU s": detect}


# Start-up of 2 s, then a millionth of a second a sample: 1 M samples in 3 s, a sixteenth in 2.0625 s.
MADE = {
    "exposition_ingest": result(1_000_000, 3.0, smaller=[result(62_500, 2.0625)]),
    "s3_access_ingest": result(100_000, 1.0, figures={"bytes a line": 20.0}),
    "sacct": result(1_000, 1.0, figures={"bytes a row": 5.0}),
    "storage": result(1, 1.0, figures={"bytes a sample": 1.5}),
    "large_file": result(1, 1.0),
    "q1": result(10, 1.0),
    # 10 s without work and 0.1 s a GPU.
    "day_telemetry": result(160, 0.0, figures=steps(20, 6), smaller=[result(10, 0.0, figures=steps(7, 4))]),
    "day_access": result(1_000_000, 0.0, figures=steps(8, 2)),
}  # fmt: skip
RATES = Rates(MADE)


def test_sums_of_a_small_fleet() -> None:
    fleet = Fleet(
        1_024, interval_s=15, fields=10, access_lines_s=100, jobs_day=2_000, retention_days=10
    )
    found = {line.figure: line.value for line in sums(RATES, fleet)}
    samples, lines = 1_024 * 10 * 5_760, 100 * 86_400
    assert found["samples a day"] == samples
    assert found["rows of GPUs a day"] == 1_024 * 5_760
    assert found["stored a day"] == pytest.approx((samples * 1.5 + lines * 20 + 2_000 * 5) / 1e9)
    assert found["stored in 10 days"] == pytest.approx(10 * found["stored a day"])
    # Start-up is no work: 1 us a sample, 10 us a line.
    assert found["cores that read telemetry"] == pytest.approx(samples / 86_400 * 1e-6)
    assert found["cores that read access lines"] == pytest.approx(100 * 1e-5)
    build = found["CPU of a build and detectors over a day"]
    assert build == pytest.approx(10 + 0.1 * 1_024 + lines * 1e-5)
    assert found["CPU of a query: p99 of a signal per GPU, 6 h"] == pytest.approx(0.1)


def test_every_rate_names_its_workload_and_day() -> None:
    named = [line.measured for line in sums(RATES, Fleet(8)) if line.unit not in ("samples", "rows", "lines", "ratio", "GPUs")]  # fmt: skip
    assert named
    assert all("2026-01-02" in measured for measured in named)


@pytest.mark.parametrize(
    ("fleet", "part"),
    [
        (Fleet(5_000, access_lines_s=0), "a build within 300 s"),
        (Fleet(8, access_lines_s=90_000), "a build within 300 s"),
        (Fleet(8, interval_s=0.1, fields=1_000_000, access_lines_s=0), "reading telemetry"),
    ],
)
def test_the_nearest_limit_comes_first(fleet: Fleet, part: str) -> None:
    assert limits(RATES, fleet)[0].part == part


def test_the_fleet_that_one_core_carries_is_at_its_limit() -> None:
    fleet = Fleet(1_000, access_lines_s=10)
    gpus = carried(RATES, fleet)
    # 10 s of start, 0.1 s a GPU and, with a line a second for 100 GPUs, 8.64 ms a GPU: 300 s.
    assert gpus == pytest.approx((300 - 10) / (0.1 + 0.01 * 86_400 * 1e-5))


def test_a_rate_that_is_not_measured_is_named_with_its_command() -> None:
    with pytest.raises(InputError, match=r"storage is not measured: .*benchmarks storage --write"):
        sums(Rates({k: v for k, v in MADE.items() if k != "storage"}), Fleet(8))
