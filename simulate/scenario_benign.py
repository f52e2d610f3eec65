"""A month of storage access without any theft: restarts, sweeps, roll-outs, backup, conversion, new NAT."""

from __future__ import annotations

from .access import month
from .world import World


def world(seed: int, nodes: int, days: int) -> World:
    """All that happens in the month."""
    return month(seed, nodes, days, 0)
