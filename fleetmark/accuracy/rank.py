"""Slow ranks: on public records (rank_published.py) and of simulated jobs (rank_simulated.py)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleetmark.accuracy import rank_published, rank_simulated
from fleetmark.accuracy.interval import Measured

CLUSTERS, DAYS = 2, 3
FULL_CLUSTERS, FULL_DAYS = 27, 7


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """What is published, then CLUSTERS simulated clusters with the seeds from `seed` on."""
    return {
        **rank_published.measured(folder / "published"),
        **rank_simulated.figures(seed, CLUSTERS, DAYS, folder),
    }


def measured_in_full(seed: int, folder: Path) -> Mapping[str, Measured]:
    """The same over FULL_CLUSTERS clusters and whole weeks, for the page: a quarter of an hour of one core."""
    return {
        **rank_published.measured(folder / "published"),
        **rank_simulated.figures(seed, FULL_CLUSTERS, FULL_DAYS, folder),
    }
