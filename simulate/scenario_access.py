"""A month of storage access by ten people a node: jobs, looks at files, and thefts of four kinds.

Theft over the month, by five to eight principals together, and inside a lawful job, 11 of each on 30
nodes, and five times as many in bulk.
"""

from __future__ import annotations

from .access import PEOPLE_PER_NODE, month
from .world import World

PEOPLE_PER_THEFT = 27


def world(seed: int, nodes: int, days: int) -> World:
    """All that happens in the month; thefts need 16 days and more, and 28 to be slow."""
    return month(seed, nodes, max(days, 16), nodes * PEOPLE_PER_NODE // PEOPLE_PER_THEFT)
