"""Kinds of work and the published levels they draw from.

Levels come from published quantiles of a production A100 cluster (Kalos): InternLM/
AcmeTrace@6d6ac9c:data/utilization/util_pkl/ (CC-BY-4.0, Hu et al., NSDI 2024), 1000 quantiles of
power and temperatures. Each kind of job draws its power demand from its own band of percentiles;
idle GPUs from the lowest 28 percent, in which the cluster's own GPU_UTIL is 0. Activity per kind of
job is an assumption; no public capture holds it.
"""

from __future__ import annotations

from dataclasses import dataclass

PERCENT = (0, 1, 5, 10, 20, 28, 34, 40, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 99, 100)
POWER_W = (55.7, 60.2, 61.9, 63.0, 65.0, 69.3, 89.0, 94.0, 101.5, 120.0, 149.5, 237.9, 326.3,
           372.2, 388.8, 396.8, 403.7, 413.3, 441.8, 599.7)  # fmt: skip
GPU_TEMP_C = (15, 22, 25, 27, 29, 31, 34, 36, 40, 42, 44, 47, 49, 51, 54, 56, 58, 62, 66, 79)
MEMORY_TEMP_C = (19, 30, 40, 42, 44, 46, 48, 49, 51, 52, 53, 55, 56, 57, 58, 60, 61, 64, 67, 80)


@dataclass(frozen=True, slots=True)
class Profile:
    """A kind of work: its band of power percentiles and its mean activity ratios.

    In synchronous work every step waits for the job's slowest GPU.
    """

    low: float
    high: float
    util_percent: float
    sm: float
    tensor: float
    dram: float
    fb: float
    synchronous: bool = True


IDLE = Profile(0, 28, 0, 0, 0, 0, 0.006)
PROFILES = {
    "train": Profile(72, 99, 100, 0.80, 0.44, 0.46, 0.78),
    "finetune": Profile(62, 92, 97, 0.66, 0.31, 0.40, 0.70),
    "eval": Profile(55, 74, 90, 0.45, 0.15, 0.42, 0.45, synchronous=False),
    "serve": Profile(50, 66, 75, 0.35, 0.10, 0.50, 0.88, synchronous=False),
    "notebook": Profile(34, 55, 20, 0.08, 0.02, 0.05, 0.20, synchronous=False),
    "debug": Profile(36, 60, 45, 0.20, 0.05, 0.12, 0.30, synchronous=False),
}
