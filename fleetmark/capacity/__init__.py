"""What if the fleet had more GPUs, or fewer: recorded arrivals replayed on N +- k of them.

A forecast is given only if the replay on today's GPUs first reproduces today's waits within a stated error;
else the result says why not. What a replay cannot know (priorities, reservations, people who ask for less
because they wait) shows as such an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from fleetmark.capacity.replay import Arrival, Replay
from fleetmark.table import TYPES, Column

# Columns of a result, as the command prints them and the table capacity_what_if holds them.
RESULT_COLUMNS = (
    Column("gpu_count", "BIGINT", "GPUs that the arrivals were replayed on", "count"),
    Column("change_count", "BIGINT", "GPUs more (or fewer, negative) than today", "count"),
    Column("verdict", "VARCHAR", "reproduced (today's GPUs: the replay holds), forecast, or refused"),
    Column("reason", "VARCHAR", "why refused; NULL otherwise"),
    Column("job_count", "BIGINT", "attempts replayed whose waits count", "count"),
    Column("wait_mean_s", "DOUBLE", "mean wait in the replay, eligible to start; NULL if refused", "s"),
    Column("wait_p50_s", "DOUBLE", "median of the same, linear interpolation", "s"),
    Column("wait_p90_s", "DOUBLE", "90th percentile of the same", "s"),
    Column("allocation_ratio", "DOUBLE", "GPU time held by GPU time there was, in the replay", "ratio"),
    Column("never_fit_count", "BIGINT", "attempts that ask for more than there would be", "count"),
    Column("recorded_wait_mean_s", "DOUBLE", "mean of the recorded waits of the same attempts", "s"),
    Column("recorded_wait_p50_s", "DOUBLE", "median of them", "s"),
    Column("recorded_wait_p90_s", "DOUBLE", "90th percentile of them", "s"),
    Column("error_ratio", "DOUBLE", "today's replay against the record: the largest of the errors of mean, "
           "median and 90th percentile, each by the recorded value (or the floor, if that is larger)", "ratio"),
    Column("given_up_count", "BIGINT", "attempts left out because they ended without a start", "count"),
    Column("coverage_ratio", "DOUBLE", "share of the attempts that wanted GPUs which could be replayed", "ratio"),
)  # fmt: skip
SCHEMA = {column.name: TYPES[column.type] for column in RESULT_COLUMNS}
STATISTICS = ("wait_mean_s", "wait_p50_s", "wait_p90_s")


@dataclass(frozen=True, slots=True)
class Limits:
    """When a replay may forecast.

    error_ratio      largest error of today's waits
    floor_s          waits below this are as good as none: errors are by at least this
    coverage_ratio   least share of attempts that could be replayed
    job_count        least number of waits to compare
    """

    error_ratio: float = 0.2
    floor_s: float = 60.0
    coverage_ratio: float = 0.95
    job_count: int = 100


@dataclass(frozen=True, slots=True)
class Fleet:
    """Today's fleet.

    gpus_per_node   0: GPUs are one pool
    queue_limits    GPUs that a queue's jobs may hold together; queues not named have no limit
    """

    gpu_count: int
    gpus_per_node: int
    queue_limits: Mapping[str, int]


def what_if(
    attempts: pl.DataFrame,
    given_up: int,
    fleet: Fleet,
    changes: Sequence[int],
    limits: Limits,
) -> pl.DataFrame:
    """Replay on today's GPUs and on each change of them; columns of RESULT_COLUMNS.

    `attempts` and `given_up` are those of recorded.attempts_between.
    """
    usable = attempts.filter(
        pl.all_horizontal(pl.col("ready_s", "start_s", "run_s", "gpu_count").is_not_null()),
        pl.col("start_s") >= pl.col("ready_s"),
    )
    coverage = usable.height / attempts.height if attempts.height else None
    counted = usable.filter(~pl.col("is_fixed"))
    recorded = _statistics(counted["start_s"] - counted["ready_s"])
    today, reproduced = _replayed(usable, fleet, 0)
    error = _error(recorded, today, limits.floor_s)
    why = _refusal(attempts, counted.height, coverage, error, fleet, limits)
    rows = []
    for change in (0, *(change for change in changes if change)):
        found, ratio = (today, reproduced) if change == 0 else ({}, None)
        if change and why is None:
            found, ratio = _replayed(usable, fleet, change)
        verdict = "refused" if why else "forecast" if change else "reproduced"
        shown = found if why is None or change == 0 else {}
        rows.append(
            {
                "gpu_count": fleet.gpu_count + change,
                "change_count": change,
                "verdict": verdict,
                "reason": why,
                "job_count": counted.height,
                "allocation_ratio": ratio,
                "error_ratio": error,
                "given_up_count": given_up,
                "coverage_ratio": coverage,
                **{f"recorded_{name}": recorded.get(name) for name in STATISTICS},
                **shown,
            }
        )
    return pl.DataFrame(rows, schema=SCHEMA)


def _statistics(waits: pl.Series) -> dict[str, float | None]:
    return {
        "wait_mean_s": _number(waits.mean()),
        "wait_p50_s": _number(waits.quantile(0.5, "linear")),
        "wait_p90_s": _number(waits.quantile(0.9, "linear")),
    }


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _replayed(
    usable: pl.DataFrame, fleet: Fleet, change: int
) -> tuple[dict[str, float | None], float | None]:
    """Statistics of the waits on so many GPUs more, and the share of GPU time held."""
    gpus = fleet.gpu_count + change
    # Shares of a GPU are replayed in hundredths of one.
    unit = 1 if usable.filter(pl.col("gpu_count") % 1 != 0).is_empty() else 100
    names = usable["queue"].fill_null("").unique().sort().to_list()
    number = {name: n for n, name in enumerate(names)}
    arrivals = [
        Arrival(ready, round(count * unit), run, limit, number[queue or ""], fixed=fixed)
        for ready, count, run, limit, queue, fixed in usable.select(
            "ready_s", "gpu_count", "run_s", pl.col("limit_s").fill_null(pl.col("run_s")), "queue", "is_fixed",
        ).iter_rows()
    ]  # fmt: skip
    caps = [
        None if limit is None else limit * unit
        for limit in (fleet.queue_limits.get(name) for name in names)
    ]
    starts = Replay(arrivals, gpus * unit, fleet.gpus_per_node * unit, caps).run()
    frame = usable.with_columns(pl.Series("replayed_s", starts, pl.Float64))
    begun = frame.filter(pl.col("replayed_s").is_not_null())
    counted = begun.filter(~pl.col("is_fixed"))
    found = _statistics(counted["replayed_s"] - counted["ready_s"])
    never = {"never_fit_count": usable.height - begun.height}
    first, last = usable["ready_s"].min(), usable["ready_s"].max()
    span = (_number(last) or 0.0) - (_number(first) or 0.0)
    if span <= 0 or gpus <= 0:
        return {**found, **never}, None
    # Over the time of arrivals: what is left to finish afterwards says nothing about the load.
    until = pl.min_horizontal(pl.col("replayed_s") + pl.col("run_s"), pl.lit(last))
    held = (pl.col("gpu_count") * (until - pl.col("replayed_s")).clip(0)).sum()
    return {**found, **never}, _number(begun.select(held).item()) / (gpus * span)  # type: ignore[operator]  # a sum is a number


def _error(
    recorded: Mapping[str, float | None], found: Mapping[str, float | None], floor_s: float
) -> float | None:
    errors = [
        abs(seen - was) / max(was, floor_s)
        for was, seen in ((recorded.get(name), found.get(name)) for name in STATISTICS)
        if was is not None and seen is not None
    ]
    return max(errors, default=None)


def _refusal(
    attempts: pl.DataFrame,
    job_count: int,
    coverage: float | None,
    error: float | None,
    fleet: Fleet,
    limits: Limits,
) -> str | None:
    """Why no forecast can be given; None if it can."""
    if attempts.filter(~pl.col("has_all_attempts")).height:
        return "earlier attempts of jobs are stated to be missing: collect with sacct -D"
    if coverage is None or coverage < limits.coverage_ratio:
        return (
            f"only {coverage or 0:.1%} of the attempts can be replayed (start, run time and GPUs known): "
            f"{limits.coverage_ratio:.0%} are needed"
        )
    if job_count < limits.job_count:
        return f"{job_count} waits to compare with: {limits.job_count} are needed"
    if fleet.gpu_count <= 0:
        return "no record says how many GPUs there are: state them with --today"
    if error is None or error > limits.error_ratio:
        return (
            f"replayed on today's {fleet.gpu_count} GPUs, waits differ from the recorded ones by "
            f"{error or 0:.0%}, {limits.error_ratio:.0%} is allowed: priorities, reservations, partitions or "
            "something other than GPUs decides here"
        )
    return None
