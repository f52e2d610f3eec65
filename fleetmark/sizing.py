"""What a fleet of a given size needs: samples, bytes, cores, memory, and what reaches its limit first.

The sums rest on the benchmarks' committed results (`python -m fleetmark.benchmarks --write`), so on the machine and the
day that each line names; nothing is measured here. CPU per unit of work is the slope between the smallest and the
largest size measured, so that start-up is not counted as work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Self

from fleetmark.errors import InputError

DAY_S = 86_400
# Scrapes of the measured day: a build reads rows, whose number goes with the interval.
MEASURED_INTERVAL_S = 15
# A build of the day must end within this, or findings come later than "within minutes".
BUILD_LIMIT_S = 300
STEPS = ("build CPU s", "detect CPU s")


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the user states."""

    gpus: int
    interval_s: float = 15
    fields: int = 20
    access_lines_s: float = 10
    jobs_day: int = 1_000
    retention_days: int = 90


@dataclass(frozen=True, slots=True)
class Line:
    """One sum; `measured` names the workload and the day that its rate comes from, empty for plain arithmetic."""

    figure: str
    value: float
    unit: str
    measured: str = ""


@dataclass(frozen=True, slots=True)
class Limit:
    """A part of the pipeline, and how much of what one process on one core can do the fleet takes."""

    part: str
    share: float


class Rates:
    """Rates out of results by workload, as benchmarks/results.json holds them."""

    def __init__(self, results: Mapping[str, Mapping[str, Any]]) -> None:
        self.results = results

    @classmethod
    def committed(cls) -> Self:
        """Those that ship with Fleetmark. Raises InputError when there are none."""
        path = files("fleetmark.benchmarks") / "results.json"
        if not path.is_file():
            raise InputError("no measured rates: run `python -m fleetmark.benchmarks --write`")
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def of(self, name: str) -> Mapping[str, Any]:
        """A workload's result. Raises InputError when it was never measured."""
        if name not in self.results:
            raise InputError(
                f"{name} is not measured: run `python -m fleetmark.benchmarks {name} --write`"
            )
        return self.results[name]

    def slope(self, name: str, steps: Sequence[str] = ()) -> float:
        """CPU seconds a unit, start-up left out; of some steps of the workload, or of all of it.

        Where noise leaves no slope, start-up counts as work: an upper bound.
        """
        entry = self.of(name)
        total, units = _cpu_s(entry, steps), float(entry["units"])
        for smallest in entry["smaller"][:1]:
            found = (total - _cpu_s(smallest, steps)) / (units - float(smallest["units"]))
            if found > 0:
                return found
        return total / units

    def fixed_s(self, name: str, steps: Sequence[str]) -> float:
        """CPU seconds of steps without any work."""
        entry = self.of(name)
        return max(0.0, _cpu_s(entry, steps) - self.slope(name, steps) * float(entry["units"]))

    def source(self, *names: str) -> str:
        """The workloads and their days."""
        return ", ".join(f"{name} {self.of(name)['day']}" for name in names)


def _cpu_s(run: Mapping[str, Any], steps: Sequence[str]) -> float:
    return sum(float(run["figures"][step]) for step in steps) if steps else float(run["cpu_s"])


def _build_s(rates: Rates, fleet: Fleet) -> float:
    """CPU seconds of one build and one round of detectors over a whole day."""
    rows = MEASURED_INTERVAL_S / fleet.interval_s
    return (
        rates.fixed_s("day_telemetry", STEPS)
        + rates.slope("day_telemetry", STEPS) * fleet.gpus * rows
        + rates.slope("day_access", STEPS) * fleet.access_lines_s * DAY_S
    )


def _cores(rates: Rates, fleet: Fleet) -> tuple[float, float]:
    """Cores that reading telemetry and reading access lines keep busy."""
    samples_s = fleet.gpus * fleet.fields / fleet.interval_s
    return samples_s * rates.slope("exposition_ingest"), fleet.access_lines_s * rates.slope(
        "s3_access_ingest"
    )


def sums(rates: Rates, fleet: Fleet) -> list[Line]:
    """What the fleet needs, line by line."""
    samples = fleet.gpus * fleet.fields * DAY_S / fleet.interval_s
    lines = fleet.access_lines_s * DAY_S
    sample_bytes = rates.of("storage")["figures"]["bytes a sample"]
    line_bytes = rates.of("s3_access_ingest")["figures"]["bytes a line"]
    row_bytes = rates.of("sacct")["figures"]["bytes a row"]
    day_bytes = samples * sample_bytes + lines * line_bytes + fleet.jobs_day * row_bytes
    telemetry, access = _cores(rates, fleet)
    scan_s = rates.of("q1")["cpu_s"] / rates.of("q1")["units"]
    share = fleet.gpus / (1_024 * rates.of("q1")["scale"])
    return [
        Line("samples a day", samples, "samples"),
        Line("rows of GPUs a day", samples / fleet.fields, "rows"),
        Line("access lines a day", lines, "lines"),
        Line("stored a day", day_bytes / 1e9, "GB", rates.source("storage", "s3_access_ingest", "sacct")),
        Line(f"stored in {fleet.retention_days} days", day_bytes * fleet.retention_days / 1e9, "GB",
             rates.source("storage", "s3_access_ingest", "sacct")),
        Line("cores that read telemetry", telemetry, "cores", rates.source("exposition_ingest")),
        Line("cores that read access lines", access, "cores", rates.source("s3_access_ingest")),
        Line("CPU to read a day's jobs", fleet.jobs_day * rates.slope("sacct"), "CPU s", rates.source("sacct")),
        Line("CPU of a build and detectors over a day", _build_s(rates, fleet), "CPU s",
             rates.source("day_telemetry", "day_access")),
        Line("CPU of a query: p99 of a signal per GPU, 6 h", scan_s * max(1.0, share), "CPU s", rates.source("q1")),
        Line("memory of an ingest", rates.of("large_file")["peak_bytes"] / 2**30, "GiB", rates.source("large_file")),
        Line("memory of a build (measured fleet)", rates.of("day_telemetry")["peak_bytes"] / 2**30, "GiB",
             rates.source("day_telemetry")),
        *(Line(f"of what one core can do: {one.part}", one.share, "ratio") for one in sorted(
            limits(rates, fleet), key=lambda one: one.part)),
        Line("what breaks first reaches its limit on one core at", carried(rates, fleet), "GPUs"),
    ]  # fmt: skip


def limits(rates: Rates, fleet: Fleet) -> list[Limit]:
    """The parts by how near they are to what one process on one core can do, nearest first."""
    telemetry, access = _cores(rates, fleet)
    found = [
        Limit("reading telemetry", telemetry),
        Limit("reading access lines", access),
        Limit(f"a build within {BUILD_LIMIT_S} s", _build_s(rates, fleet) / BUILD_LIMIT_S),
    ]
    return sorted(found, key=lambda one: -one.share)


def carried(rates: Rates, fleet: Fleet) -> float:
    """GPUs at which the first part reaches its limit, all else growing in proportion.

    Shares are straight lines a + b x of the fleet's size, found from the fleet and one of twice its size.
    """
    twice = replace(
        fleet,
        gpus=2 * fleet.gpus,
        access_lines_s=2 * fleet.access_lines_s,
        jobs_day=2 * fleet.jobs_day,
    )
    now = {one.part: one.share for one in limits(rates, fleet)}
    grown = {one.part: one.share - now[one.part] for one in limits(rates, twice)}
    return fleet.gpus * min(
        (1 - now[part] + more) / more for part, more in grown.items() if more > 0
    )


def table(results: Mapping[str, Mapping[str, Any]], fleets: Sequence[Fleet]) -> str:
    """The sums of several fleets side by side, in Markdown."""
    rates = Rates(results)
    columns = [sums(rates, fleet) for fleet in fleets]
    head = [f"{fleet.gpus:,} GPUs, {fleet.access_lines_s:,g} access lines/s, {fleet.jobs_day:,} jobs/day" for fleet in fleets]  # fmt: skip
    rows = [
        [f"{line[0].figure} ({line[0].unit})", *(f"{cell.value:,.3g}" if cell.value < 1000 else f"{cell.value:,.0f}" for cell in line), line[0].measured]
        for line in zip(*columns, strict=True)
    ]  # fmt: skip
    firsts = [limits(rates, fleet)[0].part for fleet in fleets]
    rows.append(["what breaks first", *firsts, ""])
    titles = ["", *head, "rate measured by, on"]
    ruled = ["---"] * len(titles)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (titles, ruled, *rows))
