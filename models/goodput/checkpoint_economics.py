"""What saving, loading and failing cost a job, and which interval between checkpoints would cost least."""

from __future__ import annotations

import polars as pl

from fleetmark.model import Param, model
from fleetmark.table import Column, Table

from ..reliability._formulas import (
    checkpoint_overhead_ratio,
    expected_count_bounds,
    modelled_ettr_ratio,
    young_daly_s,
)

JOB = ["cluster", "job_id"]
CHECKPOINT_ECONOMICS = Table(
    name="checkpoint_economics",
    doc="Checkpoints of a job over all its attempts: measured cost of a save, a load and a failure, its time to "
    "failure with bounds, the interval of least expected loss and what it would gain, and its failure budget. Of "
    "jobs whose ledger knows their steps. Fleets by size and month: checkpoint_interval_advice, ettr, failure_budget.",
    grain=("cluster", "job_id"),
    columns=(
        Column("cluster", "VARCHAR", "cluster of the job"),
        Column("job_id", "VARCHAR", "job, as in goodput_segment"),
        Column("until_ts", "TIMESTAMP", "end of what is known of it"),
        Column("gpu_count", "BIGINT", "GPUs of its largest attempt; NULL: not known", "count"),
        Column("attempt_count", "BIGINT", "attempts that held GPUs", "count", null=False),
        Column("failure_count", "BIGINT", "of these, ended as failed, out of memory, node_fail or boot_fail", "count", null=False),
        Column("run_s", "DOUBLE", "time its attempts held GPUs", "s", null=False),
        Column("ettr_ratio", "DOUBLE", "measured: length of kept steps by the time from first start to last end", "ratio"),
        Column("modelled_ettr_ratio", "DOUBLE", "expected at its own mttf_s, interval_s, save_s and restart_s (arXiv 2410.21680); 1 / (1 + save by interval) without a failure", "ratio"),
        Column("save_count", "BIGINT", "saves whose start and stop are logged", "count", null=False),
        Column("save_s", "DOUBLE", "mean time that a save stops training", "s"),
        Column("load_s", "DOUBLE", "mean time of a logged load", "s"),
        Column("interval_s", "DOUBLE", "median time from one save's end to the next within an attempt", "s"),
        Column("lost_s", "DOUBLE", "mean work done again or lost, by attempt that ended badly", "s"),
        Column("detection_s", "DOUBLE", "mean time from the last step to the end, by the same", "s"),
        Column("restart_s", "DOUBLE", "mean time from the start of a later attempt to its steps, loading included", "s"),
        Column("mttf_s", "DOUBLE", "run_s by failure_count; NULL without failures", "s"),
        Column("mttf_lower_s", "DOUBLE", "lower 95 % bound, by the chi-square distribution (Garwood)", "s"),
        Column("mttf_upper_s", "DOUBLE", "upper one; NULL without failures: there is none", "s"),
        Column("young_s", "DOUBLE", "best interval to first order: sqrt(2 x save_s x mttf_s) (Young 1974)", "s"),
        Column("daly_s", "DOUBLE", "best interval by Daly 2006, higher orders: young_s x (1 + sqrt(w/2M)/3 + w/18M) - w for w < 2 M, else M", "s"),
        Column("daly_lower_s", "DOUBLE", "the same at mttf_lower_s", "s"),
        Column("daly_upper_s", "DOUBLE", "the same at mttf_upper_s", "s"),
        Column("overhead_ratio", "DOUBLE", "expected share of time for saving and redoing at interval_s: w/D + D/2M", "ratio"),
        Column("best_overhead_ratio", "DOUBLE", "the same at daly_s", "ratio"),
        Column("gain_gpu_h", "DOUBLE", "GPU-hours that daly_s would have saved over run_s, as expected", "gpu_h"),
        Column("allowed_failure_count", "DOUBLE", "failures over run_s at which modelled ETTR is still target_ettr_ratio", "count"),
        Column("budget_used_ratio", "DOUBLE", "failure_count by that; above 1 it is burnt", "ratio"),
        Column("coverage_ratio", "DOUBLE", "time of the ledger with known steps, of run_s", "ratio", null=False),
    ),
    time="until_ts",
    sort=("cluster", "job_id"),
)  # fmt: skip
PARAMS = {
    "target_ettr_ratio": Param(
        0.9, "ratio; what a job should reach, as in failure_budget (arXiv 2410.21680).", most=1
    ),
}
FAILURES = ("FAILED", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL")


def daly_s(save_s: pl.Expr, mttf_s: pl.Expr) -> pl.Expr:
    """Interval of least expected loss (Daly 2006, equation 37): M where saving takes 2 M or more."""
    part = save_s / (2 * mttf_s)
    higher = young_daly_s(save_s, mttf_s) * (1 + part.sqrt() / 3 + part / 9) - save_s
    return pl.when(save_s < 2 * mttf_s).then(higher).otherwise(mttf_s)


@model(output=CHECKPOINT_ECONOMICS, window="all", params=PARAMS)
def checkpoint_economics(
    goodput_segment: pl.LazyFrame,
    train_span: pl.LazyFrame,
    job_attempt: pl.LazyFrame,
    *,
    target_ettr_ratio: float,
) -> pl.LazyFrame:
    """Means of what the ledger and the job's saves show, and formulas over them.

    No SQL: the formulas and the chi-square are shared with the reliability models.
    """
    spent = _spent(goodput_segment.collect(), job_attempt.collect())
    saves = _saves(train_span.collect(), spent)
    known = spent.join(saves, on=JOB, how="left").with_columns(pl.col("save_count").fill_null(0))
    low, high = expected_count_bounds(known["failure_count"])
    failing = pl.col("failure_count") > 0
    timed = known.with_columns(
        mttf_s=pl.when(failing).then(pl.col("run_s") / pl.col("failure_count")),
        mttf_lower_s=pl.col("run_s") / high,
        mttf_upper_s=pl.when(failing).then(pl.col("run_s") / low),
    )
    return _advised(timed, target_ettr_ratio).select(CHECKPOINT_ECONOMICS.column_names).lazy()


def _advised(timed: pl.DataFrame, target: float) -> pl.DataFrame:
    save, interval, mttf = pl.col("save_s"), pl.col("interval_s"), pl.col("mttf_s")
    restart_s = pl.col("restart_s").fill_null(0) + pl.col("detection_s").fill_null(0)
    found = timed.with_columns(
        young_s=young_daly_s(save, mttf),
        daly_s=daly_s(save, mttf),
        daly_lower_s=daly_s(save, pl.col("mttf_lower_s")),
        daly_upper_s=daly_s(save, pl.col("mttf_upper_s")),
        overhead_ratio=checkpoint_overhead_ratio(interval, save, mttf),
        modelled_ettr_ratio=modelled_ettr_ratio(
            3600 / mttf.fill_null(float("inf")), restart_s / 3600, interval / 3600, save / 3600
        ),
        allowed=(1 - target * (1 + save / interval)) / (restart_s + interval / 2) * pl.col("run_s"),
    )
    best = checkpoint_overhead_ratio(pl.col("daly_s"), save, mttf)
    gain = (pl.col("overhead_ratio") - best) * pl.col("run_s") * pl.col("gpu_count") / 3600
    return found.with_columns(
        best_overhead_ratio=best,
        gain_gpu_h=gain,
        allowed_failure_count=pl.col("allowed").clip(0),
        budget_used_ratio=pl.when(pl.col("allowed") > 0).then(
            pl.col("failure_count") / pl.col("allowed")
        ),
    )


def _spent(segments: pl.DataFrame, attempts: pl.DataFrame) -> pl.DataFrame:
    """Per job: seconds by owner, attempts, and means by attempt that ended badly or came later."""
    owner = pl.col("class")
    # One row of a moment: GPUs that stand idle beside the others are the same seconds again.
    lasted = (pl.col("end_ts") - pl.col("start_ts")).dt.total_microseconds()
    whole = segments.sort("gpu_count", "class", descending=[True, False], nulls_last=True).unique(
        [*JOB, "attempt", "start_ts"], keep="first", maintain_order=True
    )

    def seconds(*names: str) -> pl.Expr:
        return lasted.filter(owner.is_in(names)).sum() / 1e6

    stepped = pl.col("evidence").is_in(["steps", "collectives"])
    states = attempts.select(*JOB, "attempt", "state")
    jobs = whole.join(states, on=[*JOB, "attempt"], how="left").group_by(JOB).agg(
        pl.col("end_ts").max().alias("until_ts"),
        pl.col("gpu_count").max(),
        pl.col("attempt").n_unique().cast(pl.Int64).alias("attempt_count"),
        pl.col("attempt").filter(pl.col("state").is_in(FAILURES)).n_unique().cast(pl.Int64)
        .alias("failure_count"),
        (lasted.sum() / 1e6).alias("run_s"),
        (lasted.filter(pl.col("in_step")).sum() / 1e6).alias("in_step_s"),
        ((pl.col("end_ts").max() - pl.col("start_ts").min()).dt.total_microseconds() / 1e6).alias("span_s"),
        seconds("lost_work").alias("lost_all_s"),
        seconds("hang_detection").alias("hung_s"),
        seconds("restart", "checkpoint_load").alias("restarted_s"),
        pl.col("attempt").filter(owner == "restart").n_unique().alias("restart_count"),
        (lasted.filter(stepped).sum() / lasted.sum()).alias("coverage_ratio"),
    )  # fmt: skip
    failing = pl.col("failure_count") > 0
    return jobs.filter(pl.col("coverage_ratio") > 0).with_columns(
        pl.when(pl.col("span_s") > 0).then(pl.col("in_step_s") / pl.col("span_s")).alias("ettr_ratio"),
        pl.when(failing).then(pl.col("lost_all_s") / pl.col("failure_count")).alias("lost_s"),
        pl.when(failing).then(pl.col("hung_s") / pl.col("failure_count")).alias("detection_s"),
        pl.when(pl.col("restart_count") > 0)
        .then(pl.col("restarted_s") / pl.col("restart_count")).alias("restart_s"),
    )  # fmt: skip


def _saves(spans: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Per job: saves, their mean length and median interval, mean length of loads."""
    lasted_s = (pl.col("end_ts") - pl.col("start_ts")).dt.total_microseconds() / 1e6
    is_save = pl.col("kind") == "checkpoint_save"
    apart_s = (
        pl.col("end_ts").diff().over("cluster", "job_id", "attempt").dt.total_microseconds() / 1e6
    )
    mine = spans.join(jobs.select(JOB), on=JOB, how="semi").sort(*JOB, "attempt", "start_ts")
    saves = mine.filter(is_save).with_columns(apart_s.alias("apart_s"), lasted_s.alias("lasted_s"))
    loads = mine.filter(pl.col("kind") == "checkpoint_load").group_by(JOB).agg(
        lasted_s.mean().alias("load_s")
    )  # fmt: skip
    return (
        saves.group_by(JOB)
        .agg(
            pl.len().cast(pl.Int64).alias("save_count"),
            pl.col("lasted_s").mean().alias("save_s"),
            pl.col("apart_s").median().alias("interval_s"),
        )
        .join(loads, on=JOB, how="full", coalesce=True)
    )
