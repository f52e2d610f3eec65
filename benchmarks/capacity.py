"""How fast recorded arrivals are replayed.

`python -m fleetmark.benchmarks.capacity [--jobs N]` replays made-up arrivals on 4,096 GPUs of nodes of 8 at 85 % load: sizes from 1 to 256
GPUs, exponential run times of an hour, time limits of twice the run time, and prints jobs per CPU second.
"""

from __future__ import annotations

import random
import time

import click

from fleetmark.capacity.replay import Arrival, Replay

GPUS, PER_NODE, LOAD, RUN_S = 4096, 8, 0.85, 3600.0
SIZES = [1] * 60 + [2] * 10 + [4] * 10 + [8] * 14 + [16] * 3 + [64] * 2 + [256]
SEED = 5


def arrivals(jobs: int) -> list[Arrival]:
    """Poisson arrivals that load the fleet as stated."""
    draw = random.Random(SEED)  # noqa: S311 - seeded on purpose
    rate = LOAD * GPUS / (sum(SIZES) / len(SIZES) * RUN_S)
    now, found = 0.0, []
    for _ in range(jobs):
        now += draw.expovariate(rate)
        run = draw.expovariate(1 / RUN_S)
        found.append(Arrival(now, draw.choice(SIZES), run, 2 * run))
    return found


@click.command()
@click.option("--jobs", default=1_000_000, show_default=True)
def main(jobs: int) -> None:
    """Replay and print the rate."""
    demand = arrivals(jobs)
    cpu = time.process_time()
    starts = Replay(demand, GPUS, PER_NODE, []).run()
    cpu = time.process_time() - cpu
    waits = [start - one.ready_s for start, one in zip(starts, demand, strict=True) if start is not None]  # fmt: skip
    click.echo(f"{jobs:,} jobs: {cpu:.1f} CPU seconds, {jobs / cpu:,.0f} a second; mean wait {sum(waits) / len(waits):.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
