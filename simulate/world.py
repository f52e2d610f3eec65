"""What a scenario makes: everything that happened, before any of it becomes a log line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .checkpoints import Checkpoint
from .communication import CommJob
from .fleet import Fleet
from .flows import Flow
from .incidents import Incident
from .jobs import Attempt
from .layout import Layout
from .reads import Benign, Transfer
from .straggler_trace import Trace
from .telemetry import SickGpu


@dataclass(frozen=True, slots=True)
class Theft:
    """Reads of a checkpoint that nobody asked for; transfers of one theft share its number."""

    path: str
    checkpoint: Checkpoint
    transfer: Transfer
    number: int = 0


@dataclass(frozen=True, slots=True)
class RankFault:
    """What makes ranks of a job slow: `slower` is how much longer their work takes at full effect."""

    cause: str
    job: Attempt
    slower: float
    incidents: tuple[Incident, ...]

    @property
    def span(self) -> Incident:
        """Whom it hits, and when."""
        return self.incidents[0]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(n for n, gpu in enumerate(self.job.gpus) if gpu in self.span.gpus)


@dataclass(frozen=True, slots=True)
class World:
    """One consistent fleet.

    transfers   all storage traffic, theft and benign events too
    incidents   what happens to GPUs beside `sick`, faults and their benign twins
    stages      for jobs that record their steps: the pipeline stage of each of their GPUs
    layouts     for jobs that record whole steps: how they are split, and how long their steps are
    rank_faults     which of the incidents make ranks of those jobs slow
    flows       what nodes sent to the outside
    comm_jobs   jobs of which communication libraries left records
    every_s     how often exporters are scraped; None: as telemetry.scrape_interval_s says
    """

    fleet: Fleet
    attempts: tuple[Attempt, ...]
    checkpoints: tuple[Checkpoint, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    sick: tuple[SickGpu, ...] = ()
    thefts: tuple[Theft, ...] = ()
    benign: tuple[Benign, ...] = ()
    traces: tuple[Trace, ...] = ()
    incidents: tuple[Incident, ...] = ()
    stages: Mapping[Attempt, tuple[int, ...]] = field(default_factory=dict)
    layouts: Mapping[Attempt, Layout] = field(default_factory=dict)
    rank_faults: tuple[RankFault, ...] = ()
    every_s: int | None = None
    comm_jobs: tuple[CommJob, ...] = ()
    flows: tuple[Flow, ...] = ()

    @property
    def all_incidents(self) -> tuple[Incident, ...]:
        """Sick GPUs included."""
        return (*self.incidents, *(sick.incident for sick in self.sick))
