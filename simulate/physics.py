"""What a GPU does under given conditions: clock, time per step, activity, power.

A synchronous job takes as long for each step as its slowest GPU; the others wait for it. Per GPU:

    clock      f = least of 1 and what the power limit allows:  idle + D * leak * f^2 = limit
    computing  c = work * (m / memory + (1 - m) / (f * hidden)),  m the memory-bound share
    step       T = max over the job of c and the time in which the host holds the GPU up, plus slack
    tensor     = work / (f T): the same cycles of work, as a share of fewer cycles at a lower clock
    memory     = work / (memory T)
    power      = idle + D * leak * f^2 * (computing + WAIT_POWER * waiting), as shares of T

D is the demand at full clock. So a slow GPU shows high tensor activity and low power, its peers low
tensor activity; the work done per second is the same for all. The square lies between f (voltage
fixed) and f^3 (voltage in step with clock); WAIT_POWER, STALL_POWER, m and the spread of chips are
assumptions. Chips of one model differ by 8 % on average and 22 % at most in run time on five
clusters (Sinha et al., SC 2022, arXiv 2208.11035); here their leakage does, by 4 % (one sigma),
which shows as 2 % of clock only while the power limit binds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .conditions import Conditions, Floats, Region

MEMORY_SHARE = 0.35
WAIT_POWER, STALL_POWER = 0.5, 0.2
WAIT_SM = 0.9  # NCCL kernels keep multiprocessors resident while they wait
WAIT_MEMORY = 0.05
LEAK_SPREAD = 0.04
LEAK_PER_C = 0.004  # leakage power per degree of air temperature
IDLE_W = 64.0  # published quantiles (telemetry.py), percentile 14


@dataclass(frozen=True, slots=True)
class Load:
    """What a block of cells (scrapes by GPUs) does; ratios of the job's nominal values.

    clock, tensor, dram, sm    of full clock and of the profile's activities
    power_w                    mean board power
    compute                    computing time of a step, of the nominal
    capped                     the power limit binds
    """

    clock: Floats
    tensor: Floats
    dram: Floats
    sm: Floats
    power_w: Floats
    compute: Floats
    capped: NDArray[np.bool_]


def compute_for(clock: float) -> float:
    """Computing time of a step at a share of the usual clock, of the usual time."""
    return MEMORY_SHARE + (1 - MEMORY_SHARE) / clock


def clock_for(effect_ratio: float) -> float:
    """The share of the usual clock at which a step's computing takes 1 / (1 - effect_ratio)."""
    return (1 - MEMORY_SHARE) / (1 / (1 - effect_ratio) - MEMORY_SHARE)


def load(
    now: Conditions, cells: Region, demand_w: Floats, leak: Floats, *, synchronous: bool
) -> Load:
    """The load of one job's cells.

    `demand_w` is the power of a mean chip at full clock, scrapes by GPUs (or by 1, if it is the job's).
    """
    hot = leak[None, :] * (1 + LEAK_PER_C * now.inlet_c[cells])
    dynamic_w = (demand_w - IDLE_W) * hot
    allowed = np.sqrt((now.limit_w[cells] - IDLE_W) / dynamic_w)
    clock = np.minimum(1, allowed) * now.clock[cells]
    hidden = now.hidden[cells]
    work = now.work[cells]
    compute = work * (MEMORY_SHARE / now.memory[cells] + (1 - MEMORY_SHARE) / (clock * hidden))
    held = now.held[cells]
    taken = compute + held
    slowest = taken.max(axis=1, keepdims=True) if synchronous else taken
    step = slowest * (1 + now.slack[cells])
    active = now.active[cells]
    busy = active * compute / step
    waiting = active * (1 - taken / step)
    stalled = busy * (1 - hidden)
    return Load(
        clock=clock,
        tensor=np.asarray(active * work / (clock * step), dtype=np.float32),
        dram=active * work / (now.memory[cells] * step) + WAIT_MEMORY * waiting,
        sm=busy + WAIT_SM * waiting,
        power_w=IDLE_W
        + dynamic_w * clock**2 * (busy - stalled + STALL_POWER * stalled + WAIT_POWER * waiting),
        compute=compute,
        capped=(allowed < 1) & (now.clock[cells] == 1),
    )
