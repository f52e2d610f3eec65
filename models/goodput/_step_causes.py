"""Why steps took longer than the ideal: records of the job's ranks, and telemetry of its nodes."""

from __future__ import annotations

import polars as pl

from ._steps import BLOCK, DAY

PARTS = ("productive", "lost_work", "startup", "checkpoint_save", "data_stall", "communication_stall",
         "local", "common", "unexplained")  # fmt: skip
# Telemetry windows; how far from a recorded step its neighbours may take its causes.
WINDOW_US, NEAR_STEPS = 300_000_000, BLOCK
# What a part must exceed to be beyond what is usual: standard deviations of ordinary steps, and a share of
# the ideal step. Without it the half of all noise that is positive would be booked as lost.
NOISE_FACTOR, LEAST_SHARE = 3.0, 0.01


def part_excess(parts: pl.DataFrame, progress: pl.DataFrame) -> pl.DataFrame:
    """Recorded steps of ranks with seconds beyond what is usual that day: what is shared by all ranks.

    Usual is the median over the steps that take no more than 2 % over the ideal, else the first quartile.
    What does not exceed it by NOISE_FACTOR times what those steps wander, and by LEAST_SHARE, is noise.
    """
    ideal = progress.select(*DAY, pl.col("ideal_s").list.max().alias("ideal_s"))
    day = parts.with_columns(day_ts=pl.col("ts").dt.truncate("1d")).join(ideal, on=DAY, how="left")
    normal = pl.col("step_s") <= 1.02 * pl.col("ideal_s")
    names = ("checkpoint_s", "data_s", "communication_s", "compute_s")
    above = {
        name: pl.col(name) - pl.coalesce(
            pl.col(name).filter(normal).median().over(DAY),
            pl.col(name).quantile(0.25, "linear").over(DAY),
        )
        for name in names
    }  # fmt: skip
    day = day.with_columns(**above)

    def beyond(name: str) -> pl.Expr:
        noise = 1.4826 * pl.col(name).filter(normal).abs().median().over(DAY).fill_null(0)
        limit = pl.max_horizontal(NOISE_FACTOR * noise, LEAST_SHARE * pl.col("ideal_s"))
        return pl.when(pl.col(name) > limit).then(name).otherwise(0.0)

    return day.select(
        *DAY, "step",
        beyond("checkpoint_s").alias("checkpoint_save_s"),
        beyond("data_s").alias("data_stall_s"),
        beyond("communication_s").alias("communication_stall_s"),
        pl.col("straggler_s").fill_null(0).alias("local_s"),
        beyond("compute_s").alias("common_s"),
        culprit=pl.coalesce("straggler_node", pl.format("rank {}", "straggler_rank")),
        recorded_excess_s=pl.col("step_s") - pl.col("ideal_s"),
        is_long=(pl.col("step_s") > 1.02 * pl.col("ideal_s")).fill_null(value=False),
    ).sort("step")  # fmt: skip


def near(rows: pl.DataFrame, parts: pl.DataFrame) -> pl.DataFrame:
    """Parts of the nearest recorded step, none further than NEAR_STEPS.

    A step that is long by itself takes those of the nearest long one, in the same proportion.
    """
    names = [f"{part}_s" for part in PARTS[3:-1]]
    found = []
    for is_spike, known in ((True, parts.filter("is_long")), (False, parts)):
        near = rows.filter(pl.col("is_spike") == is_spike).sort("step").join_asof(
            known.with_columns(recorded="step"), on="step", by=[*DAY], strategy="nearest",
            tolerance=NEAR_STEPS, check_sortedness=False,
        )  # fmt: skip
        whole = pl.max_horizontal(pl.sum_horizontal(names), "recorded_excess_s")
        scale = pl.col("excess_s") / pl.col("count") / whole if is_spike else pl.lit(1.0)
        found.append(
            near.with_columns(
                *((pl.col(name) * scale).fill_null(0.0).alias(name) for name in names),
                has_parts=pl.col("recorded").is_not_null(),
            )
        )
    return pl.concat(found)


def causes(rows: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Classes of what one rank (`local`) and of what all (`common`) computed longer, by telemetry.

    Without records of ranks everything beyond the ideal is `common`.
    """
    told = rows.with_columns(window=pl.col("start") // WINDOW_US).join(
        windows.select("run", "window", "throttled_nodes", "degraded_nodes", "is_throttled"),
        on=["run", "window"], how="left",
    )  # fmt: skip
    throttled, degraded = pl.col("throttled_nodes"), pl.col("degraded_nodes")
    accused = pl.col("culprit").is_not_null()
    local = (
        pl.when(throttled.list.contains(pl.col("culprit"))).then(pl.lit("throttle"))
        .when(degraded.list.contains(pl.col("culprit"))).then(pl.lit("silent_degradation"))
        .otherwise(pl.lit("straggler"))
    )  # fmt: skip
    has_throttled = (throttled.list.len() > 0) | pl.col("is_throttled")
    common = (
        pl.when(has_throttled).then(pl.lit("throttle"))
        .when(degraded.list.len() > 0).then(pl.lit("silent_degradation"))
        .otherwise(pl.lit("unexplained"))
    )  # fmt: skip
    named = pl.coalesce(throttled.list.first(), degraded.list.first())
    return told.with_columns(
        local=local,
        common=common,
        culprit=pl.when(accused).then("culprit").otherwise(named),
        common_s=pl.when("has_parts").then("common_s")
        .otherwise(pl.col("excess_s") / pl.col("count")),
    )  # fmt: skip
