"""The demo: the sample logs that ship, a simulated week for what no public log holds, and a report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SEED, NODES, DAYS = 1, 2, 7
SIMULATED = "simulated-week"


@dataclass(frozen=True, slots=True)
class Sample:
    """Files below `samples/` and what has to be stated about them."""

    source: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)
