"""What a replay takes from the records: arrivals of a time, and the limits of queues."""

from __future__ import annotations

from datetime import datetime

import polars as pl

# An open attempt holds its GPUs to the end of any replay.
OPEN_S = 1e9
KUBERNETES = ("k8s", "kueue", "volcano", "yunikorn")


def attempts_between(
    arrivals: pl.DataFrame, quota: pl.DataFrame, start: datetime, end: datetime
) -> tuple[pl.DataFrame, int]:
    """Attempts of capacity_arrival that wanted GPUs in [start, end), as `what_if` takes them, and how many gave up.

    Those that were running at `start` are fixed: they start at once and their waits do not count. Those that
    were waiting then arrive at `start` with the rest of their wait. Given up means ended without a start: how
    long they would have run nobody knows, so they are left out and counted.
    """
    begun = pl.col("start_ts")
    until = pl.coalesce("end_ts", "observed_ts", "start_ts", "ready_ts")
    concerned = arrivals.filter(
        pl.col("ready_ts") < end, until >= start, until > pl.col("ready_ts")
    )
    given_up = begun.is_null() & pl.col("end_ts").is_not_null()
    named = _queues(quota)
    rows = (
        concerned.filter(~given_up)
        .with_columns(
            pl.max_horizontal("ready_ts", pl.lit(start)).dt.epoch("us").truediv(1e6).alias("ready_s"),
            pl.max_horizontal("start_ts", pl.lit(start)).dt.epoch("us").truediv(1e6).alias("start_s"),
            pl.when(pl.col("end_ts").is_null())
            .then(pl.lit(OPEN_S))
            .otherwise((pl.col("end_ts") - pl.max_horizontal("start_ts", pl.lit(start))).dt.total_microseconds()
            .truediv(1e6))
            .cast(pl.Float64).alias("run_s"),
            pl.col("timelimit_s").cast(pl.Float64).alias("limit_s"),
            (begun < start).fill_null(value=False).alias("is_fixed"),
            pl.when(pl.col("source").is_in(KUBERNETES))
            .then(pl.format("{}/{}", pl.col("account").fill_null(""), pl.col("partition").fill_null("")))
            .otherwise(pl.col("account"))
            .alias("name"),
        )
        .join(named, on="name", how="left")
        .with_columns(
            # Who was waiting at the start has started late already, by what lies before it.
            pl.when(begun.is_not_null()).then("start_s").alias("start_s"),
            pl.when(begun.is_not_null()).then("run_s").alias("run_s"),
            pl.coalesce("cluster_queue", "name").alias("queue"),
        )
    )  # fmt: skip
    return rows, concerned.filter(given_up).height


def _queues(quota: pl.DataFrame) -> pl.DataFrame:
    """Which queue holds the quota of a local queue, by NAMESPACE/NAME."""
    local = quota.filter(
        pl.col("queue_kind") == "local_queue", pl.col("cluster_queue").is_not_null()
    )
    return (
        local.sort("observed_ts")
        .group_by("queue")
        .agg(pl.col("cluster_queue").last())
        .rename({"queue": "name"})
    )  # fmt: skip


def queue_limits(assoc: pl.DataFrame, quota: pl.DataFrame) -> dict[str, int]:
    """GPUs that the jobs of an account (Slurm: GrpTRES) or of a queue (its own quota and what it may borrow)
    may hold together, as last seen. A queue that may borrow without limit has none.
    """
    accounts = assoc.filter(
        pl.col("principal") == "", pl.col("partition") == "", pl.col("grp_gpus").is_not_null()
    ).select("account", "ts", pl.col("grp_gpus").cast(pl.Float64).alias("gpus"))
    queues = (
        quota.filter(
            pl.col("is_gpu"), pl.col("queue_kind").is_in(["cluster_queue", "volcano", "yunikorn"])
        )
        .with_columns(
            pl.coalesce("max_limit", pl.col("nominal") + pl.col("borrowing_limit")).alias("gpus")
        )
        # Flavors and resources of one queue add up; one without a limit leaves the queue without.
        .group_by("queue", "observed_ts")
        .agg(pl.when(pl.col("gpus").is_not_null().all()).then(pl.col("gpus").sum()).first())
        .select(pl.col("queue").alias("account"), pl.col("observed_ts").alias("ts"), "gpus")
    )
    last = pl.concat([accounts, queues]).sort("ts").group_by("account").agg(pl.col("gpus").last())
    return {name: int(gpus) for name, gpus in last.iter_rows() if gpus is not None}
