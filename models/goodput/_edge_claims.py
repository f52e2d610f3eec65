"""What owns time outside steps: stretches the job names, gaps, the attempt's ends, idle GPUs."""

from __future__ import annotations

import polars as pl

from ._ledger import claims
from ._runs import WINDOW_US
from ._steps import ATTEMPT

# train_span.kind: layer, class. A save or load of a step that goes on is the step's, so is what a block
# or an epoch holds.
SPANS = {
    "eval": ("evaluation", "evaluation"),
    "checkpoint_load": ("checkpoint_load", "checkpoint_load"),
    "checkpoint_save": ("checkpoint_save", "checkpoint_save"),
    "data": ("data", "data_stall"),
    "init": ("init", "init"),
    "prep": ("init", "init"),
}
BEHIND_US = (
    3_600_000_000  # an hour; a standstill that began longer before the last step is another one
)


def span_claims(spans: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Stretches that the job's own events name. Init of a later attempt is restart."""
    timed = spans.join(runs.select("run", *ATTEMPT, "attempt_number"), on=ATTEMPT).with_columns(
        start=pl.col("ts").dt.epoch("us"), end=pl.col("end_ts").dt.epoch("us")
    )
    again = (pl.col("attempt_number") > 0) & pl.col("kind").is_in(["init", "prep"])
    return pl.concat(
        claims(
            timed.filter(pl.col("kind") == kind), name,
            **{"class": pl.when(again).then(pl.lit("restart")).otherwise(pl.lit(owner))},
        )
        for kind, (name, owner) in SPANS.items()
    )  # fmt: skip


def _hangs(incident: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Standstills with a known culprit: run, since, node. Those of jobs without stated attempt fit any."""
    found = incident.filter((pl.col("kind") == "hang") & pl.col("is_timed"))
    return found.join(runs.select("run", "cluster", "job_id"), on=["cluster", "job_id"]).select(
        "run", since=pl.col("start_ts").dt.epoch("us"), node=pl.coalesce("node", "accused")
    ).sort("since", "node")  # fmt: skip


def _accused(stops: pl.DataFrame, hangs: pl.DataFrame) -> pl.DataFrame:
    """Stops (run, start, end) with `culprit`: who stood still within them or up to an hour before."""
    pairs = stops.join(hangs, on="run").filter(
        pl.col("since").is_between(pl.col("start") - BEHIND_US, pl.col("end"))
    )
    first = pairs.group_by("run", "start", "end").agg(
        pl.col("node").sort_by("since", "node").first().alias("culprit")
    )
    return stops.join(first, on=["run", "start", "end"], how="left")


def gap_claims(
    rows: pl.DataFrame, progress: pl.DataFrame, incident: pl.DataFrame, runs: pl.DataFrame
) -> pl.DataFrame:
    """Time between an attempt's steps: before steps that it did again it restarted; else, where
    somebody stood still, it hung. Gaps over midnight are those of train_progress_day.
    """
    within = rows.filter(
        (pl.col("start") > pl.col("before")) & (pl.col("before") >= pl.col("day_ts").dt.epoch("us"))
    ).select("run", "is_again", start="before", end="start")
    over = progress.join(runs.select("run", *ATTEMPT), on=ATTEMPT).filter(
        pl.col("next_ts") > pl.col("last_ts")
    ).select(
        "run", is_again="next_is_again",
        start=pl.col("last_ts").dt.epoch("us"), end=pl.col("next_ts").dt.epoch("us"),
    )  # fmt: skip
    hung = _accused(pl.concat([within, over]), _hangs(incident, runs))
    owned = hung.filter(pl.col("is_again") | pl.col("culprit").is_not_null())
    name = pl.when("is_again").then(pl.lit("restart")).otherwise(pl.lit("hang_detection"))
    return claims(owned, "gap", **{"class": name})


def edge_claims(
    progress: pl.DataFrame, incident: pl.DataFrame, runs: pl.DataFrame, min_tail_s: float
) -> pl.DataFrame:
    """Before an attempt's first step it starts; behind its last one, if it ended badly, it hung or
    was being preempted.

    Records of ranks that cover less than half of the attempt are a sample, and say nothing of its ends.
    """
    known = progress.group_by(ATTEMPT).agg(
        pl.col("attempt_first_ts").first().dt.epoch("us").alias("first"),
        pl.col("attempt_last_ts").first().dt.epoch("us").alias("last"),
        pl.col("attempt_basis").first(),
        (pl.col("attempt_last_stride") * pl.col("ideal_s").list.max()).max().alias("row_s"),
    )
    covers = 2 * (pl.col("last") - pl.col("first")) >= pl.col("end") - pl.col("start")
    ends = runs.join(known, on=ATTEMPT).filter((pl.col("attempt_basis") == "log") | covers)
    start_up = (
        pl.when(pl.col("attempt_number") > 0).then(pl.lit("restart")).otherwise(pl.lit("init"))
    )
    heads = claims(ends.with_columns(end="first"), "edge", **{"class": start_up})
    tail_s = (pl.col("end") - pl.col("last")) / 1e6
    long = tail_s > pl.max_horizontal(pl.lit(min_tail_s), 2 * pl.col("row_s").fill_null(0))
    is_preempted = pl.col("state") == "PREEMPTED"
    tails = ends.filter(pl.col("ended_badly") & (is_preempted | long)).select(
        "run", "state", start="last", end="end"
    )
    name = pl.when(is_preempted).then(pl.lit("preemption")).otherwise(pl.lit("hang_detection"))
    return pl.concat([
        heads, claims(_accused(tails, _hangs(incident, runs)), "edge", **{"class": name})
    ])  # fmt: skip


def idle_claims(windows: pl.DataFrame) -> pl.DataFrame:
    """Windows in which none of the job's GPUs did anything, and what lies beside them.

    A window is idle only as a whole: idleness began in the one before, and ended in the one behind.
    Of those only what nobody else claims is left for this layer.
    """
    idle = windows.filter("is_idle").with_columns(
        start=pl.col("start") - WINDOW_US, end=pl.col("end") + WINDOW_US
    )
    return claims(idle, "idle", **{"class": "idle"})
