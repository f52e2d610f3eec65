"""Slurm accounting as text: `sacct --parsable2` (also `--parsable`, any delimiter)."""

from __future__ import annotations

import polars as pl

from fleetmark.source import Context, Option, Parsed, rejects, source

from ..tables.job_attempt import JOB_ATTEMPT
from ..tables.job_step import JOB_STEP
from ._sacct_columns import expand_arrays, gres_gpus, sizes, typed
from ._sacct_header import Header, read_header, stated_header
from ._sacct_lines import read_fields
from ._slurm_time import is_zone, times

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

TZ = Option("tz", "zone of times that carry none, as an IANA name; sacct prints the zone of its TZ")
COLUMNS = Option(
    "columns", "fields in order, comma separated, of a file collected without a header"
)
DELIMITER = Option("delimiter", "what separates the fields of a file without a header", "|")
DUPLICATES = Option(
    "duplicates",
    "yes if collected with sacct -D, no if without: then earlier attempts of requeued jobs are missing",
)
OBSERVED_AT = Option(
    "observed_at", "when sacct ran, ISO in UTC: until then open jobs are known to run"
)


def looks_like_sacct(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the name tells nothing
    """A first line of two known field names and a delimiter, with a job id and a state among them."""
    header = read_header(head.split(b"\n", 1)[0].decode("utf-8", "replace").rstrip("\r"))
    if not isinstance(header, Header):
        return False
    return "state" in header.positions and not {"jobid", "jobidraw"}.isdisjoint(header.positions)


@source(
    outputs=(JOB_ATTEMPT, JOB_STEP),
    reads="lines",
    options=(TZ, COLUMNS, DELIMITER, DUPLICATES, OBSERVED_AT),
    sniff=looks_like_sacct,
)
def sacct(lines: pl.DataFrame, context: Context) -> Parsed:
    r"""Slurm `sacct --parsable2` with header, from 20.11 to 26.05: attempts, and steps apart.

    Any fields in any order; the table needs JobID (or JobIDRaw), State and one of Submit, Start, End.
    Times are epoch seconds, ISO with an offset, or ISO without one, which needs `tz`: a zone is never
    guessed. Collect with
    `TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -D --array --noconvert -P --delimiter=$'\x1f'`.
    `cluster` is the stated one, else the row's, else `default`. Planned/Reserved are not read: waits
    follow from the times. Not read: `sacct` for people (cut values), `--json`.
    """
    header = _header(context)
    if isinstance(header, str):
        blank = lines["text"] == ""
        return Parsed({}, rejects(lines.filter(~blank), header), skipped=int(blank.sum()))
    wanted = [name for name in READ_FIELDS if name in header.positions]
    read = read_fields(lines, header, wanted, at_end=context.at_end)
    missing = [pl.lit(None, pl.String).alias(n) for n in READ_FIELDS if n not in wanted]
    rows = _rows(read.rows.with_columns(missing), context, len(wanted))
    is_bad = pl.col("problem").is_not_null()
    bad = rows.filter(is_bad).unique("line_no", maintain_order=True)
    refused = bad.select("line_no", pl.col("problem").alias("reason")).join(
        lines, on="line_no", how="left", maintain_order="left"
    )
    good = rows.filter(~is_bad)
    is_step = pl.col("step").is_not_null()
    return Parsed(
        tables={
            "job_attempt": _attempts(good.filter(~is_step), context),
            "job_step": _steps(good.filter(is_step)),
        },
        rejects=pl.concat([read.rejects, refused]),
        skipped=read.skipped,
        held_from=read.held_from,
    )


def _header(context: Context) -> Header | str:
    """The file's header, or the stated one; a reason when rows cannot be made with it."""
    header = read_header(context.first_line)
    if isinstance(header, str) and (columns := context.options.get("columns")):
        delimiter = context.options["delimiter"]
        is_trailing = context.first_line.endswith(delimiter)
        header = stated_header(columns, delimiter, is_trailing)
    if isinstance(header, str):
        return header
    has = header.positions
    if "state" not in has or {"jobid", "jobidraw"}.isdisjoint(has):
        return "the file has no JobID or no State: add them to sacct -o"
    if {"submit", "start", "end"}.isdisjoint(has):
        return "the file has no times, so attempts cannot be told apart: add Submit,Start,End to -o"
    zone = context.options.get("tz")
    if zone is not None and not is_zone(zone):
        return f"tz={zone} is no time zone name such as UTC or Europe/Berlin"
    return header


def _rows(fields: pl.DataFrame, context: Context, field_count: int) -> pl.DataFrame:
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
    from_tres = pl.col("alloc_tres_gpus").is_not_null()
    return rows.with_columns(
        pl.coalesce("req_tres_gpus", asked["gpus"]).alias("req_gpus"),
        pl.when(allocated).then(pl.coalesce("alloc_tres_gpus", old["gpus"])).alias("alloc_gpus"),
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


def _attempts(rows: pl.DataFrame, context: Context) -> pl.DataFrame:
    answer = {"yes": True, "no": False}.get(context.options.get("duplicates", ""))
    rows = rows.with_columns(pl.lit(answer, pl.Boolean).alias("has_all_attempts"))
    return rows.select(*JOB_ATTEMPT.column_names, "line_no")


def _steps(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(
        pl.col("attempt_ts").alias("step_ts"),
        pl.col("job_name").alias("step_name"),
        sizes(rows["maxrss"], "")["size_bytes"].alias("max_rss_bytes"),
    ).select(*JOB_STEP.column_names, "line_no")
