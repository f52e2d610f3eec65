"""What the exporters of a fleet would have printed, consistent with the jobs and with what went wrong.

Published levels are in `profiles`, what a job does to its GPUs in `physics`, noise in `sensors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .conditions import Conditions, Floats, Region, calm, columns
from .fleet import DAY_S, HOUR_S, START_S, Fleet, Gpu, Node, stream
from .health import healthy
from .incidents import Incident, kinds
from .jobs import Attempt
from .physics import LEAK_SPREAD, compute_for, load
from .profiles import PERCENT, POWER_W, PROFILES, Profile
from .sensors import DRIFT, Noise, Values, idle, readings


@dataclass(frozen=True, slots=True)
class SickGpu:
    """A GPU that runs below its clock from `start_s` to `end_s` and sets no throttle bit."""

    gpu: Gpu
    start_s: int
    end_s: int
    clock_deficit_ratio: float

    @property
    def slowdown_ratio(self) -> float:
        """How many times as long its compute operations take: they go with 1 / clock."""
        return 1 / (1 - self.clock_deficit_ratio)

    @property
    def incident(self) -> Incident:
        """What it does to the telemetry: of a whole step the memory-bound share does not slow."""
        effect_ratio = 1 - 1 / compute_for(1 - self.clock_deficit_ratio)
        return Incident("clock_deficit", (self.gpu,), self.start_s, self.end_s, effect_ratio)


@dataclass(frozen=True, slots=True)
class Samples:
    """Readings: arrays of scrapes by GPUs.

    missing    nothing is printed for the GPU
    instances  MIG instances that are printed beside the GPU
    pods       pods that share the GPU, for each of which its series are printed once more
    compute    computing time of a step, of the nominal; NaN where no synchronous job runs
    """

    gpus: tuple[Gpu, ...]
    ts_s: NDArray[np.float64]
    values: Values
    missing: NDArray[np.bool_]
    instances: NDArray[np.int8]
    pods: NDArray[np.int8]
    compute: Floats

    def of(self, node: Node) -> Samples:
        """One node's share."""
        mine = columns(self.gpus, node.gpus)
        values = {name: array[:, mine] for name, array in self.values.items()}
        return Samples(
            node.gpus, self.ts_s[:, mine], values, self.missing[:, mine], self.instances[:, mine],
            self.pods[:, mine], self.compute[:, mine],
        )  # fmt: skip


def scrape_interval_s(fleet: Fleet) -> int:
    """60 s up to about a day of two nodes, then longer, 360 s at most, so that a demo stays small.

    28,000 scrapes of one GPU are about 55 MB of exposition text.
    """
    wanted = len(fleet.gpus) * fleet.days * DAY_S / 28_000
    return int(min(360, max(60, -(-wanted // 60) * 60)))


def sample(
    fleet: Fleet,
    attempts: Sequence[Attempt],
    incidents: Sequence[Incident],
    seed: int,
    every_s: int | None = None,
    *,
    with_health: bool = False,
) -> Samples:
    """All readings of the fleet over its window, scraped every `every_s` (scrape_interval_s).

    `with_health` adds what a default exporter leaves out: links, memory errors, last XID.
    """
    every_s = every_s or scrape_interval_s(fleet)
    random = stream(seed, "telemetry")
    now = calm(fleet, _times(fleet, random, every_s))
    for incident in incidents:
        kind = kinds()[incident.kind]
        for cells in now.regions(incident.gpus, incident.start_s, incident.end_s):
            kind.act(now, cells, incident)
    samples = _read(fleet, attempts, now, seed)
    used_mj = (samples.values["power_w"] * np.float64(every_s * 1000)).astype(np.int64)
    before = random.integers(10**9, 10**12, used_mj.shape[1])
    samples.values["energy_mj"] = before + np.cumsum(used_mj, axis=0)
    if with_health:
        samples.values.update(healthy(stream(seed, "health"), now.ts_s.shape))
        slowed_ns = np.where(now.thermal_bit, np.int64(every_s * 10**9), np.int64(0))
        samples.values["sw_thermal_ns"] = np.cumsum(slowed_ns, axis=0)
    for incident in incidents:
        kind = kinds()[incident.kind]
        for cells in now.regions(incident.gpus, incident.start_s, incident.end_s):
            kind.show(samples, cells)
    return samples


def _times(fleet: Fleet, random: np.random.Generator, every_s: int) -> NDArray[np.float64]:
    """Scrapes by GPUs; each node has its turn within the interval."""
    turns = [
        int(random.integers(every_s)) + round(float(random.uniform(0, 0.9)), 3) for _ in fleet.nodes
    ]
    starts = np.arange(START_S, fleet.end_s, every_s, dtype=np.float64)
    offsets = np.repeat(turns, [len(node.gpus) for node in fleet.nodes])
    times = starts[:, None] + offsets[None, :]
    return np.asarray(times[times.max(axis=1) < fleet.end_s], dtype=np.float64)


def _read(fleet: Fleet, attempts: Sequence[Attempt], now: Conditions, seed: int) -> Samples:
    """Idle GPUs everywhere, then each attempt's cells over them."""
    shape = now.ts_s.shape
    random = stream(seed, "sensors")
    values = idle(random, shape)
    leak = np.clip(random.normal(1, LEAK_SPREAD, shape[1]), 0.85, 1.15).astype(np.float32)
    compute = np.full(shape, np.nan, dtype=np.float32)
    for number, attempt in enumerate(attempts):
        if attempt.start_s is None or not attempt.gpus:
            continue
        mine = columns(fleet.gpus, attempt.gpus)
        times = now.ts_s[:, mine]
        inside = (times >= attempt.start_s) & (times < (attempt.end_s or fleet.end_s))
        rows = np.flatnonzero(inside.any(axis=1))
        if rows.size == 0:
            continue
        cells = np.ix_(rows, mine)
        found, computing = _run(
            PROFILES[attempt.kind], now, cells, stream(seed, f"run {number}"), leak[mine]
        )
        inside = inside[rows]
        for name, array in found.items():
            values[name][cells] = np.where(inside, array, values[name][cells])
        compute[cells] = np.where(inside, computing, compute[cells])
    missing = np.zeros(shape, dtype=np.bool_)
    instances, pods = np.zeros(shape, dtype=np.int8), np.zeros(shape, dtype=np.int8)
    return Samples(fleet.gpus, now.ts_s, values, missing, instances, pods, compute)


def _run(
    profile: Profile, now: Conditions, cells: Region, random: np.random.Generator, leak: Floats
) -> tuple[Values, Floats]:
    """Readings and computing times of one attempt's cells.

    Power demand is the job's in synchronous work, else each GPU's own.
    """
    times = now.ts_s[cells]
    every_s = times[1, 0] - times[0, 0] if times.shape[0] > 1 else 60.0
    together = 1 if profile.synchronous else times.shape[1]
    level = _smooth_uniform(random, (times.shape[0], together))
    percent = profile.low + (profile.high - profile.low) * level
    demand_w = np.interp(percent, PERCENT, POWER_W).astype(np.float32)
    does = load(now, cells, demand_w, leak, synchronous=profile.synchronous)
    common = (1 + 0.03 * random.standard_normal((times.shape[0], 1))).astype(np.float32)
    noise = Noise(random, common, _drift(random, times.shape, every_s))
    compute = does.compute if profile.synchronous else np.full_like(does.compute, np.nan)
    return readings(does, now, cells, profile, noise), compute


def _smooth_uniform(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Values in (0, 1) that keep 0.7 of their level from scrape to scrape.

    A logistic curve of slope 1.702 stands for the normal distribution's (within 0.01).
    """
    noise = random.standard_normal(shape)
    level = noise.copy()
    for row in range(1, shape[0]):
        level[row] = 0.7 * level[row - 1] + np.sqrt(1 - 0.7**2) * noise[row]
    return np.asarray(1 / (1 + np.exp(-1.702 * level)), dtype=np.float64)


def _drift(random: np.random.Generator, shape: tuple[int, int], every_s: float) -> Floats:
    """Slow changes of single GPUs: a value per two hours, in a straight line between."""
    knots = int(shape[0] * every_s // (2 * HOUR_S)) + 2
    values = DRIFT * random.standard_normal((knots, shape[1])).astype(np.float32)
    place = np.arange(shape[0]) * every_s / (2 * HOUR_S)
    low = place.astype(np.int64)
    part = (place - low).astype(np.float32)[:, None]
    return np.asarray(values[low] * (1 - part) + values[low + 1] * part, dtype=np.float32)
