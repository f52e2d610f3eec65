"""Rows of `job_attempt` from the job log that Helios and Acme share: one CSV line a job."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed

from ._columns import fields_of, parsed, unread, whole

NEEDED = ("job_id", "gpu_num", "state", "submit_time", "start_time", "end_time")
OTHERS = ("user", "vc", "type", "cpu_num", "node_num", "duration")
COUNTS = ("gpu_num", "cpu_num", "node_num")
# NODE_FAIL and TIMEOUT keep their names: the papers count both as failed, which is for the reader to do.
STATES = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "SUSPENDED",
          "RUNNING", "PENDING", "OUT_OF_MEMORY", "REQUEUED")  # fmt: skip
TIMES = ("submit_time", "start_time", "end_time")


def job_log_rows(lines: pl.DataFrame, context: Context, trace: str, *, with_zone: bool) -> Parsed:
    """One attempt a line. A job without start_time never started.

    with_zone   times carry an offset and become UTC; else they stay on the clock of the data set
    """
    fields = fields_of(lines, context, NEEDED, OTHERS)
    timed = fields.frame.with_columns(_time(name, with_zone).alias(f"{name}_ts") for name in TIMES)
    start, end = pl.col("start_time_ts"), pl.col("end_time_ts")
    started = start.is_not_null()
    known = pl.col("state").str.to_uppercase().replace({"CANCELED": "CANCELLED"})
    gpus = whole("gpu_num").cast(pl.Int32, strict=False)
    nodes = whole("node_num").cast(pl.Int32, strict=False)
    rows = timed.select(
        "line_no",
        _problem().alias("problem"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        "job_id",
        pl.coalesce("submit_time_ts", start, end).alias("attempt_ts"),
        pl.coalesce("submit_time_ts", start, end).dt.epoch("s").alias("attempt"),
        pl.col("user").alias("principal"),
        pl.col("vc").alias("partition"),
        pl.col("type").alias("workload"),
        pl.col("submit_time_ts").alias("submit_ts"),
        start.alias("start_ts"),
        end.alias("end_ts"),
        pl.coalesce(end, start, "submit_time_ts").alias("observed_ts"),
        pl.when(end.is_not_null()).then(2).when(started).then(1).otherwise(0).cast(pl.Int8)
        .alias("phase"),
        pl.when(known.is_in(STATES)).then(known).otherwise(pl.lit("UNKNOWN")).alias("state"),
        pl.col("state").alias("native_state"),
        (end - start).dt.total_seconds().alias("elapsed_s"),
        whole("duration").alias("native_elapsed_s"),
        (whole("duration") - (end - start).dt.total_seconds()).alias("elapsed_mismatch_s"),
        nodes.alias("req_nodes"),
        whole("cpu_num").alias("req_cpus"),
        gpus.alias("req_gpus"),
        pl.when(started).then(nodes).alias("alloc_nodes"),
        pl.when(started).then(whole("cpu_num")).alias("alloc_cpus"),
        pl.when(started).then(gpus).alias("alloc_gpus"),
        pl.when(started & gpus.is_not_null()).then(pl.lit("as_given")).alias("gpu_count_source"),
        pl.lit(trace).alias("source"),
    )  # fmt: skip
    return parsed("job_attempt", rows, lines, fields)


def _time(name: str, with_zone: bool) -> pl.Expr:
    text = pl.col(name).str.strip_chars()
    if with_zone:
        zoned = text.str.to_datetime("%Y-%m-%d %H:%M:%S%z", time_unit="us", strict=False)
        return zoned.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    return text.str.to_datetime("%Y-%m-%d %H:%M:%S", time_unit="us", strict=False)


def _problem() -> pl.Expr:
    lacking = [
        pl.when(pl.col(name).is_null()).then(pl.lit(f"no {name}")) for name in ("job_id", "state")
    ]
    times = [
        pl.when(pl.col(name).is_not_null() & pl.col(f"{name}_ts").is_null()).then(
            pl.format("{} '{}' cannot be read", pl.lit(name), name)
        )
        for name in TIMES
    ]
    no_time = pl.when(pl.all_horizontal(pl.col(f"{name}_ts").is_null() for name in TIMES)).then(
        pl.lit("no time")
    )
    counts = [
        pl.when(~whole(name).is_between(0, (1 << 31) - 1)).then(
            pl.format("{} {} is out of range", pl.lit(name), name)
        )
        for name in COUNTS
    ]
    order = pl.when(pl.col("start_time_ts") > pl.col("end_time_ts")).then(
        pl.format("it ends at {}, before its start", "end_time")
    )
    return pl.coalesce(*lacking, *times, no_time, unread(*COUNTS), *counts, order)
