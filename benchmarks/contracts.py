"""What judging data contracts costs beside ingest: `python -m fleetmark.benchmarks.contracts`.

An hour of dcgm-exporter pages (8 GPUs x 60 fields a host, every 15 s) is read by `fleetmark ingest`, file by
file of a minute; then `fleetmark contracts` judges that hour, its start and imports included. Both as CPU
seconds of the commands, after one run of each on a minute, so that modules are compiled, as pip leaves them.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from .exposition import GPUS, HOSTS, page

SCRAPES, MINUTES = 240, 60


def write_minutes(folder: Path, hosts: int, minutes: int) -> None:
    """A file for each minute."""
    folder.mkdir()
    for minute in range(minutes):
        with (folder / f"{minute:02}.prom").open("w", encoding="utf-8", newline="\n") as out:
            for scrape in range(minute * SCRAPES // MINUTES, (minute + 1) * SCRAPES // MINUTES):
                for host in range(hosts):
                    out.write(page(scrape * HOSTS + host, 0))


def cpu_s(modules: Path, *arguments: str) -> float:
    """CPU seconds of a `fleetmark` command that keeps compiled modules in a folder.

    Raises CalledProcessError when it fails.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(modules)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [str(Path(sys.executable).with_name("fleetmark")), *arguments]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@click.command()
@click.option("--hosts", default=HOSTS, help=f"Hosts of {GPUS} GPUs; at most {HOSTS}.")
def main(hosts: int) -> None:
    """Print both, and the share."""
    with tempfile.TemporaryDirectory(prefix="fleetmark-bench-") as folder:
        for minutes, fleet in ((1, 1), (MINUTES, hosts)):
            pages, store = Path(folder) / f"pages{minutes}", f"{folder}/store{minutes}"
            write_minutes(pages, fleet, minutes)
            modules = Path(folder) / "modules"
            read = ("ingest", "dcgm_exporter", str(pages), "--set", "cluster=bench")
            ingest = cpu_s(modules, *read, "--store", store)
            judge = cpu_s(modules, "contracts", "--store", store)
    click.echo(
        f"{hosts * GPUS} GPUs, an hour: ingest {ingest:.1f} CPU s, contracts {judge:.1f} CPU s "
        f"({judge / ingest:.1%})"
    )


if __name__ == "__main__":
    main()
