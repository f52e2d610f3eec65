"""`python -m fleetmark.benchmarks`: measure workloads and print the ratios."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

import click

from .reference import REFERENCE
from .workload import Run, Workload, find

PAIRS = 3
REPORT = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"


@dataclass(frozen=True, slots=True)
class Result:
    """Medians over the pairs; `low` and `high` are the smallest and the largest ratio."""

    workload: str
    units: int
    unit: str
    rate_per_cpu_s: float
    cpu_s: float
    wall_s: float
    peak_bytes: int
    ratio: float
    low: float
    high: float
    pairs: int
    required: float | None
    aim: float | None
    peak_limit_bytes: int | None
    met: bool


def fresh(workload: Workload, path: Path) -> Run:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "fleetmark.benchmarks.workload", workload.name, str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise click.ClickException(
            f"{workload.name}: the measured process ended with code {done.returncode}; "
            f"run it alone: {' '.join(command[1:])}"
        )
    return Run(**json.loads(done.stdout.splitlines()[-1]))


def compare(workload: Workload, folder: Path, scale: float) -> Result:
    """Reference and workload in turn, `PAIRS` times."""
    reference_path = REFERENCE.prepare(folder, scale)
    path = workload.prepare(folder, scale)
    pairs = [(fresh(REFERENCE, reference_path), fresh(workload, path)) for _ in range(PAIRS)]
    ratios = [run.rate / reference.rate for reference, run in pairs]
    peak = max(run.peak_bytes for _, run in pairs)
    ratio = median(ratios)
    return Result(
        workload=workload.name,
        units=pairs[0][1].units,
        unit=workload.unit,
        rate_per_cpu_s=round(median(run.rate for _, run in pairs)),
        cpu_s=round(median(run.cpu_s for _, run in pairs), 2),
        wall_s=round(median(run.wall_s for _, run in pairs), 2),
        peak_bytes=peak,
        ratio=round(ratio, 3),
        low=round(min(ratios), 3),
        high=round(max(ratios), 3),
        pairs=PAIRS,
        required=workload.required,
        aim=workload.aim,
        peak_limit_bytes=workload.peak_limit_bytes,
        met=(workload.required is None or ratio >= workload.required)
        and (workload.peak_limit_bytes is None or peak < workload.peak_limit_bytes),
    )


def table(results: Iterable[Result]) -> str:
    """A Markdown table of results."""
    head = (
        "| workload | done | x REF (lowest to highest) | required / aim | per CPU second "
        "| CPU s | wall s | peak MiB (limit) | met |"
    )
    rows = [
        f"| {r.workload} | {r.units:,} {r.unit} | **{r.ratio:.2f}** ({r.low:.2f} to {r.high:.2f}) "
        f"| {r.required or '-'} / {r.aim or '-'} | {r.rate_per_cpu_s:,.0f} | {r.cpu_s} | {r.wall_s} "
        f"| {r.peak_bytes >> 20:,} ({(r.peak_limit_bytes or 0) >> 20 or '-'}) "
        f"| {'yes' if r.met else 'no'} |"
        for r in results
    ]
    return "\n".join([head, "|---|---|---|---|---|---|---|---|---|", *rows])


def report(results: Sequence[Result], workloads: Sequence[Workload], scale: float) -> str:
    """The text of docs/benchmarks.md."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("polars", "duckdb", "pyarrow"))
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        cpu = f"{len(models)} x {models[0]}" if models else cpu
    what = "\n".join(f"- **{w.name}**: {w.doc}." for w in workloads)
    return (
        "# Benchmarks\n\nWritten by `python -m fleetmark.benchmarks --write`"
        f"{f' --scale {scale:g}' if scale != 1 else ''}; do not edit.\n\n"
        f"{datetime.now(UTC):%Y-%m-%d}, {cpu}, {platform.system()} {platform.release()}, "
        f"CPython {platform.python_version()}, {versions}.\n\n"
        "REF is CPython's `re` with a 26-group pattern over S3 access lines, measured directly "
        f"before each run; {PAIRS} pairs, each run in a fresh process, medians. CPU seconds are "
        "user and system time of all threads and children; absolute times are for orientation "
        f"only.\n\n{table(results)}\n\n{what}\n"
    )


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--scale", default=1.0, help="Share of the full input size; 0.05 is a quick look.")
@click.option("--json", "as_json", is_flag=True, help="Results as a JSON list on stdout.")
@click.option("--write", is_flag=True, help="Write docs/benchmarks.md.")
def main(names: tuple[str, ...], scale: float, as_json: bool, write: bool) -> None:
    """Measure all workloads, or those named. Exits with 1 when a required figure is missed."""
    workloads = {name: w for name, w in find().items() if w is not REFERENCE}
    if unknown := set(names) - set(workloads):
        raise click.UsageError(
            f"no workload named {', '.join(sorted(unknown))}; there are {', '.join(workloads)}"
        )
    chosen = [workloads[name] for name in names or workloads]
    results = []
    with tempfile.TemporaryDirectory(prefix="fleetmark-bench-") as folder:
        for workload in chosen:
            click.echo(f"{workload.name}: {workload.doc}", err=True)
            results.append(compare(workload, Path(folder), scale))
    click.echo(json.dumps([asdict(r) for r in results], indent=1) if as_json else table(results))
    if write:
        REPORT.write_text(report(results, chosen, scale), encoding="utf-8")
    sys.exit(0 if all(result.met for result in results) else 1)


if __name__ == "__main__":
    main()
