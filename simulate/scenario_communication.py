"""One job a day with a slow NIC, a slow link or a hang, or with what looks like one: what libraries record.

Jobs take all nodes, four at least: with fewer, neighbours cannot tell a link from its ends. Causes come in
turn; which node and rank is hit, and how much bandwidth is left (0.3 to 0.7), is drawn.
"""

from __future__ import annotations

from .communication import CommJob
from .fleet import DAY_S, GPUS_PER_NODE, HOUR_S, START_S, build_fleet, stream
from .jobs import FIRST_JOB_ID
from .world import World

CAUSES = (
    "slow_nic", "dead_gpu", "slow_link", "blocked_host", "healthy", "stuck_fabric", "job_slow", "late_rank",
)  # fmt: skip
LEAST_NODES = 4


def world(seed: int, nodes: int, days: int) -> World:
    """All that happens."""
    fleet = build_fleet(seed, max(nodes, LEAST_NODES), days)
    random = stream(seed, "communication")
    jobs = tuple(
        CommJob(
            job_id=FIRST_JOB_ID + day,
            start_s=START_S + day * DAY_S + HOUR_S,
            nodes=tuple(node.name for node in fleet.nodes),
            cause=CAUSES[day % len(CAUSES)],
            place=(int(random.integers(len(fleet.nodes))), int(random.integers(GPUS_PER_NODE))),
            factor=float(random.uniform(0.3, 0.7)),
        )
        for day in range(days)
    )
    return World(fleet, (), comm_jobs=jobs)
