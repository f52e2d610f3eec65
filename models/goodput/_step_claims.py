"""What steps claim of an allocation: their ideal part, what was done again, and the excess by cause.

A row stands for as many steps as step numbers grew by, each as long as the row says, and ends when the
row's step ends. Seconds beyond the ideal lie at its end, cause by cause.
"""

from __future__ import annotations

import polars as pl

from ._ledger import claims
from ._step_causes import PARTS, causes, near
from ._steps import ATTEMPT, BLOCK, DAY


def steps_of(steps: pl.DataFrame, progress: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Steps (_steps.job_steps) of runs with what they are measured by.

    Columns: row, run, start, end (microseconds; what the row's steps took), floor (before which it cannot
    begin), day_ts, step, count, step_s, ideal_s,
    noise_ratio, is_first (of the attempt), before (end of what the attempt recorded before; NULL: nothing),
    lost_count (of `count`, done again later), is_again (done before in the same attempt), basis.
    """
    known = progress.join(runs.select("run", *ATTEMPT), on=ATTEMPT)
    context = known.select(
        "run",
        *DAY,
        "stride",
        "noise_ratio",
        "previous_step",
        "previous_ts",
        "later_min_step",
        "redo_step",
        "resume_step",
    )
    ideal = (
        known.select("run", "day_ts", batch="batch_sizes", ideal_s="ideal_s")
        .explode("batch", "ideal_s")
        .filter(pl.col("batch").is_not_null())
    )
    rows = (
        steps.join(context, on=DAY, maintain_order="left")
        .join(ideal, on=["run", "day_ts", "batch"], how="left", maintain_order="left")
        .with_columns(pl.col("end_ts").dt.epoch("us").alias("end"))
    )
    return _lost(_timed(rows)).with_row_index("row")


def _timed(rows: pl.DataFrame) -> pl.DataFrame:
    """`count`, `start`, `before` of each row."""
    earlier = pl.col("previous_ts").dt.epoch("us")
    since = pl.col("step") - pl.col("previous_step")
    rest = pl.col("step") % pl.col("stride")
    # The first row of an attempt: a mean over the interval if its number closes one, else a single sample.
    alone = (
        pl.when(pl.col("resume_step").is_not_null()).then(pl.col("step") - pl.col("resume_step") + 1)
        .when(pl.col("step") <= 0).then(1)
        .when(rest == 0).then("stride")
        .otherwise(rest)
    )  # fmt: skip
    count = pl.coalesce("step_count", pl.when(since > 0).then(since), alone).cast(pl.Int64)
    latest = pl.col("end").cum_max().shift(1).over("run")
    counted = rows.with_columns(
        count=count,
        before=pl.max_horizontal(latest, earlier),
        is_first=latest.is_null() & earlier.is_null(),
        is_again=(pl.col("step") <= pl.coalesce(pl.col("step").shift(1).over("run"), "previous_step"))
        .fill_null(value=False),
    )  # fmt: skip
    gone_s = (pl.col("end") - pl.col("before")) / 1e6 / pl.col("count")
    step_s = pl.coalesce("step_s", pl.when(gone_s > 0).then(gone_s), "ideal_s").fill_null(0.0)
    lasted = (pl.col("count") * step_s * 1e6).round().cast(pl.Int64)
    # What lies before midnight is carried over by carried_claims: that day does not see the row.
    floor = pl.max_horizontal("before", pl.col("day_ts").dt.epoch("us"))
    return counted.with_columns(
        step_s=step_s, floor=floor, start=pl.max_horizontal(pl.col("end") - lasted, floor)
    )


def stretched(rows: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Rows of several steps begin earlier by what lies between their steps: saves, evaluations.

    spans   claims that outrank steps
    """
    # Before an attempt's first steps lies its start-up.
    since = pl.when("is_first").then("start").otherwise("floor")
    several = rows.filter(pl.col("count") > 1).with_columns(since=since)
    if several.is_empty() or spans.is_empty():
        return rows
    own = spans.sort("run", "start", "end")
    taken = pl.col("end").cum_max().shift(1).over("run")
    apart = own.with_columns(begin=pl.max_horizontal("start", taken)).filter(
        pl.col("begin") < pl.col("end")
    )
    length = pl.col("end") - pl.col("begin")
    total = apart.select(
        "run", "begin", length=length, so_far=length.cum_sum().over("run") - length
    ).sort("begin")

    def until(moment: str) -> pl.DataFrame:
        """Microseconds of spans up to a moment of the rows."""
        found = several.select("row", "run", at=moment).sort("at").join_asof(
            total, left_on="at", right_on="begin", by="run", check_sortedness=False
        )  # fmt: skip
        us = pl.col("so_far") + pl.min_horizontal(pl.col("at") - pl.col("begin"), "length")
        return found.select("row", us.fill_null(0).alias(moment))

    between = until("end").join(until("since"), on="row").select(
        "row", between=pl.col("end") - pl.col("since")
    )  # fmt: skip
    return (
        rows.join(between, on="row", how="left", maintain_order="left")
        .with_columns(
            start=pl.max_horizontal(pl.col("start") - pl.col("between").fill_null(0), "floor")
        )
        .drop("between")
    )


def _lost(rows: pl.DataFrame) -> pl.DataFrame:
    """How many of a row's steps the job did again later, as the lowest number that came later shows."""
    since = pl.when("is_first").then("resume_step")
    # As train_progress_day.later_min_step.
    lowest = pl.coalesce(since, pl.col("step") - pl.coalesce("step_count", "stride") + 1)
    job = ["cluster", "job_id"]
    later = lowest.reverse().cum_min().reverse().shift(-1).over(job)
    again = pl.min_horizontal(later, "later_min_step", "redo_step")
    lost = (pl.col("step") - again + 1).clip(0, pl.col("count"))
    return rows.with_columns(lost_count=lost.fill_null(0))


def excess(rows: pl.DataFrame, min_excess_ratio: float, spike_noise: float) -> pl.DataFrame:
    """Adds excess_s (of all the row's steps) and is_spike.

    A step is long by itself if it exceeds the ideal by min_excess_ratio and by spike_noise times what
    single steps wander; its excess then is what lies beyond the ideal. Else the median of its 64
    steps decides, which must exceed it by a quarter of min_excess_ratio and by three of its own errors.
    """
    noise = pl.col("noise_ratio").fill_null(0)
    block = ["run", "day_ts", "batch", pl.col("step") // BLOCK]
    over = pl.col("step_s") / pl.col("ideal_s") - 1
    is_spike = over > pl.max_horizontal(pl.lit(min_excess_ratio), spike_noise * noise)
    timed = rows.with_columns(is_spike=is_spike.fill_null(value=False))
    usual = pl.col("step_s").filter(~pl.col("is_spike")).median().over(block)
    limit = pl.max_horizontal(
        pl.lit(min_excess_ratio / 4), 3 * 1.2533 * noise / pl.len().over(block).sqrt()
    )
    slow = (usual / pl.col("ideal_s") - 1 > limit) & (pl.len().over(block) >= 8)
    per_step = (
        pl.when("is_spike").then(pl.col("step_s") - pl.col("ideal_s"))
        .when(slow).then(pl.col("step_s") * (1 - pl.col("ideal_s") / usual))
        .otherwise(0.0)
    )  # fmt: skip
    return timed.with_columns(excess_s=(per_step * pl.col("count")).fill_null(0.0))


def plain_claims(rows: pl.DataFrame, join_gap_ratio: float) -> pl.DataFrame:
    """Stretches of steps without excess, all kept or all lost, with nothing noteworthy between them."""
    gap = pl.col("start") - pl.col("before")
    lost = pl.col("lost_count") > 0
    goes_on = (
        (pl.col("run") == pl.col("run").shift(1))
        & (lost == lost.shift(1))
        & pl.col("is_plain").shift(1)
        & ~pl.col("is_again")
        & (gap <= join_gap_ratio * 1e6 * pl.col("ideal_s"))
    ).fill_null(value=False)
    stretches = (
        rows.with_columns(piece=(~goes_on).cum_sum(), is_lost=lost)
        .filter("is_plain")
        .group_by("piece", maintain_order=True)
        .agg(pl.col("run", "is_lost").first(), pl.col("start").min(), pl.col("end").max())
    )
    name = pl.when("is_lost").then(pl.lit("lost_work")).otherwise(pl.lit("productive"))
    return claims(stretches, "step", **{"class": name, "in_step": ~pl.col("is_lost")})


def carried_claims(progress: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """The end of a day in which the next day's first recorded steps began."""
    midnight = (pl.col("day_ts") + pl.duration(days=1)).dt.epoch("us")
    over = progress.join(runs.select("run", *ATTEMPT), on=ATTEMPT).select(
        "run", "next_is_lost", start=pl.col("next_ts").dt.epoch("us"), end=midnight
    )
    name = pl.when("next_is_lost").then(pl.lit("lost_work")).otherwise(pl.lit("productive"))
    return claims(
        over.filter(pl.col("start") < pl.col("end")), "step",
        **{"class": name, "in_step": ~pl.col("next_is_lost")},
    )  # fmt: skip


def slow_claims(rows: pl.DataFrame, parts: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Rows with excess, or lost in part, as one claim per owner, the excess behind the ideal."""
    caused = causes(near(rows, parts), windows)
    lost = pl.col("lost_count") / pl.col("count")
    kept = 1 - lost
    start_up = pl.when("is_first").then("excess_s").otherwise(0.0)
    rest = pl.col("excess_s") - start_up
    taken = pl.lit(0.0)
    seconds: dict[str, pl.Expr] = {
        "productive": kept * (pl.col("count") * pl.col("step_s") - pl.col("excess_s")),
        "lost_work": lost * pl.col("count") * pl.col("step_s"),
        "startup": kept * start_up,
    }
    for part in PARTS[3:-1]:
        share = pl.min_horizontal(pl.col(f"{part}_s") * pl.col("count"), rest - taken).clip(0)
        seconds[part] = kept * share
        taken = taken + share
    seconds["unexplained"] = kept * (rest - taken)
    spread = caused.with_columns(**{f"{n}_s": e for n, e in seconds.items()})
    return _in_a_row(spread)


def _in_a_row(spread: pl.DataFrame) -> pl.DataFrame:
    """The parts of each row one behind the other, scaled to the time that the row has."""
    names = [f"{part}_s" for part in PARTS]
    long = spread.unpivot(
        names, index=["row", "run", "start", "end", "culprit", "local", "common", "attempt_number"],
        variable_name="part", value_name="part_s",
    ).with_columns(part=pl.col("part").str.strip_suffix("_s"))  # fmt: skip
    order = pl.col("part").replace_strict(
        {p: n for n, p in enumerate(PARTS)}, return_dtype=pl.Int64
    )
    ordered = long.with_columns(order=order).sort("row", "order")
    until = pl.col("part_s").cum_sum().over("row") / pl.col("part_s").sum().over("row")
    length = pl.col("end") - pl.col("start")
    stop = pl.col("start") + (until * length).round().cast(pl.Int64)
    placed = ordered.filter(pl.col("part_s").sum().over("row") > 0).with_columns(
        stop=stop,
    ).with_columns(begin=pl.coalesce(pl.col("stop").shift(1).over("row"), "start"))  # fmt: skip
    startup = (
        pl.when(pl.col("attempt_number") > 0).then(pl.lit("restart")).otherwise(pl.lit("init"))
    )
    owner = (
        pl.when(pl.col("part") == "startup").then(startup)
        .when(pl.col("part") == "local").then("local")
        .when(pl.col("part") == "common").then("common")
        .otherwise("part")
    )  # fmt: skip
    is_kept = ~pl.col("part").is_in(["lost_work", "startup", "checkpoint_save"])
    culprit = pl.when(pl.col("part").is_in(["local", "common"])).then("culprit")
    return claims(
        placed.select("run", culprit=culprit, start="begin", end="stop", owner=owner, kept=is_kept),
        "step", **{"class": pl.col("owner"), "in_step": pl.col("kept")},
    )  # fmt: skip
