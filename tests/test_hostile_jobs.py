"""Made-up jobs as hostile as records get: what must hold of every figure that is drawn from them."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import product

import numpy as np
import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute, differences

CATALOG = load_catalog()
MIDNIGHT = datetime(2026, 3, 2)  # noqa: DTZ001 - UTC without zone
# Models in the order in which each finds its inputs.
CHAIN = (
    "step_ratio",
    "step_straggler",
    "job_straggler",
    "sdc_suspect",
    "host_wait_rank_day",
    "collective_wait",
    "waiting_cost_day",
    "arrival_rank_day",
)


def hostile(seed: int) -> dict[str, pl.DataFrame]:
    """Steps around midnight, hosts seconds apart, gaps, zeros, one-rank stages, restarts that renumber."""
    chance = np.random.default_rng(seed)
    steps, kernels = [], []
    for cluster, ranks, stages, attempt in (("a", 8, 8, 1), ("b", 8, 2, 1), ("b", 6, 1, 2)):
        skew = chance.normal(0, 3, ranks)
        for step, rank in product(range(60), range(ranks)):
            if chance.random() < 0.05:
                continue
            ts = MIDNIGHT + timedelta(seconds=3 * (step - 30) + float(skew[rank]))
            key = {
                "cluster": cluster,
                "job_id": "7",
                "attempt": attempt,
                "rank": rank,
                "step": step,
            }
            stage = {"pp_stage": rank * stages // ranks, "tp_rank": 0}
            steps.append({**key, **stage, "ts": ts, **hostile_step(chance, rank, step)})
            kernels.append({**key, "ts": ts, **hostile_kernel(chance, ranks, step)})
    return {"step_sample": table("step_sample", steps), "trace_span": table("trace_span", kernels)}


def hostile_step(chance: np.random.Generator, rank: int, step: int) -> dict[str, object]:
    unknown, zero = chance.random(2) < 0.05
    compute_s = 0.0 if zero else float(chance.normal(1, 0.05)) * (1 + 0.5 * (rank == 3))
    return {
        "time_basis": "absolute",
        "node": f"n{(rank + step // 30) % 3}",
        "gpu_uuid": f"g{rank}",
        "step_s": 0.0 if zero else 1.6,
        "compute_s": None if unknown else compute_s,
        "forward_s": None if unknown else compute_s / 3,
        "backward_s": None if unknown else compute_s * 2 / 3,
        "data_s": float(chance.exponential(0.1)),
        "launch_s": None if unknown else 0.0,
        "tokens": 0 if zero else 1024,
        "loss": float(chance.normal(2, 0.1)),
        "grad_norm": 0.0,
        "weight_hash": "x" if chance.random() < 0.99 else "y",
    }


def hostile_kernel(chance: np.random.Generator, ranks: int, step: int) -> dict[str, object]:
    return {
        "span_no": step,
        "kind": "collective",
        "function": "all_reduce",
        "pg_desc": "dp",
        "pg_name": "1",
        "pg_size": ranks,
        "start_s": float(step),
        "duration_s": 0.0 if chance.random() < 0.05 else float(chance.exponential(0.1)),
    }


def wandering(ranks: int, steps: int, sd: float, seed: int) -> pl.DataFrame:
    """Healthy ranks whose compute wanders slowly, correlated by 0.95 from step to step."""
    chance = np.random.default_rng(seed)
    drift = np.zeros((steps, ranks))
    for step in range(1, steps):
        drift[step] = 0.95 * drift[step - 1] + 0.3122 * chance.standard_normal(ranks)
    rows = [
        {
            "cluster": "c",
            "job_id": "7",
            "attempt": 1,
            "rank": rank,
            "step": step,
            "ts": MIDNIGHT + timedelta(seconds=3 * step),
            "time_basis": "absolute",
            "pp_stage": 0,
            "step_s": 3.0,
            "compute_s": 2 * (1 + sd * drift[step, rank]),
        }
        for step in range(steps)
        for rank in range(ranks)
    ]
    return table("step_sample", rows)


def table(name: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    contract = CATALOG.tables[name]
    frame = pl.DataFrame(rows)
    types = contract.empty().schema
    typed = frame.select(pl.col(name).cast(types[name]) for name in frame.columns)
    return complete(contract, typed)


def run(raw: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    made = dict(raw)
    for name in CHAIN:
        model = CATALOG.models[name]
        made |= {n: CATALOG.tables[n].empty() for n in model.inputs if n not in made}
        made[name] = compute(CATALOG, model, made, {})
    return {name: made[name] for name in CHAIN}


@pytest.fixture(scope="module")
def raw() -> dict[str, pl.DataFrame]:
    return hostile(1)


@pytest.fixture(scope="module")
def whole(raw: dict[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    return run(raw)


def test_no_figure_is_nan_or_infinite(whole: dict[str, pl.DataFrame]) -> None:
    for name, rows in whole.items():
        assert not rows.is_empty(), name
        for column in rows.select(pl.col(pl.Float64)).iter_columns():
            assert column.is_finite().all(), f"{name}.{column.name}"


def test_coverage_is_a_share(whole: dict[str, pl.DataFrame]) -> None:
    for name, rows in whole.items():
        if "coverage_ratio" in rows.columns:
            assert rows["coverage_ratio"].is_between(0, 1).all(), name


def test_two_days_at_once_equal_each_alone(
    raw: dict[str, pl.DataFrame], whole: dict[str, pl.DataFrame]
) -> None:
    before = pl.col("ts") < MIDNIGHT
    parts = [run({n: f.filter(p) for n, f in raw.items()}) for p in (before, ~before)]
    wrong = {
        name: differences(pl.concat([part[name] for part in parts]), rows, 1e-9)
        for name, rows in whole.items()
    }
    assert {name: found[:2] for name, found in wrong.items() if found} == {}


def test_slowness_that_wanders_through_the_job_accuses_nobody_but_the_sick() -> None:
    """The spans of such ranks overlap, since each comes back: their steps do not."""
    steps = wandering(ranks=24, steps=300, sd=0.05, seed=3)
    sick = pl.when(pl.col("rank") == 5).then(1.4).otherwise(1.0)
    for samples, want in ((steps, []), (steps.with_columns(pl.col("compute_s") * sick), [5])):
        verdicts = run({"step_sample": samples})["step_straggler"]
        assert verdicts.filter(pl.col("verdict") == "slow")["rank"].to_list() == want


VALUES: dict[str, list[object]] = {
    "VARCHAR": [None, "", "a", "b/c", "all_reduce", "send", "slow", "normal"],
    "BIGINT": [None, 0, 1, 2, 7],
    "INTEGER": [None, 0, 1, 2, 7],
    "SMALLINT": [None, 0, 1],
    "DOUBLE": [None, 0.0, 1e-9, 1.0, 3.5, 1e6],
    "BOOLEAN": [None, True, False],
    "TIMESTAMP": [MIDNIGHT + timedelta(seconds=s) for s in (-5, -0.5, 0, 0.5, 5)],
}
KNOWN = {
    "event": ["channel", "transport", "watchdog_state", "speed_change", "init"],
    "state": ["scheduled", "started", "completed"],
    "time_basis": ["absolute", "anchored", "none"],
    "part": ["job", "rank"],
}


def arbitrary(name: str, chance: np.random.Generator, count: int = 300) -> pl.DataFrame:
    """Rows that keep a table's contract and make as little sense as it allows: zeros, NULLs, repeats."""
    contract = CATALOG.tables[name]
    columns: dict[str, list[object]] = {}
    for column in contract.columns:
        is_list, kind = column.type.endswith("[]"), column.type.removesuffix("[]")
        pool = list(KNOWN.get(column.name, VALUES.get(kind, [None])))
        if column.name in contract.grain or not column.null:
            pool = [v for v in pool if v is not None]
        drawn = [pool[int(n)] for n in chance.integers(len(pool), size=count)]
        columns[column.name] = [[v] if v is not None else [] for v in drawn] if is_list else drawn
    return complete(contract, pl.DataFrame(columns, schema=contract.empty().schema)).unique(
        list(contract.grain) or None, keep="first", maintain_order=True
    )


@pytest.mark.parametrize(
    "name",
    [
        "collective_wait", "arrival_rank_day", "comm_perf_day", "comm_stall", "comm_member_day",
        "busbw_change", "link_suspect", "job_placement", "transport_fact", "what_if_step", "what_if",
        "hang_rank", "collective_perf_day", "late_rank", "slow_link", "busbw_regression",
    ],
)  # fmt: skip
def test_valid_rows_that_make_no_sense_break_nothing(name: str) -> None:
    """No error, no NaN, no infinity; a share of what was seen stays one."""
    model = CATALOG.models.get(name) or CATALOG.detectors[name].model
    chance = np.random.default_rng(11)
    rows = compute(CATALOG, model, {n: arbitrary(n, chance) for n in model.inputs}, {})
    for column in rows.select(pl.col(pl.Float64)).iter_columns():
        assert column.drop_nulls().is_finite().all(), column.name
