"""Readings of sensors from what the GPUs do, with the sensors' noise.

Maximum clocks are those of an A100 capture (influxdata/telegraf@b272631:plugins/inputs/nvidia_smi/
testdata/a100-sxm4-v12.xml: SM 1410, memory 1593 MHz). Power of one H100 under a constant load moves
by 0.3 % (one sigma of five readings, utkuozdemir/nvidia_gpu_exporter@e656cd8, capture of driver
590); real jobs move more, so POWER_NOISE is five times that. Clock and activity noise (per reading),
drift (per hour) and the idle clock are assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .conditions import POWER_LIMIT_W, Conditions, Floats, Region
from .physics import Load
from .profiles import GPU_TEMP_C, IDLE, MEMORY_TEMP_C, PERCENT, POWER_W, Profile

Ints = NDArray[np.int64]
Values = dict[str, Ints | Floats]

MAX_SM_CLOCK_MHZ, IDLE_SM_CLOCK_MHZ, CLOCK_STEP_MHZ = 1410, 210, 15
MEMORY_CLOCK_MHZ = 1593
IDLE_BIT, POWER_CAP_BIT, THERMAL_BIT = 0x1, 0x4, 0x20  # DCGM_FI_DEV_CLOCK_THROTTLE_REASONS
FB_TOTAL_MIB = 81_920
POWER_NOISE, CLOCK_NOISE, ACTIVITY_NOISE, DRIFT = 0.015, 0.01, 0.03, 0.005


def idle(random: np.random.Generator, shape: tuple[int, ...]) -> Values:
    """Readings of GPUs that do nothing."""
    percent = random.uniform(0, IDLE.high, shape)
    return {
        "power_w": np.interp(percent, PERCENT, POWER_W).astype(np.float32),
        "power_limit_w": np.full(shape, POWER_LIMIT_W, dtype=np.float32),
        "sm_clock_mhz": np.full(shape, IDLE_SM_CLOCK_MHZ, dtype=np.int64),
        "memory_clock_mhz": np.full(shape, MEMORY_CLOCK_MHZ, dtype=np.int64),
        "gpu_temp_c": np.rint(np.interp(percent, PERCENT, GPU_TEMP_C)).astype(np.int64),
        "memory_temp_c": np.rint(np.interp(percent, PERCENT, MEMORY_TEMP_C)).astype(np.int64),
        "util_percent": np.zeros(shape, dtype=np.int64),
        "fb_used_mib": np.full(shape, round(IDLE.fb * FB_TOTAL_MIB), dtype=np.int64),
        "sm_ratio": np.zeros(shape, dtype=np.float32),
        "tensor_ratio": np.zeros(shape, dtype=np.float32),
        "dram_ratio": np.zeros(shape, dtype=np.float32),
        "throttle_mask": np.full(shape, IDLE_BIT, dtype=np.int64),
    }


@dataclass(frozen=True, slots=True)
class Noise:
    """What moves readings, beside what the GPUs do.

    common   scrapes by 1: the job's activity as a whole, around 1
    drift    scrapes by GPUs: slow changes of one GPU, around 0
    """

    random: np.random.Generator
    common: Floats
    drift: Floats

    def around(self, values: Floats, sigma: float) -> Floats:
        """The values with independent relative noise."""
        noise = self.random.standard_normal(values.shape, dtype=np.float32)
        return np.asarray(values * (1 + sigma * noise), dtype=np.float32)


def readings(
    does: Load, now: Conditions, cells: Region, profile: Profile, noise: Noise
) -> dict[str, Ints | Floats]:
    """What the sensors of one job's GPUs read."""
    jitter = np.where(does.capped, 1.0, 0.0).astype(np.float32)
    clock = noise.around(does.clock, 0) * (1 + jitter * noise.drift)
    clock = np.where(does.capped, noise.around(clock, CLOCK_NOISE), clock)
    clock_mhz = np.minimum(MAX_SM_CLOCK_MHZ, clock * MAX_SM_CLOCK_MHZ)
    power_w = noise.around(does.power_w, POWER_NOISE)
    hotter_c = now.inlet_c[cells]
    moved = noise.common * (1 + noise.drift)
    mask = np.where(does.capped, POWER_CAP_BIT, 0) | np.where(
        now.thermal_bit[cells], THERMAL_BIT, 0
    )

    def activity(ratio: float, share: Floats) -> Floats:
        return np.clip(noise.around(ratio * share * moved, ACTIVITY_NOISE), 0, 1)

    return {
        "power_w": power_w,
        "power_limit_w": now.limit_w[cells],
        "sm_clock_mhz": (np.rint(clock_mhz / CLOCK_STEP_MHZ) * CLOCK_STEP_MHZ).astype(np.int64),
        "gpu_temp_c": np.rint(np.interp(power_w, POWER_W, GPU_TEMP_C) + hotter_c).astype(np.int64),
        "memory_temp_c": np.rint(np.interp(power_w, POWER_W, MEMORY_TEMP_C) + hotter_c)
        .astype(np.int64),
        "util_percent": np.rint(profile.util_percent * np.minimum(1, now.active[cells] + 0.05))
        .clip(0, 100).astype(np.int64),
        "fb_used_mib": np.full(power_w.shape, round(profile.fb * FB_TOTAL_MIB), dtype=np.int64),
        "sm_ratio": activity(profile.sm, does.sm),
        "tensor_ratio": activity(profile.tensor, does.tensor),
        "dram_ratio": activity(profile.dram, does.dram),
        "throttle_mask": mask.astype(np.int64),
    }  # fmt: skip
