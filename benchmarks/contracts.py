"""What judging data contracts costs beside ingest.

An hour of dcgm-exporter pages (8 GPUs x 60 fields a host, every 15 s) is read by `fleetmark ingest`, file by
file of a minute; then `fleetmark contracts` judges that hour, its start and imports included. Both as CPU
seconds of the commands.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .lake import command
from .logs.exposition import HOSTS, page
from .workload import Goal, Work, Workload, cpu_s, own

SCRAPES, MINUTES = 240, 60
SHARE = "of the ingest's CPU"


def write_minutes(folder: Path, hosts: int, minutes: int) -> None:
    """A file for each minute."""
    folder.mkdir()
    for minute in range(minutes):
        with (folder / f"{minute:02}.prom").open("w", encoding="utf-8", newline="\n") as out:
            for scrape in range(minute * SCRAPES // MINUTES, (minute + 1) * SCRAPES // MINUTES):
                for host in range(hosts):
                    out.write(page(scrape * HOSTS + host, 0))


def prepare(folder: Path, scale: float) -> Path:
    """The hour of 64 hosts at scale 1; a minute of one host is judged before, so that modules are compiled."""
    pages = folder / "hour"
    if not pages.exists():
        write_minutes(folder / "minute", 1, 1)
        _judge(folder / "minute")
        write_minutes(pages, max(1, round(HOSTS * scale)), MINUTES)
    return pages


def _judge(pages: Path) -> tuple[float, float]:
    """CPU seconds of the ingest into a new store, and of the judge."""
    store = str(pages.with_name(f"{pages.name}-judged"))
    shutil.rmtree(store, ignore_errors=True)
    start = cpu_s()
    command("ingest", "dcgm_exporter", str(pages), "--set", "cluster=bench", "--store", store)
    read = cpu_s()
    command("contracts", "--store", store)
    return read - start, cpu_s() - read


def judged(pages: Path) -> Work:
    """Ingest the hour, then judge it: files, and the judge's share of the ingest's CPU."""
    ingest, judge = _judge(pages)
    return Work(MINUTES, {SHARE: judge / ingest})


CONTRACTS = Workload(
    name="contracts",
    doc="an hour of pages of 64 hosts at scale 1 into a new lake, then `fleetmark contracts` over it; its cost hardly grows with the hour",
    unit="files",
    prepare=prepare,
    run=judged,
    goals=(Goal(SHARE, 0.1, 0.1, of=own(SHARE), at_most=True),),
    rounds=1,
    grows=False,
)
