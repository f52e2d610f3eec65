"""Every kind of fault and benign twin that telemetry shows once, on a fleet that runs one job: for trying thresholds.

The kinds follow each other in the order of their names, each for one share of the time after the
first eight hours (which make a history), one GPU or node after another.
"""

from __future__ import annotations

from .fleet import DAY_S, HOUR_S, START_S, TRAIN, build_fleet
from .incidents import Incident, kinds
from .jobs import FIRST_JOB_ID, Attempt
from .world import World

QUIET_S = 8 * HOUR_S
EFFECT = 0.10
# Whom a kind hits; one GPU where nothing is said.
EVERYBODY = {
    "fleet_cap",
    "job_slowdown",
    "data_stall",
    "checkpoint_pause",
    "warm_up",
    "uneven_work",
}
NODES = {"rack_inlet", "driver_reload", "missed_scrapes", "frozen_exporter", "uneven_stages"}
# Tenants that take time from a synchronous job slow it: here they take none.
NO_EFFECT = {"time_sliced"}
SHORT_S = {"driver_reload": 300, "missed_scrapes": 1_200, "warm_up": 600}


def world(seed: int, nodes: int, days: int) -> World:
    """One job on all nodes over the whole time, and the kinds one after the other."""
    fleet = build_fleet(seed, nodes, days)
    job = Attempt(
        FIRST_JOB_ID, 1, "llm-7b", TRAIN, "train", START_S + 60, 30 * DAY_S, len(fleet.gpus),
        12 * len(fleet.gpus), START_S + 60, START_S + 90, None, "RUNNING",
        tuple(node.name for node in fleet.nodes), fleet.gpus,
    )  # fmt: skip
    names = sorted(name for name, kind in kinds().items() if not kind.of_steps)
    share_s = (fleet.days * DAY_S - QUIET_S) / len(names)
    incidents = []
    for number, name in enumerate(names):
        start_s = START_S + QUIET_S + number * share_s
        gpu = fleet.gpus[number % len(fleet.gpus)]
        gpus = fleet.gpus if name in EVERYBODY else (gpu,)
        gpus = fleet.node(gpu.node).gpus if name in NODES else gpus
        end_s = start_s + min(SHORT_S.get(name, share_s), 0.8 * share_s)
        effect = 0.0 if name in NO_EFFECT else EFFECT
        incidents.append(Incident(name, gpus, start_s, end_s, effect))
    one_stage = {job: (0,) * len(job.gpus)}
    return World(fleet, (job,), incidents=tuple(incidents), stages=one_stage, every_s=60)
