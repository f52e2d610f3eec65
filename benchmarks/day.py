"""A day of a fleet end to end: logs to tables, all models, all detectors, each by its command.

At scale 1 half a day's worth of 1,024 GPUs: 512 GPUs of which 4 fields are scraped every 15 s (11.8 M samples), 500,000 access lines,
125,000 CloudTrail records, 50,000 accounting rows; at scale 0.25 an eighth. The start of every command counts.

The peers' sum for the whole day is 40 CPU s where REF does 239,000 lines a CPU second: 23.6 M samples into VictoriaMetrics 24,
1 M lines by a plain tokeniser 10, 250,000 records by isal and msgspec 1, 100,000 rows by gcm 2.5, queries 2.5. It is added up from
measurements of each alone, for parts that end in memory, without tables in common or any finding.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from fleetmark.store import Store

from .lake import command, ingest, stored_bytes
from .logs import access_lines, cloudtrail, exposition, sacct
from .workload import Goal, Run, Work, Workload, cpu_each, cpu_s

FLEET_GPUS, FACTOR = 1_024, 2
SCRAPES = 5_760
FIELDS = (
    "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
)  # fmt: skip
LINES, RECORDS, ROWS = 1_000_000 // FACTOR, 250_000 // FACTOR, 100_000 // FACTOR
PEERS_CPU_S, PEERS_REF = 40, 239_000
PEAK_LIMIT_BYTES = 1536 << 20
# source: table of its rows
PARTS = {
    "dcgm_exporter": "gpu_sample", "s3_access": "storage_access", "cloudtrail": "storage_event", "sacct": "job_step",
}  # fmt: skip
# What the accounting rows do not say.
STATED = {"sacct": ("tz=UTC", "delimiter=|")}


def hosts_of(scale: float) -> int:
    """Hosts of 8 GPUs, one at least."""
    return max(1, round(FLEET_GPUS / FACTOR / exposition.GPUS * scale))


def prepare(folder: Path, scale: float, *, parts: Sequence[str]) -> Path:
    """A folder with an input for each of the parts; left alone when it exists."""
    target = folder / "-".join(["day", *parts])
    if target.exists():
        return target
    target.mkdir()
    makers: dict[str, Callable[[Path], object]] = {
        "dcgm_exporter": lambda path: _pages(path, hosts_of(scale)),
        "s3_access": lambda path: access_lines.write_lines(path, max(100, round(LINES * scale))),
        "cloudtrail": lambda path: cloudtrail.prepare(target, RECORDS / cloudtrail.RECORDS * scale).rename(path),
        "sacct": lambda path: sacct.prepare(target, ROWS / sacct.ROWS * scale).rename(path),
    }  # fmt: skip
    for source in parts:
        makers[source](target / source)
    return target


def _pages(path: Path, hosts: int) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for scrape in range(SCRAPES):
            for host in range(hosts):
                out.write(exposition.page(scrape * exposition.HOSTS + host, 0, FIELDS))


def end_to_end(folder: Path) -> Work:
    """Ingest, build, detect: GPUs, or lines where no GPU is. Raises RuntimeError for a reject, or a part without rows."""
    store = folder / "lake"
    shutil.rmtree(store, ignore_errors=True)
    marks = [cpu_s()]
    parts = [name for name in PARTS if (folder / name).exists()]
    for source in parts:
        if rejects := sum(
            r["reject_count"]
            for r in ingest(source, folder / source, store, *STATED.get(source, ()))
        ):
            raise RuntimeError(f"{source}: {rejects} rejects")
    marks.append(cpu_s())
    for step in ("build", "detect"):
        command(step, "--store", str(store))
        marks.append(cpu_s())
    names = ("ingest CPU s", "build CPU s", "detect CPU s")
    spent = {name: b - a for name, a, b in zip(names, marks, marks[1:], strict=False)}
    return Work(_units(store, parts), {**spent, "lake bytes": float(stored_bytes(store))})


def _units(store: Path, parts: Sequence[str]) -> int:
    with Store(store, read_only=True) as opened:

        def count(what: str) -> int:
            row = opened.connection.execute(f"SELECT count({what}").fetchone()
            return int(row[0]) if row else 0

        rows = {source: count(f"*) FROM lake.{PARTS[source]}") for source in parts}
        gpus = count("DISTINCT gpu_uuid) FROM lake.gpu_minute")
    if missing := [source for source, number in rows.items() if not number]:
        raise RuntimeError(f"no rows of {missing}")
    return gpus if "dcgm_exporter" in parts else rows[parts[0]]


def of_the_peers(own: Run, reference: Run) -> float:
    """CPU seconds as a part of the peers' on this machine, for as many GPUs."""
    peers = PEERS_CPU_S * own.units / FLEET_GPUS * PEERS_REF / reference.rate
    return own.cpu_s / peers


def _day(
    name: str, doc: str, unit: str, parts: Sequence[str], *goals: Goal, grows: bool = True
) -> Workload:
    return Workload(
        name=name,
        doc=doc,
        unit=unit,
        prepare=partial(prepare, parts=parts),
        run=end_to_end,
        goals=goals,
        peak_limit_bytes=PEAK_LIMIT_BYTES,
        rounds=1,
        grows=grows,
    )


DAY = _day(
    "day",
    "a day of 512 GPUs at scale 1, half of 1,024 (128, an eighth, at 0.25): 11.8 M samples, 500,000 access lines, 125,000 CloudTrail "
    "records, 50,000 accounting rows through ingest, build and detect, the commands' start included",
    "GPUs",
    tuple(PARTS),
    Goal("of the peers' CPU", 1.0, 0.6, of=of_the_peers, at_most=True),
    grows=False,
)
TELEMETRY = _day(
    "day_telemetry",
    "the samples of that day alone through ingest, build and detect",
    "GPUs",
    ("dcgm_exporter",),
    Goal("CPU s a GPU and day", of=cpu_each, at_most=True),
)
ACCESS = _day(
    "day_access",
    "the access lines of that day alone through ingest, build and detect",
    "lines",
    ("s3_access",),
)
