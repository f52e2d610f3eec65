"""The goodput ledger: every second of every allocation under its one owner."""

from __future__ import annotations

from datetime import timedelta

import polars as pl

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ._edge_claims import edge_claims, gap_claims, idle_claims, span_claims
from ._ledger import OWNER, ledger, merged
from ._runs import evidence, runs_of, windows_of
from ._step_causes import part_excess
from ._step_claims import (
    carried_claims,
    excess,
    plain_claims,
    slow_claims,
    steps_of,
    stretched,
)
from ._steps import ATTEMPT, job_steps, placed

CLASSES = (
    "productive", "evaluation", "init", "data_stall", "checkpoint_save", "checkpoint_load", "lost_work",
    "straggler", "communication_stall", "throttle", "silent_degradation", "hang_detection", "restart",
    "preemption", "idle", "unexplained",
)  # fmt: skip
GOODPUT_SEGMENT = Table(
    name="goodput_segment",
    doc="Who owns the time of an allocation: stretches of an attempt with one owner each, cut at midnight. "
    "Their GPU-seconds add up to the allocation, whatever the records say. docs/goodput.md has the rules.",
    grain=(*ATTEMPT, "start_ts", "class"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the job"),
        Column("job_id", "VARCHAR", "job_attempt.job_id; as its log states it where no scheduler record knows the job"),
        Column("attempt", "BIGINT", "attempt, as job_id"),
        Column("start_ts", "TIMESTAMP", "start"),
        Column("end_ts", "TIMESTAMP", "end", null=False),
        Column("class", "VARCHAR", f"the owner: {', '.join(CLASSES)}"),
        Column("culprit", "VARCHAR", "node (or `rank N` where the node is not known) that the time is lost to; NULL: nobody in particular, or not known"),
        Column("in_step", "BOOLEAN", "part of the length of steps that were kept and that wrote no checkpoint: what Google's library counts as productive", null=False),
        Column("gpu_count", "BIGINT", "GPUs whose time this is; NULL: not known", "count"),
        Column("gpu_s", "DOUBLE", "GPU-seconds: length times gpu_count, less the share of the attempt that was suspended", "s"),
        Column("evidence", "VARCHAR", "what is known of the attempt on that day: scheduler; telemetry (its GPUs' activity too); steps (its own log of steps, or records of ranks, too); collectives (records of single ranks too)", null=False),
        Column("is_scheduled", "BOOLEAN", "the allocation is a scheduler's record; false: from the first to the last time that the job's own log states", null=False),
    ),
    time="start_ts",
    end="end_ts",
    sort=("job_id", "start_ts"),
)  # fmt: skip
PARAMS = {
    "min_excess_ratio": Param(
        0.04,
        "ratio of the ideal; a single step that is longer by less is as usual. Steps of healthy jobs wander "
        "by 0.7 to 2.5 % (public traces AR and ST); the limit of straggler_rank.",
    ),
    "spike_noise": Param(
        3.0,
        "count; standard deviations beyond which a step is long by itself: Google's library calls a step "
        "anomalous beyond the median + 3 MAD.",
    ),
    "join_gap_ratio": Param(
        0.02,
        "ratio of the ideal step; so much time between two steps is part of stepping: logs time the step and "
        "leave out their own writing.",
    ),
    "min_tail_s": Param(
        30.0,
        "s; an attempt that ended badly and recorded no step for longer, and for longer than two of its rows "
        "stand for, hung or was gone. Slurm takes SlurmdTimeout (300 s) to notice a lost node.",
    ),
}


@model(output=GOODPUT_SEGMENT, params=PARAMS, lookback=timedelta(days=1))
def goodput_segment(
    job_attempt: pl.LazyFrame,
    train_progress_day: pl.LazyFrame,
    train_step_run: pl.LazyFrame,
    train_span: pl.LazyFrame,
    job_step_parts: pl.LazyFrame,
    job_telemetry_5min: pl.LazyFrame,
    incident: pl.LazyFrame,
    *,
    min_excess_ratio: float,
    spike_noise: float,
    join_gap_ratio: float,
    min_tail_s: float,
) -> pl.LazyFrame:
    """Claims of steps, events, gaps and telemetry, and the ledger that settles them.

    Who owns a moment that several claim: the job's own stretches (evaluation, checkpoint_load,
    checkpoint_save, data, init, in that order), then its steps, then what lies between steps and at
    the ends of the attempt, then idle GPUs. The rest is unexplained. GPUs that do nothing while others of
    the job work are idle whatever the job does.

    No SQL: the ledger is a sweep over layers of claims, and a million steps have to take tenths of a second.
    """
    attempts = job_attempt.collect()
    runs = runs_of(attempts, train_progress_day.collect())
    progress = _settled(train_progress_day.collect(), runs)
    parts = placed(job_step_parts.collect(), attempts)
    steps = job_steps(train_step_run.collect(), job_step_parts.collect(), attempts)
    windows = windows_of(job_telemetry_5min.collect(), runs)
    named = span_claims(placed(train_span.collect().rename({"start_ts": "ts"}), attempts), runs)
    timed = stretched(steps_of(steps, progress, runs), named)
    rows = excess(timed, min_excess_ratio, spike_noise).with_columns(
        is_plain=(pl.col("excess_s") == 0)
        & ((pl.col("lost_count") == 0) | (pl.col("lost_count") == pl.col("count")))
    )
    shared = part_excess(parts, progress)
    rest = rows.filter(~pl.col("is_plain")).join(runs.select("run", "attempt_number"), on="run")
    claimed = pl.concat([
        plain_claims(rows, join_gap_ratio),
        slow_claims(rest, shared, windows),
        carried_claims(progress, runs),
        named,
        gap_claims(rows, progress, incident.collect(), runs),
        edge_claims(progress, incident.collect(), runs, min_tail_s),
        idle_claims(windows),
    ])  # fmt: skip
    segments = ledger(runs, claimed, _cuts(windows))
    known = evidence(runs, progress, parts, windows)
    return _rows(_spared(segments, windows), runs, known).lazy()


def _settled(progress: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """`redo_step`: where a job would begin again of which nobody shows that it did.

    An attempt that ended badly and has no successor lost what its last checkpoint does not hold.
    """
    ended = progress.join(runs.select(*ATTEMPT, "ended_badly"), on=ATTEMPT, how="left")
    is_open = pl.col("is_last_attempt") & pl.col("ended_badly")
    return ended.with_columns(redo_step=pl.when(is_open).then(pl.col("saved_step") + 1))


def _cuts(windows: pl.DataFrame) -> pl.DataFrame:
    """Windows in which only some of a job's GPUs are idle begin and end a segment."""
    partly = windows.filter(pl.col("spare_count") > 0)
    return pl.concat(
        [partly.select("run", at="start"), partly.select("run", at="end")], how="vertical"
    )


def _spared(segments: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Segments with the GPUs that stood idle in them taken out, and these as segments of their own."""
    spare = windows.filter(pl.col("spare_count") > 0).select(
        "run", "start", "spare_count", until="end"
    )
    found = segments.sort("start").join_asof(
        spare.sort("start"), on="start", by="run", check_sortedness=False
    )
    is_in = (pl.col("start") < pl.col("until")) & (pl.col("class") != "idle")
    marked = found.with_columns(spare=pl.when(is_in).then("spare_count").fill_null(0))
    idle = marked.filter(pl.col("spare") > 0).with_columns(
        **{"class": pl.lit("idle"), "in_step": pl.lit(value=False),
           "culprit": pl.lit(None, pl.String), "own": pl.col("spare"), "spare": pl.lit(0, pl.Int64)}
    )  # fmt: skip
    worked = marked.with_columns(own=pl.lit(None, pl.Int64))
    keys = [*OWNER, "own", "spare"]
    return pl.concat(
        [merged(part.select("run", "start", "end", *keys), keys) for part in (worked, idle)]
    )


def _rows(segments: pl.DataFrame, runs: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """The table's columns."""
    day = pl.from_epoch(pl.col("start"), time_unit="us").dt.truncate("1d")
    joined = (
        segments.join(runs.drop("start", "end"), on="run", maintain_order="left")
        .with_columns(day_ts=day)
        .join(known, on=["run", "day_ts"], how="left", maintain_order="left")
    )
    gpus = pl.coalesce("own", pl.col("gpu_count") - pl.col("spare"))
    held_s = (pl.col("end") - pl.col("start")) / 1e6
    return joined.with_columns(
        pl.from_epoch(pl.col("start"), time_unit="us").alias("start_ts"),
        pl.from_epoch(pl.col("end"), time_unit="us").alias("end_ts"),
        gpus.alias("gpu_count"),
        (held_s * gpus * pl.col("held_ratio")).alias("gpu_s"),
        pl.col("evidence").fill_null("scheduler"),
    ).select(GOODPUT_SEGMENT.column_names)
