"""What communication libraries record of jobs with a slow link, a slow NIC or a dead rank.

A job has eight ranks on each of its nodes. Rank k of each node talks to rank k of the others through its own
NIC: one all-reduce ring over all nodes, and a send and receive with either neighbour. The recorder writes both
(NCCL Inspector, format v4.2). A job that stands still leaves a Flight Recorder dump per rank instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .fleet import GPUS_PER_NODE, stream
from .monitor import snapshots

STEPS = 24  # operations of each communicator
SIZE_BYTES = 64 << 20
BUSBW_BYTES_PER_S = 40e9  # of a 400 Gb/s NIC
COMM_SPREAD, OP_NOISE = (
    0.02,
    0.04,
)  # standard deviations, between communicators and between operations
WAIT_S = 2e-3  # mean wait for the last to arrive
HANG_STEPS, TIMEOUT_S = 5, 600


@dataclass(frozen=True, slots=True)
class CommJob:
    """A job, what happens to it, and to whom.

    cause     slow_nic, slow_link, dead_gpu, blocked_host; or of nobody's fault: healthy, job_slow (all its
              links), late_rank (one rank arrives late every time), stuck_fabric (all wait, none finishes)
    place     node (of slow_link: between it and the next) and rank on the node
              or, of jobs that the library's monitor is asked about (monitor.py), dead_process, blocked_host;
              of nobody's fault: healthy, late_host, long_pause, missed_answer; stuck_device (a device, which
              the monitor does not show)
    factor    bandwidth left
    """

    job_id: int
    start_s: float
    nodes: tuple[str, ...]
    cause: str
    place: tuple[int, int]
    factor: float
    is_monitored: bool = False

    @property
    def rank(self) -> int:
        return self.place[0] * GPUS_PER_NODE + self.place[1]

    @property
    def hangs(self) -> bool:
        return self.cause in {"dead_gpu", "blocked_host", "stuck_fabric"}

    @property
    def stands_still(self) -> bool:
        """Of jobs that the monitor is asked about: does nobody go on?"""
        return self.cause in {"dead_process", "blocked_host", "stuck_device"}

    def address(self, node: int) -> str:
        """The monitor names hosts by address."""
        return f"10.0.{node // 250}.{node % 250 + 1}"

    @property
    def accused(self) -> str:
        """The element that is right to name; empty where there is none."""
        node, local = self.place
        if self.is_monitored:
            is_fault = self.cause in {"dead_process", "blocked_host"}
            return f"{self.address(node)}/{1000 + local}" if is_fault else ""
        ends = [f"{self.nodes[n % len(self.nodes)]}/{1000 + local}" for n in (node, node + 1)]
        if self.cause == "slow_link":
            return ">".join(ends)
        if self.cause == "slow_nic":
            return ends[0]
        return f"rank {self.rank}" if self.cause in {"dead_gpu", "blocked_host"} else ""


def write(jobs: Sequence[CommJob], seed: int, folder: Path) -> None:
    """`nccl/JOB/NODE.jsonl` per node; `flight_recorder/JOB/dump_RANK` per rank; `ras/JOB/answers.json`."""
    for job in jobs:
        if job.is_monitored:
            mine = folder / "ras" / str(job.job_id)
            mine.mkdir(parents=True)
            (mine / "answers.json").write_text("\n".join(snapshots(job, seed)) + "\n", "utf-8")
            continue
        kind = "flight_recorder" if job.hangs else "nccl"
        mine = folder / kind / str(job.job_id)
        mine.mkdir(parents=True)
        files = dumps(job) if job.hangs else records(job, seed)
        for name, text in files:
            (mine / name).write_text(text, "utf-8")


def records(job: CommJob, seed: int) -> Iterator[tuple[str, str]]:
    """Lines of the recorder; those of a node's processes are in one file, as a log shipper leaves them."""
    random = stream(seed, f"communication of {job.job_id}")
    lines: dict[int, list[str]] = {}
    count = len(job.nodes)
    for local in range(GPUS_PER_NODE):
        pairs = [(n, (n + 1) % count) for n in range(count)]
        for number, members in enumerate([tuple(range(count)), *pairs]):
            left = job.factor if _is_hit(job, members, local, is_ring=number == 0) else 1.0
            busbw = BUSBW_BYTES_PER_S * left * np.exp(random.normal(0, COMM_SPREAD))
            rates = busbw * np.exp(random.normal(0, OP_NOISE, STEPS))
            waits_s = random.exponential(WAIT_S, (STEPS, len(members)))
            if job.cause == "late_rank" and job.place[0] in members and job.place[1] == local:
                waits_s += 0.02
                waits_s[:, members.index(job.place[0])] = 0
            waits_s -= waits_s.min(axis=1, keepdims=True)
            for step in range(STEPS):
                for place, node in enumerate(members):
                    head = _head(job, node, local, (number, place, len(members)), step)
                    body = _body(
                        number, place, step, rates[step], waits_s[step, place], len(members)
                    )
                    lines.setdefault(node, []).append(json.dumps({**head, **body}))
    for node, text in lines.items():
        yield f"{job.nodes[node]}.jsonl", "\n".join(text) + "\n"


def _is_hit(job: CommJob, members: tuple[int, ...], local: int, *, is_ring: bool) -> bool:
    """Whether the slow part carries this communicator's traffic."""
    node, rail = job.place
    if job.cause == "job_slow":
        return True
    if rail != local:
        return False
    if job.cause == "slow_nic":
        return node in members
    return job.cause == "slow_link" and (is_ring or members == (node, (node + 1) % len(job.nodes)))


def _head(
    job: CommJob, node: int, local: int, comm: tuple[int, int, int], step: int
) -> dict[str, object]:
    number, place, n_ranks = comm
    digits = f"{job.job_id:08x}{local:02x}{number:04x}"
    return {
        "header": {"id": f"0x{digits}", "rank": place, "n_ranks": n_ranks, "nnodes": n_ranks},
        "metadata": {"inspector_output_format_version": "v4.2", "hostname": job.nodes[node],
                     "pid": 1000 + local, "dump_timestamp_us": int((job.start_s + 60 * step) * 1e6)},
    }  # fmt: skip


def _body(
    number: int, place: int, step: int, rate: float, wait_s: float, n_ranks: int
) -> dict[str, object]:
    if number == 0:
        exec_s = SIZE_BYTES * 2 * (n_ranks - 1) / n_ranks / rate + wait_s
        return {"coll_perf": {"coll": "AllReduce", "coll_sn": step, "coll_msg_size_bytes": SIZE_BYTES,
                "coll_exec_time_us": round(exec_s * 1e6), "coll_timing_source": "kernel_gpu",
                "coll_algobw_gbs": SIZE_BYTES / exec_s / 1e9,
                "coll_busbw_gbs": SIZE_BYTES * 2 * (n_ranks - 1) / n_ranks / exec_s / 1e9}}  # fmt: skip
    exec_s = SIZE_BYTES / rate + wait_s
    return {"p2p_perf": {"p2p": ("Send", "Recv")[place], "p2p_peer": 1 - place, "p2p_sn": step,
            "p2p_msg_size_bytes": SIZE_BYTES, "p2p_exec_time_us": round(exec_s * 1e6),
            "p2p_timing_source": "kernel_gpu", "p2p_algobw_gbs": SIZE_BYTES / exec_s / 1e9,
            "p2p_busbw_gbs": SIZE_BYTES / exec_s / 1e9}}  # fmt: skip


def dumps(job: CommJob) -> Iterator[tuple[str, str]]:
    """Flight Recorder dumps as JSON, one per rank, of a job that stands still.

    Every step has an all-reduce over the node's ranks, one over the same rank of all nodes and one over
    the job. Hosts issue to the end of the step and wait there; a device does one after the other.
    """
    ranks = len(job.nodes) * GPUS_PER_NODE
    groups = {
        "0": ("default_pg", tuple(range(ranks))),
        **{f"{1 + n}": ("tp", tuple(range(n * GPUS_PER_NODE, (n + 1) * GPUS_PER_NODE)))
           for n in range(len(job.nodes))},
        **{f"{1 + len(job.nodes) + k}": ("dp", tuple(range(k, ranks, GPUS_PER_NODE)))
           for k in range(GPUS_PER_NODE)},
    }  # fmt: skip
    enqueued = {
        (name, rank): HANG_STEPS for name, (_, members) in groups.items() for rank in members
    }
    completed = dict.fromkeys(enqueued, HANG_STEPS - 1)
    own = str(1 + job.place[0])
    if job.cause == "blocked_host":
        # It stops between two steps: nothing of the last one is issued.
        enqueued |= {key: HANG_STEPS - 1 for key in enqueued if key[1] == job.rank}
    if job.cause != "stuck_fabric":
        # Nodes without the culprit get through the step's first all-reduce, so do its peers of a dead device.
        finished = {key for key in completed if groups[key[0]][0] == "tp" and key[0] != own}
        if job.cause == "dead_gpu":
            finished |= {key for key in completed if key[0] == own and key[1] != job.rank}
        rails = {
            name
            for name, (desc, members) in groups.items()
            if desc == "dp" and job.rank not in members
        }
        if job.cause == "dead_gpu":
            finished |= {key for key in completed if key[0] in rails}
        completed |= dict.fromkeys(finished, HANG_STEPS)
    for rank in range(ranks):
        yield f"dump_{rank}", json.dumps(_dump(job, rank, groups, enqueued, completed))


def _dump(
    job: CommJob,
    rank: int,
    groups: dict[str, tuple[str, tuple[int, ...]]],
    enqueued: dict[tuple[str, int], int],
    completed: dict[tuple[str, int], int],
) -> dict[str, object]:
    mine = {name: group for name, group in groups.items() if rank in group[1]}
    entries: list[dict[str, object]] = []
    for step in range(1, HANG_STEPS + 1):
        for name, (desc, _) in sorted(
            mine.items(), key=lambda item: ("tp", "dp", "default_pg").index(item[1][0])
        ):
            if step > enqueued[name, rank]:
                continue
            created_ns = int((job.start_s + step + 0.001 * len(entries)) * 1e9)
            is_done = step <= completed[name, rank]
            entries.append({
                "record_id": len(entries), "pg_id": int(name), "process_group": [name, desc],
                "collective_seq_id": step, "p2p_seq_id": 0, "op_id": step, "is_p2p": False,
                "profiling_name": "nccl:all_reduce", "time_created_ns": created_ns,
                "duration_ms": 1.0 if is_done else 0, "input_sizes": [[1024]], "output_sizes": [[1024]],
                "input_dtypes": ["Float"], "output_dtypes": ["Float"], "retired": is_done,
                "state": "completed" if is_done else "started", "timeout_ms": 1000 * TIMEOUT_S,
                "time_discovered_started_ns": created_ns,
                "time_discovered_completed_ns": created_ns + 10**6 if is_done else 0,
            })  # fmt: skip
    return {
        "version": "2.10", "comm_lib_version": "2.28.9", "entries": entries,
        "pg_config": {n: {"name": n, "desc": d, "ranks": str(list(m))} for n, (d, m) in mine.items()},
        "pg_status": {n: {"last_enqueued_collective": str(enqueued[n, rank]),
                          "last_started_collective": str(enqueued[n, rank]),
                          "last_completed_collective": str(completed[n, rank])} for n in mine},
    }  # fmt: skip
