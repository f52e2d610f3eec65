"""Rows of `job_attempt` and `job_step` from sacct's fields, whatever form they were printed in."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context

from ..tables.job_attempt import JOB_ATTEMPT
from ..tables.job_step import JOB_STEP
from ._sacct_columns import expand_arrays, gres_gpus, sizes, typed
from ._slurm_time import times

# sacct field -> column, where the text is taken as it is.
TEXT_COLUMNS = {
    "jobname": "job_name",
    "user": "principal",
    "account": "account",
    "partition": "partition",
    "qos": "qos",
    "reservation": "reservation",
    "reason": "state_reason",
    "sluid": "sluid",
}
READ_FIELDS = (
    *TEXT_COLUMNS,
    *("jobid", "jobidraw", "cluster", "uid", "state", "exitcode", "derivedexitcode", "priority"),
    *("submit", "eligible", "start", "end", "elapsed", "elapsedraw", "suspended"),
    *("timelimit", "timelimitraw", "nodelist", "nnodes", "allocnodes", "reqnodes"),
    *("ncpus", "alloccpus", "reqcpus", "reqmem", "alloctres", "reqtres", "allocgres", "gresused"),
    *("reqgres", "maxrss", "dbindex", "restarts"),
)
NOTHING = ("", "None", "(null)", "N/A")


def accounting_rows(fields: pl.DataFrame, context: Context, field_count: int) -> pl.DataFrame:
    stated = times(pl.Series([context.options.get("observed_at")], dtype=pl.String), "UTC")["ts"][0]
    rows = typed(fields, context.options.get("tz"), pl.lit(stated, pl.Datetime("us")))
    stated_cluster = context.options["cluster"]
    cluster = (
        pl.lit(stated_cluster)
        if stated_cluster != "default"
        else pl.coalesce(_text("cluster"), pl.lit(stated_cluster))
    )
    no_time = pl.when(pl.col("attempt_ts").is_null()).then(
        pl.lit("has neither Submit nor Start nor End: attempts cannot be told apart")
    )
    rows = rows.with_columns(
        cluster.alias("cluster"),
        pl.coalesce("problem", no_time).alias("problem"),
        pl.lit(field_count, pl.Int32).alias("field_count"),
        pl.lit("slurm_sacct").alias("source"),
        *(_text(field).alias(column) for field, column in TEXT_COLUMNS.items()),
    )
    return expand_arrays(_resources(rows))


def _text(name: str) -> pl.Expr:
    return pl.when(~pl.col(name).is_in(NOTHING)).then(pl.col(name))


def _resources(rows: pl.DataFrame) -> pl.DataFrame:
    """Requested and allocated nodes, CPUs, memory and GPUs; NULL while nothing is allocated."""
    allocated = pl.col("start_ts").is_not_null() | pl.col("node_list").is_not_null()
    memory = sizes(rows["reqmem"], "M")
    rows = rows.with_columns(
        pl.coalesce("req_tres_nodes", "reqnodes_count").cast(pl.Int32).alias("req_nodes"),
        pl.coalesce("req_tres_cpus", "reqcpus_count").alias("req_cpus"),
        pl.coalesce(memory["size_bytes"], "req_tres_mem_bytes").alias("req_mem_bytes"),
        pl.when(memory["size_bytes"].is_not_null())
        .then(memory["scope"])
        .when(pl.col("req_tres_mem_bytes").is_not_null())
        .then(pl.lit("job"))
        .alias("req_mem_scope"),
        pl.when(allocated)
        .then(
            pl.coalesce(
                "alloc_tres_nodes",
                pl.col("node_list").list.len(),
                "allocnodes_count",
                "nnodes_count",
            )
        )
        .cast(pl.Int32)
        .alias("alloc_nodes"),
        pl.when(allocated)
        .then(pl.coalesce("alloc_tres_cpus", "alloccpus_count", "ncpus_count"))
        .alias("alloc_cpus"),
        pl.col("alloc_tres_mem_bytes").alias("alloc_mem_bytes"),
    )
    return _gpus(rows, allocated)


def _gpus(rows: pl.DataFrame, allocated: pl.Expr) -> pl.DataFrame:
    """Requested and allocated GPUs: the TRES list before GRES; which of them counted is kept."""
    old = gres_gpus(rows, ("allocgres", "gresused"), "alloc_nodes")
    asked = gres_gpus(rows, ("reqgres",), "req_nodes")
    from_tres = pl.col("alloc_tres_gpu_count_source").is_not_null()
    return rows.with_columns(
        pl.coalesce("req_tres_gpus", asked["gpus"]).alias("req_gpus"),
        pl.when(allocated & from_tres)
        .then("alloc_tres_gpus")
        .when(allocated)
        .then(old["gpus"])
        .alias("alloc_gpus"),
        pl.when(allocated)
        .then(
            pl.when(from_tres)
            .then("alloc_tres_gpu_count_source")
            .when(old["gpus"].is_not_null())
            .then(pl.lit("gres"))
            .when(pl.col("alloctres").is_not_null())
            .then(pl.lit("no_gpu_entry"))
            .otherwise(pl.lit("not_collected"))
        )
        .alias("gpu_count_source"),
        pl.when(from_tres)
        .then("alloc_tres_gpu_models")
        .otherwise(old["models"])
        .alias("gpu_models"),
        pl.when(from_tres)
        .then("alloc_tres_gpu_model_counts")
        .otherwise(old["counts"])
        .alias("gpu_model_counts"),
    )


def attempts(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    answer = {"yes": True, "no": False}.get(context.options.get("duplicates", ""))
    rows = rows.with_columns(pl.lit(answer, pl.Boolean).alias("has_all_attempts"))
    # Columns that Slurm's records do not have (shares of a GPU, workload) are left to the store: NULL.
    return rows.select(*(c for c in JOB_ATTEMPT.column_names if c in rows.columns), "line_no")


def steps(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(
        pl.col("attempt_ts").alias("step_ts"),
        pl.col("job_name").alias("step_name"),
        sizes(rows["maxrss"], "")["size_bytes"].alias("max_rss_bytes"),
    ).select(*JOB_STEP.column_names, "line_no")
