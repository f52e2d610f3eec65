"""Prometheus pages of NCCL Inspector."""

from __future__ import annotations

import re

import polars as pl

from fleetmark.source import REJECTS_SCHEMA, Context, Option, Parsed, source

from ..tables.collective_rate import COLLECTIVE_RATE
from ..telemetry._scrape_pages import NAME_TIME
from ..telemetry._timed_samples import timed_samples
from ._operation_names import operation

# What each metric is: column, and whether it concerns point-to-point operations.
METRICS = {
    "nccl_bus_bandwidth_gbs": ("busbw", False),
    "nccl_algorithm_bandwidth_gbs": ("algbw", False),
    "nccl_collective_exec_time_microseconds": ("exec", False),
    "nccl_collectives_total": ("seen", False),
    "nccl_collectives_dropped_total": ("dropped", False),
    "nccl_p2p_bus_bandwidth_gbs": ("busbw", True),
    "nccl_p2p_exec_time_microseconds": ("exec", True),
    "nccl_p2p_total": ("seen", True),
    "nccl_p2p_dropped_total": ("dropped", True),
}
_COLUMNS = ("busbw", "algbw", "exec", "seen", "dropped")
# Spellings of format v4 (coll_sn, hostname, n_ranks) and v5.1.
_LABELS = {
    "job": "slurm_job_id", "node": "node|hostname", "gpu": "gpu|gpu_device_id",
    "comm_name": "comm_name", "n_nodes": "n_nodes", "n_ranks": "nranks|n_ranks",
    "operation": "collective|p2p_operation", "size": "message_size", "choice": "algo_proto",
}  # fmt: skip
_UNITS = ("B", "KB", "MB", "GB", "TB")


@source(
    outputs=(COLLECTIVE_RATE,),
    options=(
        Option("job_id", "job of pages that name none", "unknown"),
        Option("attempt", "attempt of the job as in job_attempt", "1"),
        Option("ts", "time of the scrape, of pages without marker: RFC 3339 or epoch s"),
        Option("node", "host of pages that name none"),
        Option("gpu_uuid", "GPU of the page, where the file's name does not say it"),
    ),
    name_facts=rf"nccl_inspector_metrics_(?P<gpu_uuid>[0-9a-zA-Z-]+)(?:.*?{NAME_TIME})?",
    sniff=lambda head, file_name: re.search(
        rb"^(?:# \w+ )?nccl_(?:bus_bandwidth_gbs|p2p_bus_bandwidth_gbs|collectives_total)[{ ]",
        head, re.MULTILINE,
    ) is not None,
)  # fmt: skip
def nccl_inspector_prom(lines: pl.DataFrame, context: Context) -> Parsed:
    """Pages that NCCL Inspector writes for the node exporter, one per GPU (formats v4 and v5.1).

    One row per communicator shape, function and size: bus bandwidth (a geometric mean) and time (an
    arithmetic mean) of the operations since the page before, which may be those of one operation.
    Counters of recorded and dropped operations (`NCCL_INSPECTOR_PROM_DUMP_STATS`) are rows of the
    function `all`: what they dropped the means do not hold.

    The GPU is in the file's name, or stated; label `gpu` is only a number inside the process. A
    page says no time: see the page markers of `dcgm_exporter`. `message_size` is a bucket; its
    lower bound is `size_bytes`. Zero bandwidth (functions without a formula) is NULL. Other metrics
    on the page are counted as skipped.
    """
    attempt = context.options["attempt"]
    if not re.fullmatch(r"[0-9]{1,18}", attempt):
        reason = f"attempt {attempt!r} is not a number; --set attempt=N"
        refused = pl.DataFrame([(0, reason, "")], schema=REJECTS_SCHEMA, orient="row")
        return Parsed({}, refused, lines.height)
    timed = timed_samples(lines, context, pl.col("name").is_in(list(METRICS)))
    return Parsed(
        {COLLECTIVE_RATE.name: _rows(timed.samples, context)},
        timed.rejects, timed.skipped, timed.held_from,
    )  # fmt: skip


def _rows(samples: pl.DataFrame, context: Context) -> pl.DataFrame:
    """Metrics of the same labels side by side."""
    kind = {name: column for name, (column, _) in METRICS.items()}
    p2p = {name: is_p2p for name, (_, is_p2p) in METRICS.items()}
    told = samples.with_columns(
        pl.col("name").replace_strict(kind, return_dtype=pl.String).alias("kind"),
        pl.col("name").replace_strict(p2p, return_dtype=pl.Boolean).alias("is_p2p"),
        pl.when(pl.col("value").is_finite()).then("value").alias("value"),
    )
    is_counter = pl.col("kind").is_in(["seen", "dropped"])
    sides = told.group_by("page", "ts", "page_node", "labels", "is_p2p", is_counter.alias("is_counter"), maintain_order=True).agg(
        pl.col("line_no").min(),
        *(pl.col("value").filter(pl.col("kind") == name).first().alias(name) for name in _COLUMNS),
    )  # fmt: skip
    labelled = sides.with_columns(
        pl.col("labels").str.extract(rf'(?:^|,)\s*"?(?:{names})"?="([^"]*)"').alias(name)
        for name, names in _LABELS.items()
    )
    options = context.options
    uuid = pl.lit(options.get("gpu_uuid"), pl.String)
    size = pl.col("size").str.extract_groups(r"^([\d.]+)(?:-[\d.]+)?([KMGT]?B)$").struct
    power = size.field("2").replace_strict(_UNITS, range(5), default=None, return_dtype=pl.Int64)
    node = pl.coalesce(_stated("node"), "page_node", pl.lit(options.get("node"), pl.String))
    choice = _stated("choice").str.extract_groups(r"^(.+)_(LL128|LL|SIMPLE)$").struct
    return labelled.select(
        "line_no", "ts", "is_p2p",
        pl.lit(options["cluster"]).alias("cluster"),
        pl.coalesce(_stated("job"), pl.lit(options["job_id"])).alias("job_id"),
        pl.lit(int(options["attempt"]), pl.Int64).alias("attempt"),
        pl.lit("nccl_inspector_prom").alias("origin"),
        pl.coalesce(uuid, pl.format("{}/{}", node, "gpu"), node, pl.lit("unknown")).alias("reporter"),
        pl.when("is_counter").then(pl.lit("all")).otherwise(operation(pl.col("operation"))).alias("function"),
        pl.coalesce("size", pl.lit("")).alias("size_label"),
        pl.col("line_no").alias("report_no"),
        pl.when("is_counter").then(pl.lit("total")).otherwise(pl.lit("mean")).alias("statistic"),
        node.alias("node"),
        uuid.alias("gpu_uuid"),
        _stated("comm_name").alias("comm_name"),
        pl.col("n_ranks", "n_nodes").cast(pl.Int32, strict=False),
        (size.field("1").cast(pl.Float64, strict=False) * pl.lit(1024.0).pow(power)).round()
        .cast(pl.Int64, strict=False).alias("size_bytes"),
        choice.field("1").alias("algorithm"),
        choice.field("2").alias("protocol"),
        pl.col("seen").cast(pl.Int64, strict=False).alias("op_count"),
        pl.col("dropped").cast(pl.Int64, strict=False).alias("dropped_count"),
        (pl.col("exec") / 1e6).round(9).alias("exec_s"),
        *(pl.when(pl.col(name) > 0).then(pl.col(name) * 1e9).alias(f"{name}_bytes_per_s")
          for name in ("algbw", "busbw")),
    )  # fmt: skip


def _stated(name: str) -> pl.Expr:
    """A label's value; the plugin writes `unknown` for what it does not know."""
    return pl.when(pl.col(name) != "unknown").then(name)
