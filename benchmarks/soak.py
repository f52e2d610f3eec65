"""Half an hour of live operation at twice the rate of a 4,096-GPU fleet: `python -m fleetmark.benchmarks.soak`.

`fleetmark run` tails dcgm-exporter pages of 8,192 GPUs (16 clusters of 64 hosts, 60 fields, every 15 s) and an
access log that grows by 2,000 lines a second, computes, detects and tends. Memory is the resident set of all its
processes; the age is that of the oldest access line that is written and cannot be queried yet. `--write` puts the
figures into docs/operations.md.
"""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from statistics import median, quantiles

import click

from fleetmark.errors import FleetmarkError
from fleetmark.store import Store

from .lake import started
from .logs.access_lines import batches
from .logs.exposition import GPUS, HOSTS, page

CLUSTERS, SCRAPE_S = 16, 15
LINES_PER_S = 2000
SAMPLE_S = 5.0
# Pages stay for ten minutes: longer than anything that is still bounded takes to read them.
KEPT_SCRAPES = 40
REPORT = Path(__file__).resolve().parent.parent / "docs" / "operations.md"
_PLACE = re.compile(r"(?<=<!-- soak -->\n).*?(?=<!-- /soak -->)", re.DOTALL)


@dataclass
class Load:
    """Writes pages and lines at their rates until `stop`; counts what it wrote."""

    folder: Path
    stop: threading.Event = field(default_factory=threading.Event)
    line_count: int = 0
    page_files: int = 0

    def pages(self) -> None:
        """A file for each scrape and cluster: one text under sixteen names."""
        folders = [self.folder / f"c{n:02}" for n in range(CLUSTERS)]
        for folder in folders:
            folder.mkdir(parents=True)
        began, scrape = time.monotonic(), 0
        while not self.stop.wait(max(0.0, began + scrape * SCRAPE_S - time.monotonic())):
            text = "".join(page(scrape * HOSTS + host, 0) for host in range(HOSTS))
            made = self.folder / "scrape.new"
            made.write_text(text, encoding="utf-8", newline="\n")
            for folder in folders:
                (folder / f"{scrape:06}.prom").hardlink_to(made)
                (folder / f"{scrape - KEPT_SCRAPES:06}.prom").unlink(missing_ok=True)
            made.unlink()
            self.page_files += CLUSTERS
            scrape += 1

    def lines(self) -> None:
        began, every = time.monotonic(), chain.from_iterable(batches())
        with (self.folder / "access.log").open("w", encoding="utf-8", newline="\n") as log:
            while not self.stop.wait(0.1):
                due = int((time.monotonic() - began) * LINES_PER_S)
                log.writelines(next(every) for _ in range(due - self.line_count))
                log.flush()
                self.line_count = due


def settings(folder: Path) -> Path:
    """fleetmark.toml of the run."""
    inputs = [
        f'[[inputs]]\nname = "c{n:02}"\nkind = "files"\nsource = "dcgm_exporter"\ninterval_s = {SCRAPE_S}\n'
        f'paths = ["{folder}/c{n:02}/*.prom"]\noptions = {{ cluster = "c{n:02}" }}\n'
        for n in range(CLUSTERS)
    ]
    inputs.append(
        f'[[inputs]]\nname = "access"\nkind = "files"\nsource = "s3_access"\npaths = ["{folder}/access.log"]\n'
    )
    path = folder / "fleetmark.toml"
    path.write_text('[run]\nlisten = "127.0.0.1:0"\n\n' + "\n".join(inputs), encoding="utf-8")
    return path


@contextmanager
def running(config: Path, store: Path) -> Iterator[int]:
    """`fleetmark run`; its process id."""
    with (config.parent / "run.log").open("wb") as log:
        process = started("run", "--config", str(config), "--store", str(store), err=log)
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def memory_bytes(pid: int) -> int:
    """Resident set of a process and its children."""
    total = 0
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    for one in (str(pid), *children):
        with suppress(OSError):  # it has just ended
            total += int(Path(f"/proc/{one}/statm").read_text(encoding="utf-8").split()[1])
    return total * os.sysconf("SC_PAGE_SIZE")


def read_counts(root: Path) -> tuple[int, int]:
    """Access lines and page files that can be queried now."""
    with suppress(FleetmarkError), Store(root, read_only=True, memory_mb=256) as store:
        row = store.connection.execute(
            "SELECT coalesce(sum(line_count) FILTER (source = 's3_access'), 0), "
            "count(*) FILTER (source = 'dcgm_exporter') FROM lake.ingest_file"
        ).fetchone()
        if row:
            return int(row[0]), int(row[1])
    return 0, 0


def soak(folder: Path, minutes: float) -> Mapping[str, str]:
    """Run it and say how it went."""
    load, store = Load(folder), folder / "store"
    writers = [threading.Thread(target=work) for work in (load.pages, load.lines)]
    ages_s: list[float] = []
    resident: list[int] = []
    cpu = os.times()
    with running(settings(folder), store) as pid:
        for writer in writers:
            writer.start()
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            time.sleep(SAMPLE_S)
            written = load.line_count
            ages_s.append((written - read_counts(store)[0]) / LINES_PER_S)
            resident.append(memory_bytes(pid))
        load.stop.set()
        for writer in writers:
            writer.join()
        lines, files = read_counts(store)
    used = os.times()
    third = max(1, len(resident) // 3)
    steady = ages_s[third:] or ages_s
    return {
        "length": f"{minutes:g} min on {os.cpu_count()} cores",
        "GPU samples written": f"{load.page_files * HOSTS * GPUS:,} (GPU and scrape), {files / max(1, load.page_files):.1%} of the files read at the end",
        "access lines written": f"{load.line_count:,}, {lines / max(1, load.line_count):.1%} read at the end",
        "age of the oldest unread line": f"median {median(steady):.1f} s, p95 {quantiles(steady, n=20, method='inclusive')[-1]:.1f} s, most {max(steady):.1f} s (after the first third)",
        "memory of all processes": f"{median(resident[third : 2 * third] or resident) / 2**20:,.0f} MiB in the second third, {median(resident[-third:]) / 2**20:,.0f} MiB in the last",
        "processor time": f"{used.children_user + used.children_system - cpu.children_user - cpu.children_system:,.0f} s",
    }


@click.command()
@click.option("--minutes", default=30.0, show_default=True)
@click.option("--write", is_flag=True, help="Put the figures into docs/operations.md.")
def main(minutes: float, write: bool) -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory(prefix="fleetmark-soak-") as folder:
        figures = soak(Path(folder), minutes)
    table = "".join(f"| {name} | {value} |\n" for name, value in figures.items())
    text = f"| figure | value |\n| --- | --- |\n{table}"
    click.echo(text)
    if write:
        REPORT.write_text(
            _PLACE.sub(lambda _: text, REPORT.read_text(encoding="utf-8")), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
