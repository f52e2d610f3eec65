"""The operation trace of a pipeline-parallel training job, as StragglerAnalysis records it.

Schema, operation names and which columns are -1 for which operation follow the public traces
(ByteDance-Seed/StragglerAnalysis@data, trace AR). One row per operation of a traced rank:
dp_rank, stage, rank, step, optype, start_ts and duration (s, float32; the offset restarts each
step), seq_id, mc, mb_id, gmc. Compute times and their 2 percent spread are those of trace AR;
order is one-forward-one-backward. The file holds no absolute time: `truth/trace.csv` states it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .fleet import Gpu, stream
from .jobs import Attempt
from .telemetry import SickGpu

Floats = NDArray[np.float64]
FORWARD_S, BACKWARD_S, SPREAD = 0.2186, 0.3835, 0.02
SEND_S, SYNC_S = 0.0007, 0.055
MICROBATCHES, STEPS, STEP_STRIDE = 8, 40, 25
STEP_S = 6.0  # about one step's length; only places the trace in time


@dataclass(frozen=True, slots=True)
class Trace:
    """A traced job: ranks in the order of their GPUs, `pp` stages of `dp` ranks."""

    job: Attempt
    pp: int
    dp: int
    first_step: int
    start_s: int
    sick_ranks: tuple[tuple[int, float], ...]

    @property
    def ranks(self) -> tuple[Gpu, ...]:
        return tuple(sorted(self.job.gpus))


def trace_of(job: Attempt, sick: tuple[SickGpu, ...], start_s: int) -> Trace:
    """Megatron-LM's rank order: rank = stage * dp + dp_rank. Two stages from eight GPUs on."""
    ranks = sorted(job.gpus)
    pp = 2 if len(ranks) >= 8 else 1
    slow = tuple(
        (ranks.index(case.gpu), case.slowdown_ratio)
        for case in sick
        if case.gpu in ranks and case.start_s <= start_s
    )
    first_step = int((start_s - job.begin_s) / STEP_S)
    return Trace(job, pp, len(ranks) // pp, first_step, start_s, slow)


@dataclass(slots=True)
class _Rows:
    """Rows as they are found, each a (stage, arrays of steps by dp ranks)."""

    stage: list[int] = field(default_factory=list)
    optype: list[str] = field(default_factory=list)
    seq_id: list[int] = field(default_factory=list)
    start: list[Floats] = field(default_factory=list)
    end: list[Floats] = field(default_factory=list)

    def add(self, stage: int, optype: str, seq_id: int, start: Floats, end: Floats) -> Floats:
        self.stage.append(stage)
        self.optype.append(optype)
        self.seq_id.append(seq_id)
        self.start.append(start)
        self.end.append(end)
        return end


def _order(pp: int, stage: int) -> Iterator[tuple[str, int]]:
    """One-forward-one-backward: warm-up forwards, pairs, the remaining backwards."""
    warm = min(pp - stage - 1, MICROBATCHES)
    for batch in range(warm):
        yield "forward", batch
    for batch in range(MICROBATCHES - warm):
        yield "forward", batch + warm
        yield "backward", batch
    for batch in range(MICROBATCHES - warm, MICROBATCHES):
        yield "backward", batch


def _pipeline(trace: Trace, random: np.random.Generator, rows: _Rows) -> list[Floats]:
    """All computes and transfers; returns when each stage is done, as steps by dp ranks."""
    shape = (STEPS, trace.dp)
    slow = np.ones((trace.pp, trace.dp))
    for rank, ratio in trace.sick_ranks:
        slow[rank // trace.dp, rank % trace.dp] = ratio
    todo = [list(_order(trace.pp, stage)) for stage in range(trace.pp)]
    begin = SYNC_S / 2 + random.uniform(0, 0.002, shape)
    free = [rows.add(s, "params-all-gather", 0, 0.002 + begin * 0, begin) for s in range(trace.pp)]
    arrived: dict[tuple[str, int, int], Floats] = {}
    while any(todo):
        for stage, queue in enumerate(todo):
            if not queue:
                continue
            way, batch = queue[0]
            source = stage - 1 if way == "forward" else stage + 1
            if 0 <= source < trace.pp:
                if (way, stage, batch) not in arrived:
                    continue
                came = np.maximum(free[stage], arrived[way, stage, batch]) + SEND_S
                free[stage] = rows.add(stage, f"{way}-recv", batch, free[stage], came)
            queue.pop(0)
            mean_s = FORWARD_S if way == "forward" else BACKWARD_S
            lasts = mean_s * slow[stage] * (1 + random.normal(0, SPREAD, shape))
            done = rows.add(stage, f"{way}-compute", batch, free[stage], free[stage] + lasts)
            free[stage] = done
            target = stage + 1 if way == "forward" else stage - 1
            if 0 <= target < trace.pp:
                sent = rows.add(stage, f"{way}-send", batch, done, done + SEND_S)
                arrived[way, target, batch] = sent
    return free


def _finish(free: list[Floats], rows: _Rows) -> None:
    """Gradient exchange over the data-parallel group, then the optimizer, per stage."""
    for stage, done in enumerate(free):
        rows.add(stage, "gc", 0, done, done)
        together = np.broadcast_to(done.max(axis=1, keepdims=True), done.shape) + SYNC_S
        reduced = rows.add(stage, "grads-reduce-scatter", 0, done, together)
        clipped = rows.add(stage, "optimizer-clip-main-grad", 0, reduced, reduced + 0.012)
        rows.add(stage, "optimizer", 0, clipped, clipped + 0.0214)


def frame(trace: Trace, seed: int) -> pl.DataFrame:
    """The trace as a frame in the public schema, by rank, step and start."""
    rows = _Rows()
    _finish(_pipeline(trace, stream(seed, "trace"), rows), rows)
    step = trace.first_step + STEP_STRIDE * np.arange(STEPS)
    count, cells = len(rows.stage), STEPS * trace.dp
    stage = np.repeat(rows.stage, cells)
    dp_rank = np.tile(np.arange(trace.dp), count * STEPS)
    start = np.concatenate([a.ravel() for a in rows.start])
    compute = pl.col("optype").str.ends_with("-compute")
    chunk = compute | pl.col("optype").is_in(["params-all-gather", "grads-reduce-scatter"])
    return (
        pl.DataFrame(
            {
                "dp_rank": dp_rank,
                "stage": stage,
                "rank": stage * trace.dp + dp_rank,
                "step": np.tile(np.repeat(step, trace.dp), count),
                "optype": pl.Series(rows.optype).gather(np.repeat(np.arange(count), cells)),
                "start_ts": start,
                "duration": np.concatenate([a.ravel() for a in rows.end]) - start,
                "seq_id": np.repeat(rows.seq_id, cells),
            }
        )
        .with_columns(
            pl.when(chunk).then(0).otherwise(-1).alias("mc"),
            pl.when(compute).then("seq_id").when(pl.col("optype") == "gc").then(0).otherwise(-1)
            .alias("mb_id"),
            pl.when(compute).then("stage").otherwise(-1).alias("gmc"),
        )
        .sort("rank", "step", "start_ts", maintain_order=True)
        .cast({"dp_rank": pl.Int8, "stage": pl.Int8, "rank": pl.Int16, "step": pl.Int64,
               "optype": pl.Categorical, "start_ts": pl.Float32, "duration": pl.Float32,
               "seq_id": pl.Int32, "mc": pl.Int8, "mb_id": pl.Int8, "gmc": pl.Int16})
    )  # fmt: skip


def write(trace: Trace, seed: int, folder: Path) -> None:
    """One Parquet file per traced job."""
    folder.mkdir(parents=True, exist_ok=True)
    frame(trace, seed).write_parquet(folder / f"trace-{trace.job.job_id}.parquet")
