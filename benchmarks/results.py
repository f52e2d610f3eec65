"""The committed results: results.json, one entry a workload with its day, commit and machine, and the page made of it.

A workload that is measured again replaces its own entry and no other.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fleetmark.errors import InputError
from fleetmark.sizing import Fleet, table

from .rounds import Result

RESULTS = Path(__file__).resolve().parent / "results.json"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
SCALING = PAGE.with_name("scaling.md")
MARKS = "<!-- sizing -->", "<!-- /sizing -->"
FLEETS = [
    Fleet(gpus, access_lines_s=gpus / 100, jobs_day=gpus) for gpus in (1_000, 10_000, 100_000)
]
HEAD = """# Benchmarks

Written by `python -m fleetmark.benchmarks --write`; do not edit. `… --write NAME` measures one workload again and keeps the
others: each row has its own day, commit and share of the full input (`--scale`). What a workload does stands below the tables.

REF is CPython's `re` with a 26-group pattern over S3 access lines, measured directly before each run. Figures are medians of rounds, in brackets the
smallest and largest; each run has a process of its own, and wrong output is no result: every workload checks its values first. Rates are per CPU second,
user and system time of all threads and children. *Growth* is the exponent k of CPU = a + b n^k over a sixteenth, a quarter and all of the work;
start-up cancels. *Load* is the machine's load average of the last minute at the end of the runs: far above 1 others ran too, and figures suffer,
those of short commands most. *Met* is `stretch`, `required` or `missed`; a limit of memory that is missed counts as missed.

"""


def machine() -> str:
    """Processor, system and versions that the figures depend on."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("polars", "duckdb", "pyarrow"))
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        lines = info.read_text(encoding="utf-8").splitlines()
        models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
        cpu = f"{len(models)} x {models[0]}" if models else cpu
    return f"{cpu}, {platform.system()}, CPython {platform.python_version()}, {versions}"


def commit() -> str:
    """The commit of the checkout, short; empty outside one."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=RESULTS.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip()


def entries() -> dict[str, dict[str, Any]]:
    """What is committed, by workload."""
    if not RESULTS.exists():
        return {}
    return dict(json.loads(RESULTS.read_text(encoding="utf-8")))


def stamped(result: Result, day: str) -> dict[str, Any]:
    """A result with its day, commit and machine, and how busy the machine was."""
    where = {"day": day, "commit": commit(), "machine": machine()}
    return {**asdict(result), **where, "load": round(os.getloadavg()[0], 1)}


def keep(result: Mapping[str, Any], known: Iterable[str]) -> None:
    """Put a stamped result among the others, drop workloads that are no more, and write the page."""
    merged = entries() | {result["workload"]: result}
    kept = {name: merged[name] for name in known if name in merged}
    RESULTS.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(kept), encoding="utf-8")
    with suppress(InputError):  # a rate that the sums need is not measured yet
        SCALING.write_text(sized(SCALING.read_text(encoding="utf-8"), kept), encoding="utf-8")


def sized(text: str, kept: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of docs/scaling.md with the table of `FLEETS` between its marks."""
    before, rest = text.split(MARKS[0])
    return f"{before}{MARKS[0]}\n\n{table(kept, FLEETS)}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}"


def page(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """The text of docs/benchmarks.md."""
    machines = sorted({entry["machine"] for entry in kept.values()})
    what = "\n".join(f"- **{name}**: {entry['doc']}." for name, entry in kept.items())
    return (
        HEAD
        + "Machine: " + "; ".join(machines) + ".\n\n## Goals\n\n"
        + goal_table(kept.values())
        + "\n\n## Work\n\n" + work_table(kept.values())
        + f"\n\n## Workloads\n\n{what}\n"
    )  # fmt: skip


def goal_table(kept: Iterable[Mapping[str, Any]]) -> str:
    """A line for each figure that has to reach something, or is a ratio to REF."""
    rows = [
        f"| {entry['workload']} | {goal['figure']} | {_value(goal)} | {_bounds(goal)} | {goal['met']} |"
        for entry in kept
        for goal in entry["goals"]
    ]
    head = "| workload | figure | measured | required / aim | met |\n|---|---|---|---|---|"
    return "\n".join([head, *rows])


def _value(goal: Mapping[str, Any]) -> str:
    if goal["value"] is None:
        return str(goal["why"])
    return f"**{goal['value']:.4g}** ({goal['low']:.4g} to {goal['high']:.4g})"


def _bounds(goal: Mapping[str, Any]) -> str:
    sign = "≤" if goal["at_most"] else "≥"
    return " / ".join(
        "-" if goal[name] is None else f"{sign} {goal[name]:g}" for name in ("required", "aim")
    )


def work_table(kept: Iterable[Mapping[str, Any]]) -> str:
    """A line for each workload: what it did, what it took, and how it grows."""
    head = (
        "| workload | done | per CPU second | CPU s | wall s | peak MiB (limit) | growth | other figures "
        "| scale | measured |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    rows = [
        f"| {e['workload']} | {e['units']:,} {e['unit']} | {e['rate_per_cpu_s']:,.0f} | {e['cpu_s']} "
        f"| {e['wall_s']} | {_memory(e)} | {'-' if e['exponent'] is None else e['exponent']} "
        f"| {', '.join(f'{value:,.4g} {name}' for name, value in e['figures'].items())} "
        f"| {e['scale']:g} | {e['day']}, {e['commit']}, load {e['load']:g} |"
        for e in kept
    ]
    return "\n".join([head, *rows])


def _memory(entry: Mapping[str, Any]) -> str:
    limit, peak = entry["peak_limit_bytes"], entry["peak_bytes"]
    if limit is None:
        return f"{peak >> 20:,}"
    return f"{peak >> 20:,} ({limit >> 20:,}{'' if peak < limit else ', missed'})"
