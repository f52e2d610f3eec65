"""What a scenario makes: everything that happened, before any of it becomes a log line."""

from __future__ import annotations

from dataclasses import dataclass

from .checkpoints import Checkpoint
from .fleet import Fleet
from .jobs import Attempt
from .reads import Benign, Transfer
from .straggler_trace import Trace
from .telemetry import SickGpu


@dataclass(frozen=True, slots=True)
class Theft:
    """A checkpoint read by a principal that no job covers."""

    path: str
    checkpoint: Checkpoint
    transfer: Transfer


@dataclass(frozen=True, slots=True)
class World:
    """One consistent fleet. `transfers` holds all storage traffic, theft and benign events too."""

    fleet: Fleet
    attempts: tuple[Attempt, ...]
    checkpoints: tuple[Checkpoint, ...]
    transfers: tuple[Transfer, ...]
    sick: tuple[SickGpu, ...]
    thefts: tuple[Theft, ...]
    benign: tuple[Benign, ...]
    traces: tuple[Trace, ...]
