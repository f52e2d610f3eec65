"""How fast recorded arrivals are replayed.

Made-up arrivals on 4,096 GPUs in nodes of 8 at 85 % load: sizes from 1 to 256 GPUs, exponential run times of an hour,
time limits of twice the run time.
"""

from __future__ import annotations

import random
from pathlib import Path

from fleetmark.capacity.replay import Arrival, Replay

from .workload import Workload

GPUS, PER_NODE, LOAD, RUN_S = 4096, 8, 0.85, 3600.0
SIZES = [1] * 60 + [2] * 10 + [4] * 10 + [8] * 14 + [16] * 3 + [64] * 2 + [256]
SEED = 5
JOBS = 1_000_000


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


def prepare(folder: Path, scale: float) -> Path:
    """A file that holds the number of jobs: arrivals are drawn in memory."""
    path = folder / "jobs"
    path.write_text(str(max(100, round(JOBS * scale))), encoding="utf-8")
    return path


def load(path: Path) -> list[Arrival]:
    """The arrivals."""
    return arrivals(int(path.read_text(encoding="utf-8")))


def replay(demand: list[Arrival]) -> int:
    """Replay: jobs. Raises RuntimeError when one starts before it was ready, or never."""
    starts = Replay(demand, GPUS, PER_NODE, []).run()
    if any(s is None or s < one.ready_s for s, one in zip(starts, demand, strict=True)):
        raise RuntimeError("a job started before it was ready, or never")
    return len(demand)


CAPACITY = Workload(
    name="capacity",
    doc="a million recorded arrivals on 4,096 GPUs at 85 % load, replayed with backfill (`fleetmark capacity`)",
    unit="jobs",
    prepare=prepare,
    load=load,
    run=replay,
)
