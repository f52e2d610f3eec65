"""Goodput of a million steps with 49 restarts: the whole ledger, from Parquet to GPU-seconds by owner.

The peer is ml-goodput-measurement 0.2.3, `GoodputCalculator.get_job_goodput` over a local list of entries. It
is not installed here, so figures are ratios to REF: on the same kind of machine it took 20.9 CPU s
where REF did 239,000 lines per CPU second, 48,000 steps per CPU second or 0.20 REF. A twentieth of its CPU
time is 4.0 REF, a hundredth 20 REF; three tenths of its memory are 303 MiB.

Steps as that measurement had them: 20,000 a run, normal around 4 s with 0.1 s, one in a thousand of 40 s; each
of 49 restarts loses 500 steps and 600 s. The steps stand in table train_step_run (each
counted once), as the lake holds them. The start of the process and its imports do not count, as they do not for the peer.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from fleetmark.accuracy.frames import judged
from fleetmark.catalog import Catalog, load_catalog

from .workload import Goal, Workload

RUNS, STEPS, LOST, DOWN_S, START_UP_S = 50, 20_000, 500, 600, 95
START = datetime(2026, 1, 1)  # noqa: DTZ001 - times are UTC without zone
PEAK_LIMIT_BYTES = 303 << 20
# Evidence that the peer has none of.
ABSENT = ("incident", "job_step_parts", "job_telemetry_5min", "train_event")


def prepare(folder: Path, scale: float) -> Path:
    """steps.parquet and attempts.parquet: 50 runs of 20,000 steps at scale 1."""
    random = np.random.default_rng(8)
    count = max(1_000, round(STEPS * scale))
    steps, attempts, start_s, first = [], [], 0.0, 0
    for number in range(RUNS):
        length = random.normal(4, 0.1, count)
        length[random.random(count) < 0.001] = 40.0
        begin = start_s + START_UP_S + np.concatenate([[0.0], np.cumsum(length)[:-1]])
        ends_s = float(begin[-1] + length[-1])
        steps.append(
            pl.DataFrame({"step": np.arange(first, first + count), "s": begin, "step_s": length})
        )
        attempts.append(
            (number, start_s, ends_s, "COMPLETED" if number == RUNS - 1 else "NODE_FAIL")
        )
        start_s, first = ends_s + DOWN_S, first + count - LOST
    job = {"cluster": pl.lit("c"), "job_id": pl.lit("1")}
    at = pl.lit(START) + pl.duration(microseconds=(pl.col("s") * 1e6).cast(pl.Int64))
    pl.concat(steps).select(
        **job, attempt=pl.lit(1, pl.Int64), step="step", ts=at, time_basis=pl.lit("absolute"),
        step_s="step_s",
    ).write_parquet(folder / "steps.parquet")  # fmt: skip
    rows = [
        {"cluster": "c", "job_id": "1", "attempt": n, "attempt_ts": START + timedelta(seconds=a),
         "start_ts": START + timedelta(seconds=a), "end_ts": START + timedelta(seconds=b), "state": state,
         "alloc_gpus": 8, "node_list": ["n1"]}
        for n, a, b, state in attempts
    ]  # fmt: skip
    schema = load_catalog().tables["job_attempt"].polars_schema()
    pl.DataFrame(rows, schema_overrides={k: schema[k] for k in rows[0]}).write_parquet(
        folder / "attempts.parquet"
    )
    return folder


def load(folder: Path) -> tuple[Catalog, Path]:
    """The definitions; reading the files is measured."""
    return load_catalog(), folder


def account(given: tuple[Catalog, Path]) -> int:
    """The ledger of all runs; raises RuntimeError unless it closes and shows what was lost."""
    catalog, folder = given
    steps, attempts = (pl.read_parquet(folder / f"{n}.parquet") for n in ("steps", "attempts"))
    empty = {name: catalog.tables[name].empty() for name in ABSENT}
    tables = {"train_step_run": steps, "job_attempt": attempts, **empty}
    with judged(catalog, ("lost_goodput",), tables) as connection:
        sums = connection.sql(
            "SELECT cause, sum(gpu_h) * 450 AS s FROM goodput_cause_day GROUP BY cause"
        ).pl()
    own = dict(sums.iter_rows())
    held_s = sum(
        (b - a).total_seconds()
        for a, b in zip(attempts["start_ts"], attempts["end_ts"], strict=True)
    )
    if abs(sum(own.values()) - held_s) > 1e-3 or not own["lost_work"] > 0:
        raise RuntimeError(f"the ledger holds {sum(own.values())} s of {held_s}: {own}")
    return steps.height


WORKLOAD = Workload(
    name="goodput",
    doc="a million steps of 50 attempts, Parquet to every second's owner, roll-ups by cause and the detector",
    unit="steps",
    prepare=prepare,
    load=load,
    run=account,
    goals=(Goal("x REF", 4.0, 20.0),),
    peak_limit_bytes=PEAK_LIMIT_BYTES,
)
