"""Alibaba's GPU cluster trace of 2023 (openb): pods."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Parsed, source

from ..tables.job_attempt import JOB_ATTEMPT
from ._columns import fields_of, header_has, parsed, unread, whole

NEEDED = ("name", "num_gpu", "gpu_milli", "pod_phase", "creation_time")
OTHERS = ("cpu_milli", "memory_mib", "gpu_spec", "qos", "deletion_time", "scheduled_time")
NUMBERS = (
    *("num_gpu", "gpu_milli", "creation_time", "cpu_milli", "memory_mib"),
    *("deletion_time", "scheduled_time"),
)
# A pod seen running at its deletion: whether it had done its work is not recorded.
STATES = {
    "Succeeded": "COMPLETED",
    "Failed": "FAILED",
    "Running": "UNKNOWN",
    "Pending": "CANCELLED",
}
YEAR_9999_S = 253_402_300_799


def looks_like_openb_pods(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the header tells
    """A header with the columns a row cannot do without."""
    return header_has(head, NEEDED)


@source(outputs=(JOB_ATTEMPT,), reads="lines", sniff=looks_like_openb_pods)
def openb_pods(lines: pl.DataFrame, context: Context) -> Parsed:
    """`openb_pod_list_*.csv` (alibaba/clusterdata, cluster-trace-gpu-v2023), one attempt a pod.

    Times are seconds from the trace's begin and stand here as seconds of 1970. A pod without
    scheduled_time never started. gpu_milli below 1000 is a share of one GPU: such a pod has
    req_gpu_amount and no whole req_gpus. CPUs are rounded up. gpu_spec names models that would do;
    which one a pod got is not in the file.
    """
    fields = fields_of(lines, context, NEEDED, OTHERS)
    frame = fields.frame.with_columns(problem=_problem())
    return parsed("job_attempt", _rows(frame, context.options["cluster"]), lines, fields)


def _rows(frame: pl.DataFrame, cluster: str) -> pl.DataFrame:
    """Rows of the contract, and `problem`: why a line is none."""
    numbers = frame.with_columns(whole(name) for name in NUMBERS)
    amount = pl.col("num_gpu") * pl.col("gpu_milli") / 1000
    # A pod of no GPU has gpu_milli 0.
    is_whole = (pl.col("gpu_milli") == 1000) | (pl.col("num_gpu") == 0)
    gpus = pl.when(is_whole).then("num_gpu").cast(pl.Int32, strict=False)
    started = pl.col("scheduled_time").is_not_null()
    return numbers.select(
        "line_no",
        "problem",
        pl.lit(cluster).alias("cluster"),
        pl.col("name").alias("job_id"),
        pl.col("creation_time").alias("attempt"),
        *(
            _time(name).alias(new)
            for new, name in (
                ("attempt_ts", "creation_time"), ("submit_ts", "creation_time"),
                ("eligible_ts", "creation_time"), ("start_ts", "scheduled_time"),
                ("end_ts", "deletion_time"),
            )
        ),
        _time("deletion_time").fill_null(_time("scheduled_time")).fill_null(_time("creation_time"))
        .alias("observed_ts"),
        pl.when(pl.col("deletion_time").is_not_null()).then(2)
        .when(started).then(1).otherwise(0).cast(pl.Int8).alias("phase"),
        pl.when(pl.col("deletion_time").is_null()).then(
            pl.when(started).then(pl.lit("RUNNING")).otherwise(pl.lit("PENDING"))
        ).otherwise(pl.col("pod_phase").replace_strict(STATES, default="UNKNOWN")).alias("state"),
        pl.col("pod_phase").alias("native_state"),
        "qos",
        gpus.alias("req_gpus"),
        amount.alias("req_gpu_amount"),
        pl.when(started).then(gpus).alias("alloc_gpus"),
        pl.when(started).then(amount).alias("alloc_gpu_amount"),
        pl.when(started & is_whole).then(pl.lit("as_given"))
        .when(started).then(pl.lit("fractional")).alias("gpu_count_source"),
        (-(-pl.col("cpu_milli") // 1000)).alias("req_cpus"),
        (pl.col("memory_mib") * (1 << 20)).alias("req_mem_bytes"),
        pl.when(started).then(1).cast(pl.Int32).alias("alloc_nodes"),
        (pl.col("deletion_time") - pl.col("scheduled_time")).alias("elapsed_s"),
        pl.lit(value=True).alias("has_all_attempts"),
        pl.lit("trace_openb").alias("source"),
    )  # fmt: skip


def _time(name: str) -> pl.Expr:
    return pl.from_epoch(pl.col(name), time_unit="s").cast(pl.Datetime("us"))


def _problem() -> pl.Expr:
    def out(name: str) -> pl.Expr:
        seconds = whole(name)
        return pl.when(~seconds.is_between(0, YEAR_9999_S)).then(
            pl.format("{} {} is outside a trace's time", pl.lit(name), name)
        )

    lacking = [
        pl.when(pl.col(name).is_null()).then(pl.lit(f"no {name}"))
        for name in ("name", "num_gpu", "gpu_milli", "creation_time")
    ]
    times = [out(name) for name in ("creation_time", "scheduled_time", "deletion_time")]
    gpus = pl.when(
        ~whole("num_gpu").is_between(0, 1 << 20) | ~whole("gpu_milli").is_between(0, 1000)
    ).then(pl.format("{} GPUs of {} thousandths", "num_gpu", "gpu_milli"))
    size = pl.when(
        ~whole("cpu_milli").is_between(0, 1 << 40) | ~whole("memory_mib").is_between(0, 1 << 40)
    ).then(pl.format("{} thousandths of a CPU, {} MiB", "cpu_milli", "memory_mib"))
    order = pl.when(whole("scheduled_time") > whole("deletion_time")).then(
        pl.format("scheduled at {}, deleted before, at {}", "scheduled_time", "deletion_time")
    )
    return pl.coalesce(*lacking, unread(*NUMBERS), *times, gpus, size, order)
