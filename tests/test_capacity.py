"""Capacity replay: queues with known answers, hand-computed schedules, and when it must refuse to forecast."""

from __future__ import annotations

import heapq
import json
import math
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from fleetmark.capacity import Fleet, Limits, what_if
from fleetmark.capacity.recorded import attempts_between
from fleetmark.capacity.replay import Arrival, Replay
from fleetmark.catalog import load_catalog
from fleetmark.cli import main
from fleetmark.pipeline.build import bring_up_to_date
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store
from fleetmark.testing import EPOCH, complete, compute, parse_file, source_rows

CATALOG = load_catalog()
SAMPLES = Path(__file__).parent.parent / "samples" / "scheduler"


def drawn(rate: float, length: Callable[[random.Random], float], n: int) -> list[Arrival]:
    draw = random.Random(7)  # noqa: S311 - no secret
    now, arrivals = 0.0, []
    for _ in range(n):
        now += draw.expovariate(rate)
        run = length(draw)
        arrivals.append(Arrival(now, 1, run, run))
    return arrivals


def waits(arrivals: list[Arrival], servers: int) -> list[float]:
    starts = Replay(arrivals, servers, 0, []).run()
    pairs = zip(starts, arrivals, strict=True)
    return [start - one.ready_s for start, one in pairs if start is not None]


def test_one_server_of_fixed_length_waits_as_pollaczek_and_khinchine_say() -> None:
    """M/D/1: mean wait = rho x D / (2 (1 - rho)): 0.5 at rho 0.5."""
    found = waits(drawn(0.5, lambda _: 1.0, 40_000), 1)
    assert len(found) == 40_000
    assert sum(found) / len(found) == pytest.approx(0.5, rel=0.03)


def test_four_servers_wait_as_kiefer_and_wolfowitz_and_erlang_say() -> None:
    """M/M/4 at rho 0.7: job by job the recursion over the servers' free times; on average Erlang's C over
    (servers x rate of service - rate of arrival), to 10 % (60,000 waits that hang together scatter by 7 %).
    """
    arrivals = drawn(2.8, lambda draw: draw.expovariate(1), 60_000)
    found = waits(arrivals, 4)
    free, exact = [0.0] * 4, []
    for one in arrivals:
        start = max(free[0], one.ready_s)
        exact.append(start - one.ready_s)
        heapq.heapreplace(free, start + one.run_s)
    assert found == exact
    top = 2.8**4 / math.factorial(4) / (1 - 0.7)
    chance = top / (sum(2.8**k / math.factorial(k) for k in range(4)) + top)
    assert sum(found) / len(found) == pytest.approx(chance / (4 - 2.8), rel=0.1)


@pytest.mark.parametrize(
    ("jobs", "gpus", "per_node", "limits", "starts"),
    [
        # The second wants all 8 and waits for the first. The third is short enough to go before it, the fourth is not
        # (its limit says 200 s), although two GPUs are free from 52 on.
        ([(0, 6, 100), (1, 8, 50), (2, 2, 50), (3, 2, 200)], 8, 0, [], [0, 100, 2, 150]),
        # Two GPUs are to spare when the second starts at 100: the third may run past that.
        ([(0, 6, 100), (1, 6, 50), (2, 2, 500)], 8, 0, [], [0, 100, 2]),
        # Five of eight GPUs are taken on the first node, so 11 are free, 8 of them on one node: 8 fit, and 3 beside the five.
        ([(0, 5, 100), (1, 8, 10), (2, 3, 10)], 16, 8, [], [0, 1, 2]),
        # Five on each node: six are free and a job of four fits on neither; as one pool it would.
        ([(0, 5, 100), (0, 5, 100), (1, 4, 10)], 16, 8, [], [0, 0, 100]),
        ([(0, 5, 100), (0, 5, 100), (1, 4, 10)], 16, 0, [], [0, 0, 1]),
        # A queue that may hold four: its second job waits, without holding up the one behind.
        ([(0, 4, 100), (1, 4, 10), (2, 8, 10, 1)], 16, 0, [4, None], [0, 100, 2]),
        # More than there is: never.
        ([(0, 32, 10), (1, 8, 10)], 16, 8, [], [None, 1]),
    ],
)
def test_schedules_computed_by_hand(
    jobs: list[tuple[int, ...]],
    gpus: int,
    per_node: int,
    limits: list[int | None],
    starts: list[float | None],
) -> None:
    arrivals = [
        Arrival(ready, count, run, run, queue[0] if queue else 0)
        for ready, count, run, *queue in jobs
    ]
    assert Replay(arrivals, gpus, per_node, limits).run() == starts


def recorded(order: str = "first", n: int = 400) -> pl.DataFrame:
    """Arrivals at one server of 8 GPUs, as accounting would tell: served first come first, or last come first."""
    draw = random.Random(3)  # noqa: S311 - no secret
    now = free = 0.0
    jobs: list[tuple[float, float]] = []
    for _ in range(n):
        now += draw.expovariate(1 / 100)
        jobs.append((now, draw.expovariate(1 / 85)))
    starts: dict[int, float] = {}
    while len(starts) < n:
        waiting = [k for k in range(n) if k not in starts and jobs[k][0] <= free]
        if waiting:
            job = waiting[0 if order == "first" else -1]
        else:
            job = min(k for k in range(n) if k not in starts)
        starts[job] = max(free, jobs[job][0])
        free = starts[job] + jobs[job][1]
    start = datetime(2026, 3, 1)  # noqa: DTZ001 - UTC without zone
    rows = [
        {
            "cluster": "c", "job_id": str(k), "attempt": 1, "ready_ts": start + timedelta(seconds=jobs[k][0]),
            "start_ts": start + timedelta(seconds=starts[k]), "gpu_count": 8.0, "source": "slurm_sacct",
            "end_ts": start + timedelta(seconds=starts[k] + jobs[k][1]), "has_all_attempts": True,
        }
        for k in range(n)
    ]  # fmt: skip
    table = CATALOG.tables["capacity_arrival"]
    types = {name: table.polars_schema()[name] for name in rows[0]}
    return complete(table, pl.DataFrame(rows, schema=types))


def asked(arrivals: pl.DataFrame, gpus: int, changes: tuple[int, ...]) -> pl.DataFrame:
    ready = arrivals["ready_ts"]
    start, end = ready.min(), ready.max()
    assert isinstance(start, datetime)
    assert isinstance(end, datetime)
    rows, given_up = attempts_between(arrivals, CATALOG.tables["quota"].empty(), start, end)
    return what_if(rows, given_up, Fleet(gpus, 8, {}), changes, Limits())


def test_records_in_order_are_reproduced_and_forecast() -> None:
    found = asked(recorded(), 8, (8,))
    assert found["verdict"].to_list() == ["reproduced", "forecast"]
    assert found["error_ratio"][0] == pytest.approx(0, abs=1e-6)
    assert found["wait_mean_s"][0] == pytest.approx(found["recorded_wait_mean_s"][0])
    assert found["wait_mean_s"][1] < found["wait_mean_s"][0] / 5


def test_what_a_queue_in_order_cannot_explain_is_refused() -> None:
    """Served last come first: the same demand and mean, another spread."""
    found = asked(recorded("last"), 8, (8,))
    assert found["verdict"].to_list() == ["refused", "refused"]
    assert found["error_ratio"][0] > 0.2
    assert found["wait_mean_s"].to_list()[1] is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (pl.lit(None, pl.Float64).alias("gpu_count"), "0.0% of the attempts can be replayed"),
        (pl.lit(value=False).alias("has_all_attempts"), "earlier attempts of jobs"),
    ],
)
def test_missing_records_are_refused(change: pl.Expr, reason: str) -> None:
    found = asked(recorded(), 8, (8,)).select("verdict", "reason")
    assert found["reason"].to_list() == [None, None]
    refused = asked(recorded().with_columns(change), 8, (8,))
    assert refused["verdict"].to_list() == ["refused", "refused"]
    assert reason in refused["reason"][0]


def test_waits_of_openb_are_not_for_lack_of_gpus_and_no_forecast_is_given() -> None:
    """Alibaba's pods (samples/scheduler/openb): 6,212 GPUs, and a replay on them lets nobody wait.

    Recorded waits of the scheduled pods that wanted GPUs are seconds to minutes of the scheduler's own work.
    """
    pods = CATALOG.sources["openb_pods"]
    rows, _ = source_rows(
        pods, parse_file(pods, SAMPLES / "openb" / "openb_pod_list_default.csv.gz")
    )
    attempt = complete(
        CATALOG.tables["job_attempt"], rows["job_attempt"].drop("file_id", "line_no")
    )
    arrivals = compute(CATALOG, CATALOG.models["capacity_arrival"], {"job_attempt": attempt}, {})
    found = asked(arrivals, 6212, (-3000,))
    assert found["verdict"].to_list() == ["refused", "refused"]
    assert found["job_count"][0] > 6000
    assert found["wait_p90_s"][0] == 0 < found["recorded_wait_p90_s"][0]


SACCT = """JobID|Submit|Eligible|Start|End|State|AllocTRES|User|Account|Partition
"""


def test_the_command_answers_from_a_store(tmp_path: Path) -> None:
    lines = [SACCT.strip()]
    first = datetime(2026, 3, 2, 8)  # noqa: DTZ001 - UTC without zone
    for k in range(120):
        times = [first + timedelta(seconds=s) for s in (60 * k, 60 * k, 90 * k, 90 * k + 90)]
        shown = "|".join(time.isoformat() for time in times)
        lines.append(f"{k + 1}|{shown}|COMPLETED|gres/gpu=8,node=1|ana|lab|main")
    (tmp_path / "sacct.txt").write_text("\n".join(lines) + "\n")
    with Store(tmp_path / "store") as store:
        store.ensure(CATALOG.tables.values())
        options = {"cluster": "alpha", "tz": "UTC"}
        reports = list(
            ingest(store, CATALOG, "sacct", [tmp_path / "sacct.txt"], options, {}, EPOCH)
        )
        assert all(report.fine for report in reports), reports
        bring_up_to_date(store, CATALOG, CATALOG.models["capacity_arrival"], {})
    call = ["capacity", "--cluster", "alpha", "--today", "8", "--gpus", "+8", "--gpus", "24", "--json",
            "--store", str(tmp_path / "store")]  # fmt: skip
    result = CliRunner().invoke(main, call)
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [(row["gpu_count"], row["verdict"]) for row in rows] == [
        (8, "reproduced"), (16, "forecast"), (24, "forecast"),
    ]  # fmt: skip
    assert rows[0]["wait_mean_s"] == pytest.approx(1785)
    assert rows[1]["wait_mean_s"] == 0
    nobody = CliRunner().invoke(main, [*call[:1], "--cluster", "beta", *call[3:]])
    assert nobody.exit_code == 2
    limited = CliRunner().invoke(main, [*call, "--queue-limit", "lab=4"])
    assert limited.exit_code == 1
    assert "refused" in limited.stdout
