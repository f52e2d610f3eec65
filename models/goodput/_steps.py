"""A job's steps in order of time, under the attempt that the scheduler knows.

Logs number attempts from 1 or not at all; the scheduler's attempts of a job never overlap, so the time
of a step says which one it belongs to.
"""

from __future__ import annotations

import polars as pl

ATTEMPT = ("cluster", "job_id", "attempt")
DAY = (*ATTEMPT, "day_ts")
LATE = pl.duration(hours=1)
BLOCK = 64  # steps; their median is eight times as steady as a step


def scheduled(job_attempt: pl.DataFrame) -> pl.DataFrame:
    """Attempts under every id that logs may carry: `key` is job_id or raw_job_id."""
    started = job_attempt.filter(pl.col("start_ts").is_not_null())
    keys = [started.with_columns(key=pl.col(name)) for name in ("job_id", "raw_job_id")]
    return (
        pl.concat(keys)
        .filter(pl.col("key").is_not_null())
        .unique(["cluster", "key", "start_ts"], keep="first", maintain_order=True)
        .select(
            "cluster", "key", "start_ts", "alloc_gpus",
            until_ts=pl.col("end_ts") + LATE, known_job_id="job_id", known_attempt="attempt",
        )
        .sort("start_ts")
    )  # fmt: skip


def placed(rows: pl.DataFrame, job_attempt: pl.DataFrame) -> pl.DataFrame:
    """Rows (ATTEMPT, ts) under the scheduler's job and attempt; `alloc_gpus` and `is_scheduled` beside.

    A row belongs to the attempt that ran at its time, or ended up to an hour before (clocks differ);
    else to the one that its log states. One of neither keeps what the log states.
    """
    known = scheduled(job_attempt)
    if known.is_empty():
        return rows.with_columns(
            alloc_gpus=pl.lit(None, pl.Int32), is_scheduled=pl.lit(value=False)
        )
    stated = known.select(
        "cluster", job_id="key", attempt="known_attempt", stated_job_id="known_job_id",
        stated_gpus="alloc_gpus",
    ).unique(ATTEMPT, keep="first", maintain_order=True)  # fmt: skip
    found = (
        rows.sort("ts")
        .join_asof(known, left_on="ts", right_on="start_ts", by_left=["cluster", "job_id"],
                   by_right=["cluster", "key"], check_sortedness=False)
        .join(stated, on=list(ATTEMPT), how="left")
    )  # fmt: skip
    ran = pl.col("known_attempt").is_not_null() & (
        pl.col("until_ts").is_null() | (pl.col("ts") <= pl.col("until_ts"))
    )
    is_stated = pl.col("stated_job_id").is_not_null()
    return found.select(
        "cluster",
        pl.when(ran).then("known_job_id").otherwise(pl.coalesce("stated_job_id", "job_id")).alias("job_id"),
        pl.when(ran).then("known_attempt").otherwise("attempt").alias("attempt"),
        pl.when(ran).then("alloc_gpus").otherwise("stated_gpus").alias("alloc_gpus"),
        (ran | is_stated).alias("is_scheduled"),
        pl.exclude(*ATTEMPT, "alloc_gpus", "start_ts", "until_ts", "known_job_id", "known_attempt",
                   "stated_job_id", "stated_gpus"),
    )  # fmt: skip


def job_steps(
    train_step_run: pl.DataFrame, job_step_parts: pl.DataFrame, job_attempt: pl.DataFrame
) -> pl.DataFrame:
    """One row per step and time a job did it: the job's own log; its ranks' records of days without one
    and behind the day's last row, since a log of every tenth step ends before its job does.

    Columns: ATTEMPT, day_ts, step, batch (samples; 0: unknown), end_ts, step_s (mean over the steps
    that the row stands for), step_count (how many: what step numbers grew by; NULL in the first row of
    a day), basis (log or ranks), alloc_gpus, is_scheduled, stretch (a number per attempt
    and day). Sorted by job, day, attempt and time.
    """
    named = ["cluster", "job_id", "attempt", "step", "ts", "step_s"]
    day = pl.col("ts").dt.truncate("1d").alias("day_ts")
    logged = placed(
        train_step_run.filter(pl.col("time_basis") == "absolute").select(
            *named, day, batch=pl.col("global_batch_size").fill_null(0), basis=pl.lit("log")
        ),
        job_attempt,
    )
    lived = placed(
        job_step_parts.select(*named, day, batch=pl.lit(0, pl.Int64), basis=pl.lit("ranks")),
        job_attempt,
    )
    last = logged.group_by(DAY).agg(last_step=pl.col("step").max(), last_ts=pl.col("ts").max())
    behind = (pl.col("step") > pl.col("last_step")) & (pl.col("ts") > pl.col("last_ts"))
    lived = lived.join(last, on=DAY, how="left").filter(pl.col("last_step").is_null() | behind)
    rows = pl.concat([logged, lived.select(logged.columns)])
    span = pl.duration(microseconds=(pl.col("step_s").fill_null(0) * 1e6).round().cast(pl.Int64))
    ordered = rows.with_columns((pl.col("ts") + span).alias("end_ts")).sort(
        "cluster", "job_id", "day_ts", "attempt", "ts", "step", maintain_order=True
    )
    # Sorted as they are, comparing with the row before is a tenth of the cost of a window per day.
    goes_on = pl.all_horizontal(pl.col(c) == pl.col(c).shift(1) for c in DAY).fill_null(value=False)
    grown = pl.col("step").diff()
    lasted_s = pl.col("end_ts").diff().dt.total_microseconds() / 1e6
    counted = ordered.with_columns(step_count=pl.when(goes_on & (grown > 0)).then(grown))
    gone_s = pl.when(goes_on & (lasted_s > 0)).then(lasted_s / pl.col("step_count"))
    return counted.with_columns(step_s=pl.coalesce("step_s", gone_s), stretch=(~goes_on).cum_sum())
