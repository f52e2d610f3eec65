"""What acts on the GPUs of a fleet, scrape by scrape, before any sensor reads it.

Arrays are scrapes by GPUs; 1 (or the part's own limit) is what a healthy GPU sees. Incidents
(`incidents/`) change them, `telemetry` turns them into readings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from .fleet import Fleet, Gpu

Floats = NDArray[np.float32]
Region = tuple[NDArray[np.int64], ...]

POWER_LIMIT_W = 400.0  # A100-SXM4


@dataclass(frozen=True, slots=True)
class Conditions:
    """State of the fleet, all in arrays of scrapes by GPUs.

    ts_s           when the GPU's node was scraped; nodes take their turn within the interval
    work           work given to the GPU, of what its peers are given
    clock          clock reached, of what power and chip allow
    memory         memory bandwidth, of the part's
    hidden         work done per cycle, of what it should be
    active         share of time in which the job runs at all (not in a checkpoint, not starved)
    held           time of a step in which the host gives the GPU nothing to do, of the nominal computing
    slack          time of a step that is no computing of its own, as a share of the step's computing
    limit_w        power limit in force
    inlet_c        air temperature above the room's usual
    thermal_bit    the driver slows it for heat
    reload         the driver restarted just before this scrape: counters begin anew
    """

    ts_s: NDArray[np.float64]
    gpus: tuple[Gpu, ...]
    work: Floats
    clock: Floats
    memory: Floats
    hidden: Floats
    active: Floats
    held: Floats
    slack: Floats
    limit_w: Floats
    inlet_c: Floats
    thermal_bit: NDArray[np.bool_]
    reload: NDArray[np.bool_]

    def regions(self, gpus: Sequence[Gpu], start_s: float, end_s: float) -> Iterator[Region]:
        """Index of some GPUs' cells in a time span, node by node, for all arrays."""
        for _, part in groupby(sorted(gpus), key=lambda gpu: gpu.node):
            places = columns(self.gpus, tuple(part))
            first, last = np.searchsorted(self.ts_s[:, places[0]], (start_s, end_s))
            if first < last:
                yield np.ix_(np.arange(first, last), places)


def columns(fleet: Sequence[Gpu], gpus: Sequence[Gpu]) -> NDArray[np.int64]:
    """Positions of `gpus` in the fleet's order."""
    place = {gpu.uuid: number for number, gpu in enumerate(fleet)}
    return np.array([place[gpu.uuid] for gpu in gpus], dtype=np.int64)


def calm(fleet: Fleet, ts_s: NDArray[np.float64]) -> Conditions:
    """A fleet in which nothing happens."""
    shape = ts_s.shape

    def filled(value: float) -> Floats:
        return np.full(shape, value, dtype=np.float32)

    return Conditions(
        ts_s=ts_s,
        gpus=fleet.gpus,
        work=filled(1),
        clock=filled(1),
        memory=filled(1),
        hidden=filled(1),
        active=filled(1),
        held=filled(0),
        slack=filled(0.08),
        limit_w=filled(POWER_LIMIT_W),
        inlet_c=filled(0),
        thermal_bit=np.zeros(shape, dtype=np.bool_),
        reload=np.zeros(shape, dtype=np.bool_),
    )
