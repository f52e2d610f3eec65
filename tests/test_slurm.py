"""A real Slurm: its jobs end in every way, and what is pulled has the right attempts and GPU-hours."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.pull_answer import PartReport
from fleetmark.pipeline.pull_slurm import pull_slurm
from fleetmark.pipeline.slurm import SlurmCommands
from fleetmark.store import Store

from .services import slurm

CATALOG = load_catalog()
pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(not slurm.can_run(), reason=f"needs {slurm.WHY_NOT}"),
]
# What a later pull may change of a row that is over: until when it is known to stand.
BOOKKEEPING = ("file_id", "line_no", "observed_ts")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[slurm.Cluster]:
    with slurm.running() as started:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, started.environment[name])
        yield started


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def pulled(store: Store, start: datetime | None) -> list[PartReport]:
    return list(pull_slurm(store, CATALOG, SlurmCommands(os.environ), {}, start, now()))


def rows(store: Store, table: str) -> list[tuple[Any, ...]]:
    """What a table holds, less bookkeeping, in order."""
    kept = [c for c in CATALOG.tables[table].column_names if c not in BOOKKEEPING]
    names = ", ".join(f'"{name}"' for name in kept)
    return store.connection.execute(f"SELECT {names} FROM lake.{table} ORDER BY ALL").fetchall()


def attempts(store: Store, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
    """Columns of each job's attempts, in order."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    query = f"SELECT job_id, {', '.join(columns)} FROM lake.job_attempt ORDER BY job_id, attempt"
    for job_id, *values in store.connection.execute(query).fetchall():
        found.setdefault(job_id, []).append(tuple(values))
    return found


def check_nodes(store: Store) -> None:
    """The drain is known with its reason, and every node's GPUs."""
    reasons = store.connection.execute("SELECT DISTINCT reason FROM lake.node_event").fetchall()
    assert ("Xid 79 on GPU 3",) in reasons
    gpus_seen = store.connection.execute(
        "SELECT DISTINCT gpu_count FROM lake.node_state"
    ).fetchall()
    assert gpus_seen == [(8,)]


def check_orders(new_store: Callable[[str], Store], begin: datetime, whole: Store) -> None:
    """Late before early, over what is known: the same rows."""
    with new_store("other_order") as other:
        pulled(other, now() - timedelta(seconds=20))
        pulled(other, begin)
        for table in ("job_attempt", "node_event"):
            assert rows(other, table) == rows(whole, table)


def test_attempts_of_jobs_that_end_in_different_ways(
    cluster: slurm.Cluster, new_store: Callable[[str], Store], tmp_path: Path
) -> None:
    begin = now() - timedelta(minutes=1)
    with new_store("store") as store:
        gpus = "--gpus-per-node=8"
        requeued = cluster.submit(
            "-N1", gpus, "-J", "requeued", script="[ $SLURM_RESTART_COUNT ] || sleep 600"
        )
        cluster.wait(requeued, "RUNNING")
        good = cluster.submit("-N1", "--gpus=h100:3", "-J", "a|b")
        cancelled = cluster.submit("-N1", "--gpus=1", script="sleep 600")
        waiting = cluster.submit("-N2", gpus, "--begin=now+1hour")
        failed = cluster.submit("-N1", "--gpus=2", script="exit 3")
        array = cluster.submit("--array=0-2%2", "-N1", "--gpus=1", script="sleep 1")
        het = cluster.run("sbatch", "--parsable", "--output=/dev/null", "-N1", "--gpus-per-node=2", "-n1",
                          ":", "-N1", "--gpus-per-node=1", "-n1", str(_script(tmp_path)))  # fmt: skip
        cluster.wait(cancelled, "RUNNING")
        pulled(store, begin)
        cluster.run("scontrol", "requeue", requeued)
        cluster.run("scancel", cancelled, waiting)
        cluster.run("scontrol", "update", "nodename=gpu02", "state=drain", "reason=Xid 79 on GPU 3")
        cluster.wait(requeued, "PENDING")
        time.sleep(1.5)  # an outage within a second leaves no record
        cluster.run("scontrol", "update", "nodename=gpu02", "state=resume")
        # A requeued job waits two minutes of its own accord.
        cluster.run("scontrol", "update", f"jobid={requeued}", "starttime=now")
        for job in (good, failed, het, requeued):
            cluster.wait(job, "COMPLETED", "FAILED")
        slurm.until(lambda: not cluster.run("squeue", "-h", "-o", "%i"), "jobs are left", 60)
        slurm.until(lambda: _all_ended(cluster, begin), "the database lags", 20)
        pulled(store, None)

        states = {job: [s for s, *_ in runs] for job, runs in attempts(store, "state").items()}
        assert states == {
            requeued: ["REQUEUED", "COMPLETED"], good: ["COMPLETED"], cancelled: ["CANCELLED"],
            waiting: ["CANCELLED"], failed: ["FAILED"],
            **{f"{array}_{task}": ["COMPLETED"] for task in range(3)},
            f"{het}+0": ["COMPLETED"], f"{het}+1": ["COMPLETED"],
        }  # fmt: skip
        held = attempts(store, "alloc_gpus", "start_ts IS NULL", "exit_code", "elapsed_mismatch_s")
        assert [run[0] for run in held[requeued]] == [8, 8]
        assert held[good] == [(3, False, 0, 0)]
        assert held[waiting][0][:2] == (None, True)
        assert held[failed][0][2] == 3
        assert {run[0] for task in range(3) for run in held[f"{array}_{task}"]} == {1}
        assert (held[f"{het}+0"][0][0], held[f"{het}+1"][0][0]) == (2, 1)
        assert _gpu_seconds(store) == _gpu_seconds_of_sacct(cluster, begin)
        check_nodes(store)
        check_orders(new_store, begin, store)


@pytest.mark.long
def test_ends_that_take_their_time(
    cluster: slurm.Cluster, new_store: Callable[[str], Store]
) -> None:
    """Past its limit, preempted, deadline passed, node lost, suspended: about four minutes."""
    begin = now() - timedelta(minutes=1)
    with new_store("store") as store:
        slow = cluster.submit("-N1", "--gpus=1", "-t", "1", "-w", "gpu01", script="sleep 600")
        low = cluster.submit(
            "-N1", "--gpus-per-node=6", "-w", "gpu01", "-p", "low", script="sleep 30"
        )
        cluster.wait(low, "RUNNING")
        lost = cluster.submit("-N1", "--gpus=4", "-w", "gpu02", "--no-requeue", script="sleep 600")
        late = cluster.submit("-N2", "--gpus-per-node=8", "-t", "2", "--time-min=1", "--begin=now+120",
                              "--deadline=now+190", script="sleep 600")  # fmt: skip
        cluster.wait(lost, "RUNNING")
        high = cluster.submit("-N1", "--gpus-per-node=6", "-w", "gpu01", script="sleep 5")
        cluster.wait(high, "RUNNING", "COMPLETED")
        pulled(store, begin)
        held = cluster.submit("-N1", "--gpus=1", "-w", "gpu01", script="sleep 20")
        cluster.wait(held, "RUNNING")
        cluster.run("scontrol", "suspend", held)
        slurm.kill_node(cluster, "gpu02", lost)
        time.sleep(10)
        cluster.run("scontrol", "resume", held)
        cluster.wait(lost, "NODE_FAIL", limit_s=120)
        pulled(store, None)
        cluster.wait(low, "PENDING", "RUNNING", "COMPLETED")
        if cluster.state(low) == "PENDING":
            cluster.run("scontrol", "update", f"jobid={low}", "starttime=now")
        for job in (slow, held, low, late):
            cluster.wait(job, "TIMEOUT", "COMPLETED", "DEADLINE", limit_s=240)
        slurm.until(lambda: _all_ended(cluster, begin), "the database lags", 20)
        pulled(store, None)

        states = {job: [s for s, *_ in runs] for job, runs in attempts(store, "state").items()}
        assert states == {
            slow: ["TIMEOUT"], low: ["PREEMPTED", "COMPLETED"], lost: ["NODE_FAIL"],
            late: ["DEADLINE"], high: ["COMPLETED"], held: ["COMPLETED"],
        }  # fmt: skip
        (suspended,) = attempts(store, "suspended_s", "elapsed_mismatch_s")[held]
        assert suspended[0] >= 10
        assert suspended[1] == 0
        assert _gpu_seconds(store) == _gpu_seconds_of_sacct(cluster, begin)
        check_orders(new_store, begin, store)


def _script(folder: Path) -> Path:
    path = folder / "het.sh"
    path.write_text("#!/bin/sh\nsleep 2\n", encoding="utf-8")
    return path


def _all_ended(cluster: slurm.Cluster, begin: datetime) -> bool:
    """Has the database the ends of all jobs?"""
    listed = _sacct(cluster, begin, "End")
    return bool(listed) and "Unknown" not in listed


def _sacct(cluster: slurm.Cluster, begin: datetime, fields: str) -> list[str]:
    return cluster.run(
        "sacct", "-a", "-X", "-D", "-n", "-P", f"-S{begin:%Y-%m-%dT%H:%M:%S}", "-Enow+1days",
        f"--format={fields}",
    ).splitlines()  # fmt: skip


def _gpu_seconds(store: Store) -> int:
    (total,) = store.connection.execute(
        "SELECT sum(alloc_gpus * elapsed_s) FROM lake.job_attempt WHERE start_ts IS NOT NULL"
    ).fetchone() or (0,)
    return int(total)


def _gpu_seconds_of_sacct(cluster: slurm.Cluster, begin: datetime) -> int:
    """The same from Slurm's own figures: ElapsedRaw times the generic GPU count."""
    total = 0
    for line in _sacct(cluster, begin, "ElapsedRaw,AllocTRES"):
        elapsed, tres = line.split("|")
        found = [
            int(part.partition("=")[2]) for part in tres.split(",") if part.startswith("gres/gpu=")
        ]
        total += int(elapsed) * sum(found)
    return total
