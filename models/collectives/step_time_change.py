"""When a job's steps became slower, found in nothing but their lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, time, timedelta

import numpy as np
import polars as pl
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

Floats = NDArray[np.float64]
JOB = ("cluster", "job_id", "attempt")
# Lengths of the latest steps that are looked at: a strong change shows in few, a weak one needs many.
WINDOWS = (3, 5, 10, 20)
BASELINE = 20
MEDIAN_VARIANCE = 1.57  # of a median of n normal values, times sigma squared / n
DIFFERENCE = 1.0483  # sigma of normal values by the median absolute difference of neighbours

STEP_TIME_CHANGE = Table(
    name="step_time_change",
    doc="Slowdowns of a whole job: from some step on its steps took longer than before. One row per "
    "slowdown, as of the end of the UTC day on which the evidence sufficed.",
    grain=("cluster", "job_id", "attempt", "evidence_ts"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job"),
        Column("attempt", "BIGINT", "attempt of the job as in job_attempt"),
        Column("evidence_ts", "TIMESTAMP", "end of the step with which the evidence sufficed"),
        Column("step", "BIGINT", "first slow step", null=False),
        Column("evidence_step", "BIGINT", "step with which the evidence sufficed", null=False),
        Column("start_ts", "TIMESTAMP", "start of the first slow step", null=False),
        Column(
            "end_ts", "TIMESTAMP", "end of the last slow step seen by the end of the day",
            null=False,
        ),
        Column("time_basis", "VARCHAR", "what times mean: as in step_sample or train_step"),
        Column("source", "VARCHAR", "train_step: the job's log; step_sample: its longest rank"),
        Column("baseline_s", "DOUBLE", "length before: median of up to 20 logged steps", "s"),
        Column("level_s", "DOUBLE", "length since: median of the slow steps", "s"),
        Column("ratio", "DOUBLE", "level_s / baseline_s", "ratio"),
        Column(
            "noise_ratio",
            "DOUBLE",
            "standard deviation of the baseline's steps by its median, from successive differences",
            "ratio",
        ),
        Column("baseline_count", "BIGINT", "logged steps of the baseline", "count"),
        Column("window_count", "BIGINT", "latest steps whose median was over the limit", "count"),
        Column(
            "delay_count", "BIGINT", "logged slow steps until the evidence sufficed", "count"
        ),
        Column("slow_count", "BIGINT", "logged slow steps until the end of the day", "count"),
        Column(
            "recovered", "BOOLEAN", "the latest steps of the day are back at the baseline's level"
        ),
        Column(
            "lost_s", "DOUBLE", "time beyond the baseline in the logged slow steps; others not "
            "counted", "s",
        ),
    ),
    time="evidence_ts",
    sort=("job_id", "evidence_ts"),
)  # fmt: skip
PARAMS = {
    "min_ratio": Param(
        1.03, "ratio; a slowdown under it is none. Greyhound verifies 10 %, BLOOM's cost 5 %."
    ),
    "min_noise_count": Param(
        5.0,
        "count; standard errors of the two medians that the level must lie above the baseline: 0 "
        "alarms on the four healthy public series (782 samples) with 3.5, 4 and 5.",
    ),
    "min_baseline": Param(8, "count; logged steps that make a baseline. Own choice."),
}


@dataclass(frozen=True, slots=True)
class Change:
    """Places in a series: first slow step, that of the evidence, the last slow one.

    window     latest steps whose median was over the limit
    baseline   lengths of the steps before
    noise_s    their standard deviation, from successive differences
    recovered  the median of the latest steps came back under the limit
    """

    first: int
    evidence: int
    last: int
    window: int
    baseline: Floats
    noise_s: float
    recovered: bool


@model(output=STEP_TIME_CHANGE, params=PARAMS, lookback=timedelta(days=1))
def step_time_change(
    train_step_run: pl.LazyFrame,
    step_sample: pl.LazyFrame,
    *,
    min_ratio: float,
    min_noise_count: float,
    min_baseline: int,
) -> pl.LazyFrame:
    """The median of the latest 3, 5, 10 or 20 logged steps against that of the 20 before them.

    A slowdown is found when the first exceeds the second by min_ratio and by min_noise_count
    standard errors. The baseline moves with the job, so that a slow start poisons it for 20 steps
    and not for good; it stands still while the job is slow. Steps of different global batch size
    are series apart. Per UTC day the series of that day and the day before is looked at.

    No SQL: whether the baseline moves depends on what was found before. NumPy computes the medians;
    Python sees only the steps that exceed a limit.
    """
    series = _series(train_step_run, step_sample).collect()
    limits = (min_ratio, min_noise_count, min_baseline)
    rows = [
        row
        for (cluster, job_id, attempt, _), steps in series.group_by(
            *JOB, "global_batch_size", maintain_order=True
        )
        for row in _of_job(
            {"cluster": cluster, "job_id": job_id, "attempt": attempt}, steps, limits
        )
    ]
    schema = STEP_TIME_CHANGE.polars_schema()
    found = pl.DataFrame(rows, schema=schema, orient="row")
    return found.unique([*JOB, "evidence_ts"], keep="first", maintain_order=True).lazy()


def _series(train_step_run: pl.LazyFrame, step_sample: pl.LazyFrame) -> pl.LazyFrame:
    """Length per step: from the job's log where there is one, else that of its longest rank."""
    columns = (*JOB, "step", "ts", "time_basis", "step_s", "global_batch_size")
    logged = train_step_run.select(*columns, pl.lit("train_step").alias("source"))
    ranks = (
        step_sample.filter(pl.col("step_s") > 0)
        .join(train_step_run.select(JOB).unique(), on=JOB, how="anti")
        .group_by(*JOB, "step")
        .agg(pl.col("ts", "time_basis").min(), pl.col("step_s").max())
        .with_columns(
            pl.lit(None, pl.Int64).alias("global_batch_size"), pl.lit("step_sample").alias("source")
        )
    )
    whole = pl.concat([logged, ranks.select(*columns, "source")])
    return whole.filter(pl.col("step_s") > 0).sort(*JOB, "ts", "step")


def _of_job(
    job: dict[str, object], steps: pl.DataFrame, limits: tuple[float, float, int]
) -> Iterator[dict[str, object]]:
    days = steps["ts"].dt.date()
    for day in days.unique().sort():
        seen = steps.filter((days == day) | (days == day - timedelta(days=1)))
        lengths = seen["step_s"].to_numpy()
        midnight = datetime.combine(day, time())
        for change in changes(lengths, *limits):
            at = _end(seen, change.evidence)
            if seen["ts"][change.evidence].date() == day:
                # A step that ends after midnight was seen by its start: it belongs to this day.
                latest = midnight + timedelta(days=1, microseconds=-1)
                yield job | {"evidence_ts": min(at, latest)} | _row(seen, lengths, change)


def _end(steps: pl.DataFrame, place: int) -> datetime:
    start: datetime = steps["ts"][place]
    return start + timedelta(seconds=round(steps["step_s"][place], 6))


def _row(steps: pl.DataFrame, lengths: Floats, change: Change) -> dict[str, object]:
    baseline_s = float(np.median(change.baseline))
    since = lengths[change.first : change.last + 1]
    return {
        "step": steps["step"][change.first],
        "evidence_step": steps["step"][change.evidence],
        "start_ts": steps["ts"][change.first],
        "end_ts": _end(steps, change.last),
        "time_basis": steps["time_basis"][change.evidence],
        "source": steps["source"][change.evidence],
        "baseline_s": baseline_s,
        "level_s": float(np.median(since)),
        "ratio": float(np.median(since)) / baseline_s,
        "noise_ratio": change.noise_s / baseline_s,
        "baseline_count": len(change.baseline),
        "window_count": change.window,
        "delay_count": change.evidence - change.first + 1,
        "slow_count": len(since),
        "recovered": change.recovered,
        "lost_s": float(np.sum(since - baseline_s)),
    }


def changes(
    lengths: Floats, min_ratio: float, min_noise_count: float, min_baseline: int
) -> Iterator[Change]:
    """Slowdowns in a series of step lengths, in order."""
    # By place: median and noise of the up to BASELINE steps before it.
    base = _before(lengths, BASELINE, min_baseline)
    differences = np.abs(np.diff(lengths))
    noise = DIFFERENCE * np.append(np.nan, _before(differences, BASELINE - 1, min_baseline - 1))
    counts = np.minimum(np.arange(len(lengths)), BASELINE)
    latest = {window: _before(np.append(lengths, 0), window, window)[1:] for window in WINDOWS}
    over = np.zeros(len(lengths), dtype=np.int64)
    for window in reversed(WINDOWS):
        begin = np.maximum(np.arange(len(lengths)) - window + 1, 0)
        error = noise[begin] * np.sqrt(
            MEDIAN_VARIANCE * (1 / window + 1 / np.maximum(counts[begin], 1))
        )
        limit = np.maximum(base[begin] * min_ratio, base[begin] + min_noise_count * error)
        over[latest[window] > limit] = window
    start = 0
    for place in np.flatnonzero(over).tolist():
        window = int(over[place])
        first = place - window + 1
        if first < start:
            continue
        back = np.flatnonzero(latest[window][place:] <= base[first] * min_ratio)
        start = place + int(back[0]) if len(back) else len(lengths)
        middle = (base[first] + latest[window][place]) / 2
        slow = first + np.flatnonzero(lengths[first:start] > middle)
        before = lengths[max(0, first - BASELINE) : first]
        yield Change(int(slow[0]), place, int(slow[-1]), window, before,
                     float(noise[first]), recovered=bool(len(back)))  # fmt: skip


def _before(values: Floats, size: int, least: int) -> Floats:
    """By place, the median of the up to `size` values before it; NaN with fewer than `least`."""
    found = np.full(len(values), np.nan)
    for place in range(least, min(size, len(values))):
        found[place] = np.median(values[:place])
    if len(values) > size:
        found[size:] = np.median(sliding_window_view(values[:-1], size), axis=1)
    return found
