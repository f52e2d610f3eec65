"""What five questions cost on stored telemetry, beside the scan of everything they could read.

The lake of storage.py (1,024 GPUs x 4 fields x 6 h at 15 s at scale 1), asked through DuckLake as any client asks
it. Answers are compared with NumPy's on the drawn series. A ratio is stored as a binary fraction that rounds to what
was printed, so the fourth question rounds before it compares. Prometheus 2.42 and VictoriaMetrics 1.79 answered
the same questions in 0.29 and 0.095 CPU s (Q1), 0.095 and 0.03 (Q2): on questions about one signal VictoriaMetrics stays ahead.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetmark.store import Store

from . import storage
from .workload import Goal, Work, Workload, cpu_share

TIMES = 10
PER_BUCKET = 20  # scrapes in five minutes
_WINDOW = "time_bucket(INTERVAL 5 MINUTE, ts) AS window_ts"
QUESTIONS = {
    "q0": "SELECT sum(gpu_busy_ratio), sum(gpu_temp_c), sum(power_w), sum(tensor_active_ratio) FROM lake.gpu_sample",
    "q1": f"SELECT node, window_ts, max(p99) AS v FROM (SELECT node, gpu_uuid, {_WINDOW}, quantile_cont(power_w, 0.99) AS p99 "  # noqa: S608 - constants of this file
    "FROM lake.gpu_sample GROUP BY ALL) GROUP BY ALL ORDER BY ALL",
    "q2": f"SELECT node, {_WINDOW}, avg(gpu_busy_ratio) AS v FROM lake.gpu_sample GROUP BY ALL ORDER BY ALL",  # noqa: S608 - see q1
    "q3": "SELECT node, window_ts, max(p99), max(b), max(t), max(a) FROM (SELECT node, gpu_uuid, "  # noqa: S608 - see q1
    f"{_WINDOW}, quantile_cont(power_w, 0.99) AS p99, quantile_cont(gpu_busy_ratio, 0.99) AS b, quantile_cont(gpu_temp_c, 0.99) AS t, "
    "quantile_cont(tensor_active_ratio, 0.99) AS a FROM lake.gpu_sample GROUP BY ALL) GROUP BY ALL ORDER BY ALL",
    "q4": "SELECT ts, count(*) AS v FROM lake.gpu_sample WHERE round(gpu_busy_ratio, 2) < 0.1 AND power_w > 130 GROUP BY ts ORDER BY ts",
    "q5": "SELECT ts, gpu_uuid, gpu_busy_ratio, gpu_temp_c, power_w, tensor_active_ratio FROM lake.gpu_sample "
    "WHERE node = 'gpu-node-0' ORDER BY ALL",
}  # fmt: skip
DOCS = {
    "q0": "the sum of all four columns: the raw scan",
    "q1": "p99 of power per GPU in 5 minutes, the worst of each node",
    "q2": "mean utilisation by node in 5 minutes",
    "q3": "the first question for all four fields",
    "q4": "GPUs with utilisation below 10 % and power above 130 W at each scrape",
    "q5": "one node, every field, every sample",
}
LIMIT_BYTES = 256 << 20


def prepare(folder: Path, scale: float) -> Path:
    """The lake, filled, and NumPy's answers beside it; left alone when they exist."""
    path = folder / "answers.json"
    if not path.exists():
        gpus = storage.prepare(folder, scale)
        storage.into_lake(storage.load(gpus))
        grids = storage.values(int(gpus.read_text(encoding="utf-8")))
        answers = {name: expected(name, grids) for name in QUESTIONS}
        path.write_text(json.dumps(answers), encoding="utf-8")
    return path


def _windows(grid: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return grid.reshape(len(grid) // storage.PER_NODE, storage.PER_NODE, -1, PER_BUCKET)


def expected(name: str, grids: storage.Grids) -> float:
    """NumPy's answer to a question, added up."""
    busy, _, power, _ = grids.values()
    p99 = {
        key: np.quantile(_windows(grid), 0.99, axis=3).max(axis=1) for key, grid in grids.items()
    }
    answers: dict[str, Callable[[], float]] = {
        "q0": lambda: sum(float(grid.sum()) for grid in grids.values()),
        "q1": lambda: float(p99["power_w"].sum()),
        "q2": lambda: float(_windows(busy).mean(axis=(1, 3)).sum()),
        "q3": lambda: sum(float(grid.sum()) for grid in p99.values()),
        "q4": lambda: float(((busy < 0.1) & (power > 130)).sum()),
        "q5": lambda: sum(float(grid[: storage.PER_NODE].sum()) for grid in grids.values()),
    }
    return answers[name]()


def load(path: Path, *, name: str) -> tuple[Store, str, float]:
    """The open store, the question, asked once before the clock starts, and NumPy's answer."""
    store = Store(path.with_name("gpu-lake"), read_only=True)
    store.connection.execute(QUESTIONS[name]).fetchall()
    return store, QUESTIONS[name], json.loads(path.read_text(encoding="utf-8"))[name]


def ask(given: tuple[Store, str, float]) -> Work:
    """Ask `TIMES` times. Raises RuntimeError when the answer is not NumPy's."""
    store, sql, wanted = given
    rows: list[tuple[Any, ...]] = []
    for _ in range(TIMES):
        rows = store.connection.execute(sql).fetchall()
    total = sum(value for row in rows for value in row if isinstance(value, int | float))
    if abs(total - wanted) > 1e-6 * abs(wanted):
        raise RuntimeError(f"{sql}: the answer adds up to {total}, NumPy's to {wanted}")
    return Work(TIMES, {"rows": float(len(rows))})


def _question(name: str, *goals: Goal) -> Workload:
    return Workload(
        name=name,
        doc=f"{DOCS[name]}, ten times over 1,024 GPUs x 4 fields x 6 h in the lake",
        unit="queries",
        prepare=prepare,
        load=partial(load, name=name),
        run=ask,
        goals=goals,
        peak_limit_bytes=LIMIT_BYTES,
    )


Q0 = _question("q0", Goal("x REF"))


def _of_prometheus(name: str) -> Goal:
    return Goal("of Prometheus' CPU", 0.6, of=cpu_share, beside=f"prometheus_{name}", at_most=True)


Q1 = _question(
    "q1",
    Goal("of q0's CPU", aim=3, of=cpu_share, beside="q0", at_most=True),
    _of_prometheus("q1"),
)
Q2 = _question(
    "q2",
    Goal("of q0's CPU", aim=1.3, of=cpu_share, beside="q0", at_most=True),
    _of_prometheus("q2"),
)
Q3 = _question("q3", Goal("of q1's CPU", of=cpu_share, beside="q1", at_most=True))
Q4 = _question("q4", Goal("of q0's CPU", of=cpu_share, beside="q0", at_most=True))
Q5 = _question("q5", Goal("of q0's CPU", of=cpu_share, beside="q0", at_most=True))
