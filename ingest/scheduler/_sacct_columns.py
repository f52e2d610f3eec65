"""Typed columns of `job_attempt` and `job_step` from the text of `sacct` fields."""

from __future__ import annotations

import polars as pl

from .._distinct import by_text
from ._slurm_nodes import expand_tasks, node_lists
from ._slurm_state import ENDED_STATES, states
from ._slurm_time import (
    PARTITION_LIMIT,
    UNLIMITED,
    durations,
    is_no_duration,
    times,
)
from ._slurm_tres import parse_gres, size_bytes, tres

TIME_COLUMNS = ("submit", "eligible", "start", "end")
COUNT_COLUMNS = ("nnodes", "allocnodes", "reqnodes", "ncpus", "alloccpus", "reqcpus")
MAX_ARRAY_TASKS = 100_000
OPEN_STATES = ("PENDING", "RUNNING", "SUSPENDED")
_JOB_ID = r"^([0-9]+)(?:_([0-9]+|\[.*))?(?:\+([0-9]+))?(?:\.(.+))?$"


def typed(fields: pl.DataFrame, zone: str | None, observed_at: pl.Expr) -> pl.DataFrame:
    """All columns that attempts and steps share, and `problem`: why a row must be refused, or NULL."""
    problems: list[pl.Series] = []
    columns: list[pl.Series] = []
    for name in TIME_COLUMNS:
        read = times(fields[name], zone)
        columns.append(read["ts"].alias(f"{name}_ts"))
        problems.append(_problem(name, fields[name], read["problem"]))
    nodes = node_lists(fields["nodelist"])
    columns.append(nodes["nodes"].alias("node_list"))
    problems.append(_unreadable("nodelist", fields["nodelist"], nodes["readable"]))
    for prefix, name in (("alloc", "alloctres"), ("req", "reqtres")):
        read = tres(fields[name])
        problems.append(_unreadable(name, fields[name], read["readable"]))
        columns += [read[c].alias(f"{prefix}_tres_{c}") for c in read.columns if c != "readable"]
    for name in ("elapsed", "suspended", "timelimit"):
        read = by_text(fields[name], _duration)
        columns.append(read["seconds"].alias(f"{name}_text_s"))
        problems.append(_unreadable(name, fields[name], read["readable"]))
    frame = fields.with_columns(
        *columns,
        fields["state"].alias("native_state"),
        *states(fields["state"]).rename({"state": "base_state"}).get_columns(),
    )
    frame = frame.with_columns(problem=pl.coalesce(pl.Series("", p, pl.String) for p in problems))
    frame = frame.with_columns(*_repeated_numbers(fields), *_identity(), *_numbers())
    return _lifecycle(frame, observed_at)


def _problem(name: str, text: pl.Series, problem: pl.Series) -> pl.Series:
    if problem.null_count() == len(problem):
        return problem
    frame = pl.DataFrame({"text": text, "problem": problem})
    return frame.select(
        pl.when(pl.col("problem").is_not_null()).then(
            pl.format("{} '{}' {}", pl.lit(name), "text", "problem")
        )
    ).to_series()


def _unreadable(name: str, text: pl.Series, readable: pl.Series) -> pl.Series:
    if readable.all():
        return pl.Series([None], dtype=pl.String).new_from_index(0, len(text))
    frame = pl.DataFrame({"text": text, "readable": readable})
    return frame.select(
        pl.when(~pl.col("readable")).then(pl.format("{} '{}' cannot be read", pl.lit(name), "text"))
    ).to_series()


def _identity() -> list[pl.Expr]:
    part = pl.coalesce("jobid", "jobidraw").str.extract_groups(_JOB_ID).struct
    raw = pl.col("jobidraw").str.extract(r"^([0-9]+)")
    return [
        part.field("1").alias("leading_id"),
        part.field("2").alias("task"),
        part.field("3").cast(pl.Int32, strict=False).alias("het_offset"),
        part.field("4").alias("step"),
        raw.alias("raw_job_id"),
    ]


def _numbers() -> list[pl.Expr]:
    whole = [
        pl.col(name).cast(pl.Int64, strict=False).alias(new)
        for name, new in (("uid", "uid"), ("dbindex", "db_index"), ("priority", "priority"))
    ]
    native = pl.coalesce(pl.col("elapsedraw").cast(pl.Int64, strict=False), "elapsed_text_s")
    limit = pl.coalesce("timelimitraw", "timelimit")
    return [
        *whole,
        native.alias("native_elapsed_s"),
        pl.col("suspended_text_s").alias("suspended_s"),
        pl.coalesce(
            pl.col("timelimitraw").cast(pl.Int64, strict=False) * 60, "timelimit_text_s"
        ).alias("timelimit_s"),
        pl.when(limit.is_in(UNLIMITED))
        .then(pl.lit("unlimited"))
        .when(limit.is_in(PARTITION_LIMIT))
        .then(pl.lit("partition_limit"))
        .when(limit.str.contains(r"^[0-9]"))
        .then(pl.lit("limited"))
        .alias("timelimit_kind"),
        pl.col("restarts").cast(pl.Int32, strict=False).alias("restart_count"),
    ]


def _repeated_numbers(fields: pl.DataFrame) -> list[pl.Series]:
    """Columns of numbers of which a cluster's records hold few: counts and exit codes."""
    counts = [
        by_text(fields[name], _count).to_series().alias(f"{name}_count") for name in COUNT_COLUMNS
    ]
    codes = [
        column.alias(new)
        for name, of in (("exitcode", "exit"), ("derivedexitcode", "derived_exit"))
        for column, new in zip(
            by_text(fields[name], _exit_code).get_columns(),
            (f"{of}_code", f"{of}_signal"),
            strict=True,
        )
    ]
    return counts + codes


def _count(text: pl.Series) -> pl.DataFrame:
    """Whole numbers of `16`, `1.5K`, `2M` (1024s)."""
    number = text.str.extract(r"^([0-9]+(?:\.[0-9]+)?)[KMG]?$").cast(pl.Float64)
    factor = (
        pl.when(text.str.ends_with("K")).then(1024)
        .when(text.str.ends_with("M")).then(1024**2)
        .otherwise(1)
    )  # fmt: skip
    return pl.select((number * factor).round().cast(pl.Int64, strict=False))


def _exit_code(text: pl.Series) -> pl.DataFrame:
    """Code and signal of `0:15`."""
    parts = text.str.extract_groups(r"^([0-9]+):([0-9]+)$").struct.unnest()
    return parts.cast(pl.Int32, strict=False)


def _duration(text: pl.Series) -> pl.DataFrame:
    """Seconds, and whether the text is a duration or a word for none."""
    read = text.to_frame("text").with_columns(seconds=durations(pl.col("text")))
    is_read = pl.col("seconds").is_not_null() | is_no_duration(pl.col("text"))
    return read.select("seconds", readable=is_read)


def _lifecycle(frame: pl.DataFrame, observed_at: pl.Expr) -> pl.DataFrame:
    """State, phase, end, elapsed and when the record is known to have read so."""
    second = pl.duration(seconds=1)
    ended = pl.col("end_ts").is_not_null()
    started = pl.col("start_ts").is_not_null()
    by_times = (
        pl.when(ended).then(pl.lit("UNKNOWN")).when(started).then(pl.lit("RUNNING"))
    ).otherwise(pl.lit("PENDING"))
    state = (
        pl.when((pl.col("base_state") == "REQUEUED") & ~ended & ~started)
        .then(pl.lit("PENDING"))
        .otherwise(pl.coalesce("base_state", by_times))
    )
    proven = pl.max_horizontal(
        "submit_ts",
        "start_ts",
        "end_ts",
        pl.col("start_ts")
        + (pl.col("native_elapsed_s") + pl.col("suspended_s").fill_null(0)) * second,
    )
    frame = frame.with_columns(state.alias("state"), proven.alias("proven_ts"))
    is_open = pl.col("state").is_in(OPEN_STATES)
    # An open attempt with an end was cut to the window by sacct -T: that end is not one.
    end = pl.when(~is_open).then(pl.col("end_ts"))
    frame = frame.with_columns(end.alias("end_ts"))
    elapsed = ((pl.col("end_ts") - pl.col("start_ts")).dt.total_seconds()) - pl.col(
        "suspended_s"
    ).fill_null(0)
    phase = (
        pl.when(pl.col("end_ts").is_not_null() | pl.col("state").is_in(list(ENDED_STATES)))
        .then(2)
        .when(started | pl.col("state").is_in(["RUNNING", "SUSPENDED"]))
        .then(1)
        .otherwise(0)
    )
    attempt_ts = pl.coalesce("submit_ts", "start_ts", "end_ts")
    return frame.with_columns(
        elapsed.alias("elapsed_s"),
        phase.cast(pl.Int8).alias("phase"),
        attempt_ts.alias("attempt_ts"),
        attempt_ts.dt.epoch("s").alias("attempt"),
    ).with_columns(
        (pl.col("native_elapsed_s") - pl.col("elapsed_s")).alias("elapsed_mismatch_s"),
        pl.when(pl.col("phase") == 2)
        .then("proven_ts")
        .otherwise(pl.max_horizontal(observed_at, "proven_ts"))
        .alias("observed_ts"),
    )


def expand_arrays(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per waiting task where a record stands for several (`123_[1-10%5]`); sets job_id."""
    frame = _with_tasks(frame)
    task = pl.coalesce("tasks", pl.col("task").cast(pl.Int64, strict=False))
    is_array = pl.col("task").is_not_null()
    is_het = pl.col("het_offset").is_not_null()
    return frame.with_columns(
        task.alias("array_task_id"),
        pl.when(is_array).then("leading_id").alias("array_job_id"),
        pl.when(is_het).then("leading_id").alias("het_job_id"),
        pl.when(is_array)
        .then(pl.format("{}_{}", "leading_id", task))
        .when(is_het)
        .then(pl.format("{}+{}", "leading_id", "het_offset"))
        .otherwise("leading_id")
        .alias("job_id"),
        # A record that stands for several tasks carries the array's id, which is none of theirs.
        pl.when(~pl.col("task").str.starts_with("[").fill_null(value=False))
        .then("raw_job_id")
        .alias("raw_job_id"),
    )


def _with_tasks(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `tasks` (one row per task of a set) and `array_is_truncated`; unreadable sets: problem."""
    expanded: dict[str, tuple[list[int], bool] | None] = {
        text: expand_tasks(text[1:].removesuffix("]"), MAX_ARRAY_TASKS)
        for text in frame["task"].drop_nulls().unique()
        if text.startswith("[")
    }
    if not expanded:
        return frame.with_columns(
            tasks=pl.lit(None, pl.Int64), array_is_truncated=pl.lit(None, pl.Boolean)
        )
    table = pl.DataFrame(
        {
            "task": list(expanded),
            "tasks": [tasks[0] if tasks else None for tasks in expanded.values()],
            "array_is_truncated": [tasks[1] if tasks else None for tasks in expanded.values()],
        },
        schema={"task": pl.String, "tasks": pl.List(pl.Int64), "array_is_truncated": pl.Boolean},
    )
    frame = frame.join(table, on="task", how="left", maintain_order="left").explode("tasks")
    unread = pl.col("task").str.starts_with("[") & pl.col("tasks").is_null()
    reason = pl.format("tasks '{}' cannot be read or are over {}", "task", pl.lit(MAX_ARRAY_TASKS))
    return frame.with_columns(pl.when(unread).then(reason).otherwise("problem").alias("problem"))


def gres_gpus(frame: pl.DataFrame, names: tuple[str, ...], nodes: str) -> pl.DataFrame:
    """`gpus`, `models`, `counts` from the first of the GRES columns that names GPUs."""
    text = pl.coalesce(pl.when(pl.col(name).str.contains("gpu")).then(name) for name in names)
    keyed = frame.select(text.alias("text"), pl.col(nodes).alias("nodes"))
    distinct = keyed.unique().drop_nulls("text")
    rows = [parse_gres(text, count) or {} for text, count in distinct.iter_rows()]
    table = distinct.with_columns(
        pl.Series("gpus", [row.get("gpus") for row in rows], dtype=pl.Int32),
        pl.Series("models", [row.get("gpu_models") for row in rows], dtype=pl.List(pl.String)),
        pl.Series("counts", [row.get("gpu_model_counts") for row in rows], dtype=pl.List(pl.Int32)),
    )
    return keyed.join(
        table, on=["text", "nodes"], how="left", nulls_equal=True, maintain_order="left"
    ).select("gpus", "models", "counts")


def sizes(column: pl.Series, default: str) -> pl.DataFrame:
    """`size_bytes` and `scope` of a column of memory sizes; each distinct text is read once."""
    distinct = column.unique().drop_nulls()
    rows = [size_bytes(text, default) or (None, None) for text in distinct]
    table = pl.DataFrame(
        {"text": distinct, "size_bytes": [r[0] for r in rows], "scope": [r[1] for r in rows]},
        schema={"text": pl.String, "size_bytes": pl.Int64, "scope": pl.String},
    )
    return (
        column.to_frame("text")
        .join(table, on="text", how="left", maintain_order="left")
        .select("size_bytes", "scope")
    )
