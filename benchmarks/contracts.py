"""What judging data contracts costs beside ingest.

An hour of dcgm-exporter pages (8 GPUs x 60 fields a host, every 15 s) is read by `fleetmark ingest`, file by
file of a minute; then `fleetmark contracts` judges that hour, its start and imports included. Both as CPU
seconds of the commands.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from .exposition import HOSTS, page
from .lake import command
from .workload import Goal, Work, Workload, cpu_s, own

SCRAPES, MINUTES = 240, 60
SHARE = "of the ingest's CPU"


def write_hour(folder: Path, hosts: int) -> None:
    """A file for each minute."""
    folder.mkdir()
    for minute in range(MINUTES):
        with (folder / f"{minute:02}.prom").open("w", encoding="utf-8", newline="\n") as out:
            for scrape in range(minute * SCRAPES // MINUTES, (minute + 1) * SCRAPES // MINUTES):
                for host in range(hosts):
                    out.write(page(scrape * HOSTS + host, 0))


def prepare(folder: Path, scale: float) -> Path:
    """The hour of 64 hosts at scale 1."""
    pages = folder / "hour"
    if not pages.exists():
        write_hour(pages, max(1, round(HOSTS * scale)))
    return pages


def judged(pages: Path) -> Work:
    """Ingest the hour, then judge it: files, and the judge's share of the ingest's CPU."""
    store = str(pages.with_name("judged"))
    shutil.rmtree(store, ignore_errors=True)
    marks = [cpu_s()]
    command("ingest", "dcgm_exporter", str(pages), "--set", "cluster=bench", "--store", store)
    marks.append(cpu_s())
    command("contracts", "--store", store)
    marks.append(cpu_s())
    return Work(MINUTES, {SHARE: (marks[2] - marks[1]) / (marks[1] - marks[0])})


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
