"""What a training step would have taken without stragglers, or with only some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

import numpy as np
import polars as pl

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ._replay import Floats, Replay, Single
from ._schedule import ScheduleError
from ._traced import complete_steps, trace_of

JOB_DAY = ("cluster", "job_id", "attempt", "day_ts")
COLUMNS = (*JOB_DAY[:3], "rank", "step", "op", "ts", "dp_rank", "pp_stage", "chunk", "global_chunk")
MERGED = {
    "forward-send": "forward-pp-comm", "forward-recv": "forward-pp-comm",
    "backward-send": "backward-pp-comm", "backward-recv": "backward-pp-comm",
}  # fmt: skip

WHAT_IF_STEP = Table(
    name="what_if_step",
    doc="Step times of a traced job, replayed: what a step would take if nothing but its "
    "dependencies held it up, if every operation took what is usual for its kind, and if only one "
    "part of the job were as traced or only one part were as usual. What is usual is the mean (for "
    "computes, garbage collection and the optimizer) or the median (for all communication) of the "
    "kind over the steps, stages and ranks of the job's UTC day.",
    grain=("cluster", "job_id", "attempt", "step", "part", "part_id"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job"),
        Column("attempt", "BIGINT", "attempt of the job as in job_attempt"),
        Column("step", "BIGINT", "training step"),
        Column(
            "part",
            "VARCHAR",
            "job: the whole; dp_rank, pp_stage, op: one of them as traced; slowest_ranks, "
            "last_stage: these as usual",
        ),
        Column("part_id", "VARCHAR", "which of them: a number, a kind of operation, ranks"),
        Column("ts", "TIMESTAMP", "start of the step", null=False),
        Column("base_s", "DOUBLE", "part job: the step as traced", "s"),
        Column("no_delay_s", "DOUBLE", "part job: the same without launch delays", "s"),
        Column("ideal_s", "DOUBLE", "part job: every operation as usual", "s"),
        Column("kept_s", "DOUBLE", "the part as traced, everything else as usual", "s"),
        Column("removed_s", "DOUBLE", "the part as usual, everything else as traced", "s"),
        Column("op_count", "BIGINT", "part job: operations of the step", "count"),
        Column("reason", "VARCHAR", "part job: why the step was not replayed"),
    ),
    time="ts",
    sort=("job_id", "ts"),
)
PARAMS = {
    "min_slowdown_ratio": Param(
        1.03,
        "ratio; a job whose no_delay_s is less than this times its ideal_s is not taken apart. The "
        "default of the authors' tool (--decompose-thres).",
    ),
    "slowest_ratio": Param(
        0.03,
        "ratio of the ranks that part slowest_ranks holds, rounded up; equation 5 of the paper.",
    ),
}


@model(output=WHAT_IF_STEP, params=PARAMS)
def what_if_step(
    trace_op: pl.LazyFrame, *, min_slowdown_ratio: float, slowest_ratio: float
) -> pl.LazyFrame:
    """Replay of the dependency graph (see `_schedule`) under other costs (see `_replay`).

    Equations 1 to 5 of Lin et al. (OSDI 25) over the steps: S = no_delay_s / ideal_s, S of a part
    = kept_s / ideal_s, M of slowest_ranks and last_stage = (no_delay_s - removed_s) / (no_delay_s
    - ideal_s), always of sums over steps. The slowest ranks are those whose smaller one of S of
    their dp_rank and S of their stage is largest.

    No SQL: the graph is walked operation by operation, with NumPy over all steps and ranks at
    once. 10.2 million operations (1,024 ranks x 60 steps) take 3 CPU s and 0.7 GiB above the input.
    """
    return replayed(trace_op, min_slowdown_ratio, slowest_ratio).lazy()


def replayed(
    trace_op: pl.LazyFrame, min_slowdown_ratio: float, slowest_ratio: float
) -> pl.DataFrame:
    """Rows of `what_if_step`."""
    day = pl.col("ts").dt.truncate("1d").alias("day_ts")
    lists = [pl.col("start_s", "duration_s").cast(pl.List(pl.Float32))]
    length = pl.col("start_s").list.len()
    whole = (length > 0) & (length == pl.col("duration_s").list.len())
    rows = trace_op.filter(whole).select(*COLUMNS, day, *lists).collect()
    parts: list[pl.DataFrame] = [WHAT_IF_STEP.empty()]
    for key, of_job in rows.group_by(*JOB_DAY):
        identity = dict(zip(JOB_DAY[:3], key[:3], strict=True))
        job = _job(of_job.drop(*JOB_DAY), min_slowdown_ratio, slowest_ratio)
        parts.append(_rows(job, identity))
    return pl.concat(parts)


def _rows(replayed: pl.DataFrame, identity: Mapping[str, object]) -> pl.DataFrame:
    table = WHAT_IF_STEP.polars_schema()
    absent = [pl.lit(None, kind).alias(n) for n, kind in table.items()
              if n not in replayed.columns and n not in identity]  # fmt: skip
    stated = [pl.lit(value).alias(name) for name, value in identity.items()]
    return replayed.with_columns(*stated, *absent).select(
        pl.col(name).cast(kind) for name, kind in table.items()
    )


def _job(rows: pl.DataFrame, min_slowdown_ratio: float, slowest_ratio: float) -> pl.DataFrame:
    """All rows of one job and day, without its identity."""
    traced = _as_traced(rows)
    complete = rows.join(complete_steps(rows), on="step", how="semi")
    try:
        replay = Replay(trace_of(complete))
    except ScheduleError as error:
        return traced.with_columns(reason=pl.lit(str(error)))
    steps = complete["step"].unique().sort()
    ideal_s = float(replay.step_s(lambda place: float(replay.ideal[place])).item())
    no_delay_s = replay.step_s(lambda place: replay.traced[place])
    whole = pl.DataFrame(
        {"step": steps, "no_delay_s": no_delay_s, "ideal_s": np.full(len(steps), ideal_s)}
    )
    missing = pl.lit("operations are missing that other steps have")
    job = traced.join(whole, on="step", how="left").with_columns(
        reason=pl.when(pl.col("no_delay_s").is_null()).then(missing)
    )
    if no_delay_s.mean() < min_slowdown_ratio * ideal_s:
        return job
    starts = traced.select("step", "ts")
    found = [
        pl.DataFrame(
            {"step": steps, "part": part, "part_id": name, column: np.broadcast_to(s, len(steps))}
        )
        for part, name, column, s in _taken_apart(replay, slowest_ratio)
    ]
    return pl.concat(
        [job, pl.concat(found, how="diagonal").join(starts, on="step")], how="diagonal"
    )


def _as_traced(rows: pl.DataFrame) -> pl.DataFrame:
    """Length and size of every step."""
    counts = rows["start_s"].list.len().to_numpy().astype(np.int64)
    ends = rows["start_s"].explode().to_numpy() + rows["duration_s"].explode().to_numpy()
    last = np.maximum.reduceat(ends, counts.cumsum() - counts) if len(counts) else ends
    return (
        rows.select(
            "step", "ts",
            first=pl.col("start_s").list.min(), last=pl.Series(last), ops=pl.Series(counts),
        )
        .group_by("step")
        .agg(
            pl.col("ts").min(),
            base_s=(pl.col("last").max() - pl.col("first").min()).cast(pl.Float64),
            op_count=pl.col("ops").sum(),
        )
        .with_columns(part=pl.lit("job"), part_id=pl.lit("all"))
        .sort("step")
    )  # fmt: skip


Part = tuple[str, str, str, Floats]


def _taken_apart(replay: Replay, slowest_ratio: float) -> Iterator[Part]:
    """(part, part_id, column, seconds per step) of every part of the job."""
    ideal, traced, operations = replay.ideal, replay.traced, replay.trace.operations
    stages, columns = replay.trace.ranks.shape
    last_stage = max(o.stage for o in operations)
    stage_ids = sorted({o.stage for o in operations})
    kinds = sorted({MERGED.get(o.kind, o.kind) for o in operations})

    def kept(places: set[int]) -> Floats:
        return replay.step_s(
            lambda place: traced[place] if place in places else float(ideal[place])
        )

    by_stage = {n: kept({o.place for o in operations if o.stage == n}) for n in stage_ids}
    for stage, seconds in by_stage.items():
        yield "pp_stage", str(stage), "kept_s", seconds
    for kind in kinds:
        places = {o.place for o in operations if MERGED.get(o.kind, o.kind) == kind}
        yield "op", kind, "kept_s", kept(places)
    by_column = _by_column(replay)
    for column in range(columns):
        yield "dp_rank", str(replay.trace.dp_ranks[column]), "kept_s", by_column[:, column]
    of_stage = np.array([np.mean(s) for s in by_stage.values()])
    scores = np.minimum(of_stage[:, None], by_column.mean(axis=0)[None, :])
    order = sorted(
        np.ndindex(stages, columns), key=lambda at: (-scores[at], replay.trace.ranks[at])
    )
    slowest = order[: ceil(slowest_ratio * len(order))]
    names = ",".join(str(rank) for rank in sorted(int(replay.trace.ranks[at]) for at in slowest))
    yield "slowest_ranks", names, "removed_s", _without(replay, slowest, stage_ids)
    yield (
        "last_stage",
        str(last_stage),
        "removed_s",
        replay.step_s(
            lambda p: float(ideal[p]) if operations[p].stage == last_stage else traced[p]
        ),
    )


def _by_column(replay: Replay) -> Floats:
    """Per step and data-parallel rank: the step with only that rank's operations as traced.

    All other ranks are alike, so one of them stands for all: the axis of ranks has two places.
    """
    alone = replay.trace.ranks.shape[1] == 1

    def cost(place: int) -> Floats:
        traced: Floats = replay.traced[place].astype(np.float64)[:, :, None]
        if alone:
            return traced
        usual = np.full_like(traced, replay.ideal[place])
        return np.concatenate([traced, usual], axis=-1)

    return replay.step_s(cost)


def _without(replay: Replay, slowest: list[tuple[int, ...]], stage_ids: list[int]) -> Floats:
    """Steps as traced but for some ranks, whose operations take what is usual."""
    columns = {stage: [c for s, c in slowest if stage_ids[s] == stage]
               for stage in {stage_ids[s] for s, _ in slowest}}  # fmt: skip

    def cost(place: int) -> Single:
        usual = columns.get(replay.trace.operations[place].stage)
        traced: Single = replay.traced[place]
        if not usual:
            return traced
        mixed = traced.copy()
        mixed[:, usual] = replay.ideal[place]
        return mixed

    return replay.step_s(cost)
