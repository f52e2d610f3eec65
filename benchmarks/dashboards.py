"""How long a dashboard's figures take on a store of 1,024 GPUs and 7 days.

Made-up rows of the tables that dashboards read, as many as such a fleet makes, are served as a user would, and every target of every dashboard is
sent, all values chosen and one cluster chosen. The median and the 95th percentile of each dashboard go to stderr. Aim: 300 ms at the 95th percentile.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from statistics import median, quantiles

import requests

from fleetmark.catalog import load_catalog
from fleetmark.store import Store
from fleetmark.table import Column

from .served import served
from .workload import Goal, Work, Workload, cpu_each, own

START_MS = 1_795_000_000_000 // 86_400_000 * 86_400_000
DAY_MS = 86_400_000
ROUNDS = 3
GPUS, DAYS = 1024, 7
P95 = "ms at the 95th percentile"
JOBS, CLUSTERS = 200, ("ember", "harbour")
# Rows a GPU or the whole fleet makes a day, of the tables that are large. Others: SMALL a day.
PER_GPU = {
    "gpu_throttle_hour": 24 * 6, "gpu_clock_hour": 24, "coverage_gpu_day": 1, "gpu_memory_health_day": 1,
    "gpu_link_day": 1, "step_straggler": 1, "node_health": 1 / 8,
}  # fmt: skip
PER_DAY = {
    "goodput_cause_day": JOBS * 15, "job_goodput": JOBS, "job_mfu": JOBS, "storage_read": 100_000, "pool_level": 1440,
    "backlog": 1440, "health_event": 200, "collective_perf_day": 2000, "waiting_cost_day": JOBS * 4, "finding": 100,
    "log_coverage_hour": 24 * 20, "dataset_throughput_hour": 24 * 50, "serving_goodput_hour": 24 * 40, "ingest_file": 2000,
}  # fmt: skip
SMALL = 50
# Words that the queries ask for, by column.
WORDS = {
    "cluster": CLUSTERS, "severity": ("critical", "high", "medium", "low"), "domain": ("performance", "security"), "period": ("day",),
    "state": ("act", "watch", "clear", "unknown"), "verdict": ("slow", "not_slow", "culprit", "regressed"), "event": ("xid",),
    "cause": ("productive", "idle", "sw_thermal", "straggler", "unexplained"), "evidence": ("steps", "scheduler"),
    "gpu_model": ("H100", "all", "*"), "partition": ("*",), "qos": ("*",), "size_bucket": ("*", "1", "8"), "pool": ("H100", "any"),
    "status": ("evaluated", "not_evaluable"), "fault": ("hardware_suspected", "application"),
}  # fmt: skip
COUNTED = {"node": 8, "gpu_uuid": 1}


def value(column: Column, rows: int, gpus: int, days: int) -> str:
    """SQL for a column of row `i` of `rows`."""
    if column.type == "TIMESTAMP":
        step = DAY_MS * days / rows
        moment = f"make_timestamp((({START_MS} + i * {step}) * 1000)::BIGINT)"
        kind = next((k for k in ("month", "day", "hour") if f"{k}_ts" == column.name), None)
        return f"date_trunc('{kind}', {moment})" if kind and kind != "month" else moment
    if column.name in COUNTED and column.type == "VARCHAR":
        return f"'{column.name}-' || (i % {max(1, gpus // COUNTED[column.name])})"
    if column.name == "job_id" and column.type == "VARCHAR":
        return f"'job-' || (i % {JOBS})"
    simple = {
        "VARCHAR": f"list_extract({list(WORDS.get(column.name, _words(column)))}, (i % {len(WORDS.get(column.name, _words(column)))} + 1)::INT)",
        "BOOLEAN": "i % 2 = 0",
        "DOUBLE": "(i * 37 % 1000) / 1000.0",
        "DATE": "DATE '2026-11-01'",
        "VARCHAR[]": f"['{column.name}-' || (i % {JOBS})]",
    }
    return simple.get(
        column.type, "[]" if column.type.endswith("[]") else f"(i % 1000)::{column.type}"
    )


def _words(column: Column) -> tuple[str, ...]:
    return tuple(f"{column.name}-{n}" for n in range(20))


def fill(root: Path, gpus: int, days: int) -> int:
    """A store with the rows; how many there are."""
    texts = " ".join(sql for _, sql in targets())
    total = 0
    with Store(root) as store:
        tables = load_catalog().tables
        store.ensure(tables.values())
        for table in tables.values():
            if not re.search(rf"\b{table.name}\b", texts):
                continue
            a_day = (
                PER_GPU[table.name] * gpus
                if table.name in PER_GPU
                else PER_DAY.get(table.name, SMALL)
            )
            rows = int(a_day * days)
            columns = ", ".join(f"{value(c, rows, gpus, days)} AS {c.name}" for c in table.columns)
            sql = f"INSERT INTO lake.{table.name} SELECT {columns} FROM range({rows}) AS t(i)"  # noqa: S608 - names of contracts
            store.commit(lambda sql=sql: store.connection.execute(sql))  # type: ignore[misc]  # bound per table
            total += rows
    return total


def targets() -> Iterator[tuple[str, str]]:
    """Dashboard and SQL of every target, as the JSON has it."""
    folder = files("fleetmark.dashboards").joinpath("json")
    for path in sorted(folder.iterdir(), key=lambda p: p.name):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            for target in panel["targets"]:
                yield path.name.removesuffix(".json"), target["url_options"]["params"][0]["value"]


def chosen(sql: str, cluster: str, days: int) -> str:
    """The SQL as Grafana sends it: a cluster, or `*` for all; all of everything else."""
    sql = sql.replace("${__timeFrom}", str(START_MS)).replace(
        "${__timeTo}", str(START_MS + days * DAY_MS)
    )
    sql = sql.replace("${cluster:sqlstring}", f"'{cluster}'")
    return re.sub(r"\$\{\w+:sqlstring\}", "'*'", sql)


def p95(values: list[float]) -> float:
    """The 95th percentile, linear interpolation."""
    return quantiles(values, n=20, method="inclusive")[-1]


def prepare(folder: Path, scale: float) -> Path:
    """The store: 1,024 GPUs and 7 days at scale 1; left alone when it exists."""
    store = folder / "dashboards"
    if not store.exists():
        fill(store, max(8, round(GPUS * scale)), DAYS)
    return store


def ask_all(store: Path) -> Work:
    """Serve the store and send every target: requests, and their median and 95th percentile."""
    with served(store) as (address, server):
        before = server.cpu_s()
        took = ask(address, DAYS)
        spent = server.cpu_s() - before
    every = [one for some in took.values() for one in some]
    slowest = max(took, key=lambda board: p95(took[board]))
    for board, some in took.items():
        print(f"{board:18} {len(some):4} requests  median {median(some):7.1f} ms  p95 {p95(some):7.1f} ms"
              f"{'  slowest' if board == slowest else ''}", file=sys.stderr)  # fmt: skip
    return Work(len(every), {"ms median": median(every), P95: p95(every)}, spent)


def ask(address: str, days: int) -> dict[str, list[float]]:
    """Milliseconds of each request by dashboard, `ROUNDS` times each, one after the other.

    Raises RuntimeError for an answer that is an error.
    """
    took: dict[str, list[float]] = {}
    with requests.Session() as session:
        for _ in range(ROUNDS):
            for board, sql in targets():
                for cluster in ("*", CLUSTERS[0]):
                    begun = time.perf_counter()
                    answer = session.get(
                        f"{address}/query", params={"sql": chosen(sql, cluster, days)}, timeout=60
                    )
                    took.setdefault(board, []).append((time.perf_counter() - begun) * 1000)
                    if not answer.ok:
                        raise RuntimeError(f"{board}: {answer.text}\n{sql}")
    return took


DASHBOARDS = Workload(
    name="dashboards",
    doc="every target of every dashboard, all values chosen and one cluster chosen, one after the other from `fleetmark serve` over a "
    "store of 1,024 GPUs and 7 days at scale 1; milliseconds by the clock on the wall, CPU of the server",
    unit="requests",
    prepare=prepare,
    run=ask_all,
    goals=(Goal(P95, aim=300, of=own(P95), at_most=True), Goal("CPU s a request", of=cpu_each, at_most=True)),
    rounds=1,
    grows=False,
)  # fmt: skip
