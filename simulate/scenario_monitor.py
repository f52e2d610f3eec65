"""One job a day that NCCL's monitor (RAS) is asked about every minute: it stands still, or looks as if it did.

Jobs take all nodes, two at least. Causes come in turn; which node and rank is hit is drawn.
"""

from __future__ import annotations

from .communication import CommJob
from .fleet import DAY_S, GPUS_PER_NODE, HOUR_S, START_S, build_fleet, stream
from .jobs import FIRST_JOB_ID
from .world import World

CAUSES = (
    "dead_process", "healthy", "blocked_host", "long_pause", "dead_process", "missed_answer", "blocked_host",
    "late_host", "stuck_device",
)  # fmt: skip
LEAST_NODES = 2


def world(seed: int, nodes: int, days: int) -> World:
    """All that happens."""
    fleet = build_fleet(seed, max(nodes, LEAST_NODES), days)
    random = stream(seed, "monitor")
    jobs = tuple(
        CommJob(
            job_id=FIRST_JOB_ID + day,
            start_s=START_S + day * DAY_S + HOUR_S,
            nodes=tuple(node.name for node in fleet.nodes),
            cause=CAUSES[day % len(CAUSES)],
            place=(int(random.integers(len(fleet.nodes))), int(random.integers(GPUS_PER_NODE))),
            factor=1.0,
            is_monitored=True,
        )
        for day in range(days)
    )
    return World(fleet, (), comm_jobs=jobs)
