"""What NCCL's monitor (RAS) answers of a job that is asked every minute: JSON snapshots, NCCL 2.28.7 and later.

A host issues collectives ahead of its device, to the end of a step, and waits there. The monitor counts what
was issued, rank after rank, so that counts of one snapshot differ by work in flight. A device that stops
leaves all hosts at the same count: who it was is not in these counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np

from .fleet import GPUS_PER_NODE, stream

if TYPE_CHECKING:
    from .communication import CommJob

EVERY_S, SNAPSHOTS = 60, 16
STEP_S = (5.0, 40.0)  # the public traces have steps of 2 to 50 s
PAUSE_S = 480  # a checkpoint that all ranks write
HANG_S = (200.0, 420.0)
READ_S = 2.0  # how long the monitor takes to read all ranks
LATE_S = 3.0
# All-reduces of a step: over the node's ranks, over the same rank of all nodes, over the job.
PER_STEP = {"tp": 4, "dp": 1, "job": 1}
# Snapshots without an answer until the monitor declares a process dead.
UNTIL_DEAD = 2


def snapshots(job: CommJob, seed: int) -> Iterator[str]:
    """The answers, one a line."""
    random = stream(seed, f"monitor of {job.job_id}")
    ranks = len(job.nodes) * GPUS_PER_NODE
    step_s, stop_s = random.uniform(*STEP_S), random.uniform(*HANG_S)
    lag_s = random.exponential(0.3, ranks)
    if job.cause == "late_host":
        lag_s[job.rank] += LATE_S
    # Hosts reach the end of the step in which it happens; the blocked one its start or its middle.
    ends_s = np.full(ranks, step_s * np.ceil(stop_s / step_s))
    if job.cause == "blocked_host":
        ends_s[job.rank] -= step_s * random.choice([1.0, 0.5])
    for number in range(SNAPSHOTS):
        at_s = number * EVERY_S + random.uniform(0, READ_S, ranks) - lag_s
        if job.stands_still:
            at_s = np.minimum(at_s, ends_s)
        elif job.cause == "long_pause":
            at_s = np.where(at_s > ends_s + PAUSE_S, at_s - PAUSE_S, np.minimum(at_s, ends_s))
        steps = np.maximum(at_s, 0) / step_s
        yield json.dumps(_answer(job, number, steps, _silent(job, number, stop_s)))


def _silent(job: CommJob, number: int, stop_s: float) -> dict[str, bool] | None:
    """The status of the one rank that does not answer this snapshot."""
    first = int(stop_s // EVERY_S) + 1
    if job.cause == "dead_process" and number >= first:
        return {"unresponsive": True, "considered_dead": number >= first + UNTIL_DEAD}
    if job.cause == "missed_answer" and number == first:
        return {"unresponsive": True, "considered_dead": False}
    return None


def _answer(
    job: CommJob, number: int, steps: np.ndarray, silent: dict[str, bool] | None
) -> dict[str, object]:
    nodes, ranks = len(job.nodes), len(job.nodes) * GPUS_PER_NODE
    comms = [("job", 0, range(ranks))]
    comms += [("tp", n, range(n * GPUS_PER_NODE, (n + 1) * GPUS_PER_NODE)) for n in range(nodes)]
    comms += [("dp", k, range(k, ranks, GPUS_PER_NODE)) for k in range(GPUS_PER_NODE)]
    found = []
    for kind, which, members in comms:
        digest = f"0x{job.job_id:06x}{('job', 'tp', 'dp').index(kind):02x}{which:08x}"
        answered, missing = [], []
        for place, rank in enumerate(members):
            who = {"rank": place, "host": job.address(rank // GPUS_PER_NODE),
                   "pid": 1000 + rank % GPUS_PER_NODE, "cuda_dev": rank % GPUS_PER_NODE,
                   "nvml_dev": rank % GPUS_PER_NODE}  # fmt: skip
            if silent and rank == job.rank:
                missing.append(who | {"status": silent})
                continue
            status = {"init_state": 0, "async_error": 0, "finalize_called": False,
                      "destroy_flag": False, "abort_flag": False}  # fmt: skip
            issued = {"AllReduce": int(PER_STEP[kind] * steps[rank] + 1e-9)}
            answered.append(who | {"status": status, "collective_counts": issued})
        found.append({"hash": digest, "secondary_hash": digest, "size": len(members),
                      "ranks_count": len(answered), "missing_ranks_count": len(missing),
                      "ranks": answered, "missing_ranks": missing})  # fmt: skip
    at = datetime.fromtimestamp(job.start_s + number * EVERY_S, UTC)
    return {"nccl_version": "2.29.1", "timestamp": f"{at:%Y-%m-%d %H:%M:%S}",
            "communicators_count": len(found), "communicators": found,
            "ras": {"collection_time_sec": READ_S, "timeouts_count": 1 if silent else 0}}  # fmt: skip
