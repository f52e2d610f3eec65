"""Slow ranks, links and hangs: on public records (rank_published.py) and of simulated jobs.

rank_simulated.py judges step records and telemetry, rank_communication.py what libraries record, rank_monitor.py
what their monitor answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fleetmark.accuracy import rank_communication, rank_monitor, rank_published, rank_simulated
from fleetmark.accuracy.interval import Measured

CLUSTERS, DAYS, COMM_JOBS, MONITOR_JOBS = 2, 3, 16, 18
FULL_CLUSTERS, FULL_DAYS, FULL_COMM_JOBS, FULL_MONITOR_JOBS = 27, 7, 800, 450


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """What is published, CLUSTERS simulated clusters with the seeds from `seed` on, COMM_JOBS and MONITOR_JOBS more jobs."""
    return {
        **rank_published.measured(folder / "published"),
        **rank_simulated.figures(seed, CLUSTERS, DAYS, folder),
        **rank_communication.figures(seed, COMM_JOBS, folder / "communication"),
        **rank_monitor.figures(seed, MONITOR_JOBS, folder / "monitor"),
    }


def measured_in_full(seed: int, folder: Path) -> Mapping[str, Measured]:
    """The same over FULL_CLUSTERS clusters and whole weeks, for the page: a quarter of an hour of one core."""
    return {
        **rank_published.measured(folder / "published"),
        **rank_simulated.figures(seed, FULL_CLUSTERS, FULL_DAYS, folder),
        **rank_communication.figures(seed, FULL_COMM_JOBS, folder / "communication"),
        **rank_monitor.figures(seed, FULL_MONITOR_JOBS, folder / "monitor"),
    }
