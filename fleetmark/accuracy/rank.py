"""Slow ranks, links and hangs: on public records (rank_published.py) and of simulated jobs.

rank_simulated.py judges step records and telemetry, rank_communication.py what libraries record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleetmark.accuracy import rank_communication, rank_published, rank_simulated
from fleetmark.accuracy.interval import Measured

CLUSTERS, DAYS, COMM_JOBS = 2, 3, 16
FULL_CLUSTERS, FULL_DAYS, FULL_COMM_JOBS = 27, 7, 800


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """What is published, CLUSTERS simulated clusters with the seeds from `seed` on, COMM_JOBS more jobs."""
    return {
        **rank_published.measured(folder / "published"),
        **rank_simulated.figures(seed, CLUSTERS, DAYS, folder),
        **rank_communication.figures(seed, COMM_JOBS, folder / "communication"),
    }


def measured_in_full(seed: int, folder: Path) -> Mapping[str, Measured]:
    """The same over FULL_CLUSTERS clusters and whole weeks, for the page: a quarter of an hour of one core."""
    return {
        **rank_published.measured(folder / "published"),
        **rank_simulated.figures(seed, FULL_CLUSTERS, FULL_DAYS, folder),
        **rank_communication.figures(seed, FULL_COMM_JOBS, folder / "communication"),
    }
