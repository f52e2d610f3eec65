"""What the GPUs' sensors would have said, consistent with the jobs.

Levels and spread come from published quantiles of a production A100 cluster (Kalos): InternLM/
AcmeTrace@6d6ac9c:data/utilization/util_pkl/ (CC-BY-4.0, Hu et al., NSDI 2024), 1000 quantiles of
power and temperatures. Each kind of job draws from its own band of percentiles; idle GPUs from the
lowest 28 percent, in which the cluster's own GPU_UTIL is 0. Maximum clocks are those of an A100
capture (influxdata/telegraf@b272631:plugins/inputs/nvidia_smi/testdata/a100-sxm4-v12.xml: SM 1410,
memory 1593 MHz). Activity ratios per kind, idle clock and the slope of the clock above 385 W are
assumptions; no public capture holds them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .fleet import DAY_S, START_S, Fleet, Gpu, Node, stream
from .jobs import Attempt

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PERCENT = (0, 1, 5, 10, 20, 28, 34, 40, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 99, 100)
POWER_W = (55.7, 60.2, 61.9, 63.0, 65.0, 69.3, 89.0, 94.0, 101.5, 120.0, 149.5, 237.9, 326.3,
           372.2, 388.8, 396.8, 403.7, 413.3, 441.8, 599.7)  # fmt: skip
GPU_TEMP_C = (15, 22, 25, 27, 29, 31, 34, 36, 40, 42, 44, 47, 49, 51, 54, 56, 58, 62, 66, 79)
MEMORY_TEMP_C = (19, 30, 40, 42, 44, 46, 48, 49, 51, 52, 53, 55, 56, 57, 58, 60, 61, 64, 67, 80)

MAX_SM_CLOCK_MHZ, IDLE_SM_CLOCK_MHZ, CLOCK_STEP_MHZ = 1410, 210, 15
MEMORY_CLOCK_MHZ = 1593
IDLE_BIT, POWER_CAP_BIT = 0x1, 0x4  # DCGM_FI_DEV_CLOCK_THROTTLE_REASONS, dcgm_fields.h
POWER_LIMIT_W = 400.0
FB_TOTAL_MIB = 81_920


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of work: its band of power percentiles and its mean activity ratios."""

    low: float
    high: float
    util_percent: float
    sm: float
    tensor: float
    dram: float
    fb: float


IDLE = Profile(0, 28, 0, 0, 0, 0, 0.006)
PROFILES = {
    "train": Profile(72, 99, 100, 0.80, 0.44, 0.46, 0.78),
    "finetune": Profile(62, 92, 97, 0.66, 0.31, 0.40, 0.70),
    "eval": Profile(55, 74, 90, 0.45, 0.15, 0.42, 0.45),
    "serve": Profile(50, 66, 75, 0.35, 0.10, 0.50, 0.88),
    "notebook": Profile(34, 55, 20, 0.08, 0.02, 0.05, 0.20),
    "debug": Profile(36, 60, 45, 0.20, 0.05, 0.12, 0.30),
}


@dataclass(frozen=True, slots=True)
class SickGpu:
    """A GPU that runs below its clock from `start_s` to `end_s` and sets no throttle bit."""

    gpu: Gpu
    start_s: int
    end_s: int
    clock_deficit_ratio: float

    @property
    def slowdown_ratio(self) -> float:
        """How many times as long its compute takes: compute time goes with 1 / clock."""
        return 1 / (1 - self.clock_deficit_ratio)


@dataclass(frozen=True, slots=True)
class Samples:
    """Readings of one node: arrays of scrapes by GPUs, except `ts_s` (scrapes)."""

    node: Node
    ts_s: Floats
    values: dict[str, Ints | Floats]


def scrape_interval_s(fleet: Fleet) -> int:
    """60 s up to about a day of two nodes, then longer, 360 s at most, so that a demo stays small.

    28,000 scrapes of one GPU are about 55 MB of exposition text.
    """
    wanted = len(fleet.gpus) * fleet.days * DAY_S / 28_000
    return int(min(360, max(60, -(-wanted // 60) * 60)))


def sample(
    fleet: Fleet, node: Node, attempts: tuple[Attempt, ...], sick: tuple[SickGpu, ...], seed: int
) -> Samples:
    """All readings of one node over the fleet's window."""
    random = stream(seed, f"telemetry {node.name}")
    every_s = scrape_interval_s(fleet)
    ts_s = np.arange(START_S + int(random.integers(every_s)), fleet.end_s, every_s) + np.round(
        random.uniform(0, 0.9), 3
    )
    kinds = list(PROFILES)
    kind = _kind_by_scrape(node, attempts, ts_s, kinds)
    profile = {
        name: np.array([getattr(PROFILES[k], name) for k in kinds] + [getattr(IDLE, name)])[kind]
        for name in Profile.__slots__
    }
    level = _smooth_uniform(random, kind.shape)
    percent = profile["low"] + (profile["high"] - profile["low"]) * level
    deficit = _deficit(node, sick, ts_s) * (profile["sm"] > 0)
    readings = _readings(random, profile, percent, deficit, _peers_wait(attempts, sick, node, ts_s))
    readings["energy_mj"] = _energy_mj(random, readings["power_w"], every_s)
    return Samples(node, ts_s, readings)


def _kind_by_scrape(
    node: Node, attempts: tuple[Attempt, ...], ts_s: Floats, kinds: list[str]
) -> Ints:
    """Per scrape and GPU the number of the kind that runs; the last number means idle."""
    kind = np.full((ts_s.size, len(node.gpus)), len(kinds), dtype=np.int64)
    for attempt in attempts:
        if attempt.start_s is None:
            continue
        first, last = np.searchsorted(ts_s, (attempt.start_s, attempt.end_s or np.inf))
        for gpu in attempt.gpus:
            if gpu.node == node.name:
                kind[first:last, gpu.index] = kinds.index(attempt.kind)
    return kind


def _smooth_uniform(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Values in (0, 1) that keep 0.7 of their level from scrape to scrape, plus a level per GPU.

    A logistic curve of slope 1.702 stands for the normal distribution's (within 0.01).
    """
    noise = random.normal(size=shape)
    level = noise.copy()
    for row in range(1, shape[0]):
        level[row] = 0.7 * level[row - 1] + np.sqrt(1 - 0.7**2) * noise[row]
    of_gpu = random.normal(scale=0.3, size=shape[1:])
    return np.asarray(1 / (1 + np.exp(-1.702 * (level + of_gpu))), dtype=np.float64)


def _deficit(node: Node, sick: tuple[SickGpu, ...], ts_s: Floats) -> Floats:
    deficit = np.zeros((ts_s.size, len(node.gpus)))
    for case in sick:
        if case.gpu.node == node.name:
            inside = (ts_s >= case.start_s) & (ts_s < case.end_s)
            deficit[inside, case.gpu.index] = case.clock_deficit_ratio
    return deficit


def _peers_wait(
    attempts: tuple[Attempt, ...], sick: tuple[SickGpu, ...], node: Node, ts_s: Floats
) -> Floats:
    """Share of time a GPU waits for a sick one in the same job (synchronous training)."""
    wait = np.zeros((ts_s.size, len(node.gpus)))
    for case in sick:
        for attempt in attempts:
            if case.gpu not in attempt.gpus or attempt.start_s is None:
                continue
            start_s = max(case.start_s, attempt.start_s)
            end_s = min(case.end_s, attempt.end_s or case.end_s)
            inside = (ts_s >= start_s) & (ts_s < end_s)
            peers = [g.index for g in attempt.gpus if g.node == node.name and g != case.gpu]
            wait[np.ix_(inside, np.array(peers, dtype=np.int64))] = 1 - 1 / case.slowdown_ratio
    return wait


def _readings(
    random: np.random.Generator,
    profile: dict[str, Floats],
    percent: Floats,
    deficit: Floats,
    wait: Floats,
) -> dict[str, Ints | Floats]:
    """Canonical readings; power follows clock to the power 1.5 between f (idle) and f V^2."""
    busy = profile["sm"] > 0
    active = (1 - wait) * np.clip(1 + random.normal(scale=0.03, size=percent.shape), 0.8, 1.2)
    idle_w = np.interp(14.0, PERCENT, POWER_W)
    drawn_w = np.interp(percent, PERCENT, POWER_W)
    power_w = np.where(
        busy, idle_w + (drawn_w - idle_w) * (1 - deficit) ** 1.5 * (1 - 0.5 * wait), drawn_w
    )
    over_w = np.clip(drawn_w - 385, 0, 60)
    clock_mhz = (MAX_SM_CLOCK_MHZ - 1.5 * over_w) * (1 - deficit)
    clock_mhz = np.round(clock_mhz / CLOCK_STEP_MHZ) * CLOCK_STEP_MHZ
    cooler_c = 12 * deficit
    capped = busy & (power_w > POWER_LIMIT_W) & (deficit == 0)
    return {
        "power_w": power_w,
        "sm_clock_mhz": np.where(busy, clock_mhz, IDLE_SM_CLOCK_MHZ).astype(np.int64),
        "memory_clock_mhz": np.full(percent.shape, MEMORY_CLOCK_MHZ, dtype=np.int64),
        "gpu_temp_c": np.rint(np.interp(percent, PERCENT, GPU_TEMP_C) - cooler_c).astype(np.int64),
        "memory_temp_c": np.rint(np.interp(percent, PERCENT, MEMORY_TEMP_C)).astype(np.int64),
        "util_percent": np.rint(np.minimum(100, profile["util_percent"] * (0.97 + active * 0.03)))
        .astype(np.int64),
        "fb_used_mib": np.rint(profile["fb"] * FB_TOTAL_MIB).astype(np.int64),
        "sm_ratio": np.clip(profile["sm"] * active, 0, 1),
        "tensor_ratio": np.clip(profile["tensor"] * active, 0, 1),
        "dram_ratio": np.clip(profile["dram"] * active, 0, 1),
        "throttle_mask": np.where(busy, np.where(capped, POWER_CAP_BIT, 0), IDLE_BIT),
    }  # fmt: skip


def _energy_mj(random: np.random.Generator, power_w: Ints | Floats, every_s: int) -> Ints:
    before = random.integers(10**9, 10**12, power_w.shape[1])
    return np.asarray(before + np.cumsum(power_w * every_s * 1000, axis=0), dtype=np.int64)
