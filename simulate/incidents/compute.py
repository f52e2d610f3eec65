"""One GPU computes slower. `effect_ratio` e: its work of one second takes 1 / (1 - e)."""

from __future__ import annotations

from ..conditions import Conditions, Region
from ..physics import IDLE_W, MEMORY_SHARE, clock_for
from . import Incident, Kind


class ClockDeficit(Kind):
    """Below its clock with no bit set (NVSentinel issue 890; theantipopau/omencore issue 123)."""

    slows = True

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.clock[cells] *= clock_for(incident.effect_ratio)


class PowerLimit(Kind):
    """A power limit left low on one GPU (facebookexperimental/triton PR 2023: 500 of 1400 W)."""

    slows = True

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        """Power goes with the square of the clock (physics.py)."""
        dynamic_w = now.limit_w[cells] - IDLE_W
        now.limit_w[cells] = IDLE_W + dynamic_w * clock_for(incident.effect_ratio) ** 2


class ThermalSlowdown(Kind):
    """Cooling fails on one GPU: hotter, slower, and the driver says so (bit 0x20)."""

    slows = True

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.clock[cells] *= clock_for(incident.effect_ratio)
        now.inlet_c[cells] += 25
        now.thermal_bit[cells] = True


class SlowCompute(Kind):
    """Clock as it should be, but fewer results per cycle (DCGM issue 122: a third of the rate)."""

    slows = True

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        now.hidden[cells] *= clock_for(incident.effect_ratio)


class HbmSlow(Kind):
    """Memory bandwidth below the part's; the memory-bound share of each step takes longer."""

    slows = True

    def act(self, now: Conditions, cells: Region, incident: Incident) -> None:
        longer = 1 / (1 - incident.effect_ratio)
        now.memory[cells] *= MEMORY_SHARE / (longer - (1 - MEMORY_SHARE))
