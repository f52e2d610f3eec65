"""How long from an event to its alert in live operation, at 5,000 access events a second.

`python -m fleetmark.benchmarks.event_to_alert [--rate N] [--minutes N]` starts `fleetmark run` on a new store, delivers
access lines of everyday work (benchmarks/theft.py) in a file every 5 s, and every 20 s a theft among them: a model read
whole by somebody without a job, all within that second. The time from that second to the alert on a webhook is
measured, delivery included. A theft that was not told when the run ends counts as infinitely late. Exits with 1
when one in twenty takes longer than 60 s.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

from . import theft
from .lake import started

FILE_S, THEFT_S, LIMIT_S = 5, 20, 60
PAUSE_S = 120
SETTINGS = """
store = "{folder}/store"
[run]
listen = "127.0.0.1:0"
compute_interval_s = 1
[[inputs]]
name = "access"
kind = "files"
source = "s3_access"
paths = ["{folder}/s3/*.log"]
interval_s = 1
options = {{ cluster = "bench" }}
[[webhooks]]
name = "desk"
url = "{url}"
min_severity = "medium"
"""


def feed(folder: Path, rate: int, thefts: int) -> dict[str, float]:
    """Deliver the lines in time; when the event of each thief happened."""
    draw = np.random.default_rng(theft.SEED)
    happened: dict[str, float] = {}
    (folder / "s3").mkdir()
    begin_s = int(time.time())
    for number in range(thefts * THEFT_S // FILE_S):
        first_s = begin_s + number * FILE_S
        time.sleep(max(0.0, first_s + FILE_S - time.time()))
        text = theft.text_of(theft.looked_at(draw, first_s, FILE_S, rate * FILE_S), draw)
        if number * FILE_S % THEFT_S == 0:
            thief = len(happened)
            text += theft.text_of(theft.stolen(thief, theft.MODELS + thief, first_s, 0), draw)
            happened[theft.role(theft.FIRST_THIEF + thief)] = float(first_s)
        new = folder / f"{number:06}.part"
        new.write_bytes(text)
        new.rename(folder / "s3" / f"{number:06}.log")
    return happened


def measured(folder: Path, rate: int, minutes: float) -> list[float]:
    """Seconds from each theft to its alert."""
    told: dict[str, float] = {}
    thefts = max(1, round(minutes * 60 / THEFT_S))
    theft.write_jobs(folder / "sacct.txt", int(time.time()), 2)
    theft.write_manifest(folder / "manifest.csv", theft.MODELS + thefts)
    store = ("--set", "cluster=bench", "--store", folder / "store")
    theft.step("manifest", "ingest", "manifest", folder / "manifest.csv", *store)
    theft.step("sacct", "ingest", "sacct", folder / "sacct.txt", "--set", "tz=UTC", *store)
    # A running service has built all its models before: the first build is not what is measured.
    theft.step("build", "build", "--store", folder / "store")
    theft.step("detect", "detect", "--store", folder / "store")
    with theft.receiver(lambda principal: told.setdefault(principal, time.time())) as url:
        (folder / "fleetmark.toml").write_text(
            SETTINGS.format(folder=folder, url=url), encoding="utf-8"
        )
        with started("run", "--config", str(folder / "fleetmark.toml")) as running:
            try:
                happened = feed(folder, rate, thefts)
                end = time.monotonic() + PAUSE_S
                while happened.keys() - told.keys() and time.monotonic() < end:
                    time.sleep(0.5)
            finally:
                running.terminate()
    return sorted(told.get(name, np.inf) - at for name, at in happened.items())


@click.command()
@click.option("--rate", default=5_000, show_default=True, help="Access events a second.")
@click.option("--minutes", default=10.0, show_default=True, help="How long events come.")
def main(rate: int, minutes: float) -> None:
    """Measure, and exit with 1 when one in twenty alerts takes longer than 60 s."""
    with tempfile.TemporaryDirectory(prefix="fleetmark-bench-") as name:
        waits = np.array(measured(Path(name), rate, minutes))
    middle, late = np.percentile(waits, [50, 95], method="higher")
    click.echo(
        f"{rate:,} events/s for {minutes:g} minutes, {len(waits)} thefts: event to alert median {middle:.1f} s, "
        f"p95 {late:.1f} s, longest {waits[-1]:.1f} s (aim: p95 at most {LIMIT_S} s)"
    )
    sys.exit(bool(late > LIMIT_S))


if __name__ == "__main__":
    main()
