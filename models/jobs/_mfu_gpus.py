"""How many GPUs of which model the attempts held that training logs tell of."""

from __future__ import annotations

import polars as pl

from fleetmark.mfu.conventions import SHAPE

JOB = ("cluster", "job_id", "attempt")


def gpu_records(attempts: pl.DataFrame, inventory: pl.DataFrame) -> pl.DataFrame:
    """Attempts that held GPUs, with their GPUs by model as lists; NULL where no one says.

    One under each id that logs may carry: array tasks and heterogeneous parts print SLURM_JOB_ID, which is
    raw_job_id.
    """
    held = attempts.filter(pl.col("alloc_gpus") > 0)
    stands = pl.col("start_ts_inventory") <= pl.col("start_ts")
    listed = (
        held.select(*JOB, "alloc_gpus", "start_ts", "node_list")
        .explode("node_list")
        .join(inventory, left_on=("cluster", "node_list"), right_on=("cluster", "node"),
              suffix="_inventory")
        .filter(stands & (pl.col("end_ts").is_null() | (pl.col("end_ts") > pl.col("start_ts"))))
        .group_by(*JOB, "alloc_gpus", "gpu_model").len("count")
        .sort(*JOB, "gpu_model")
        .group_by(*JOB, "alloc_gpus", maintain_order=True).agg("gpu_model", "count")
        .with_columns(
            pl.when(pl.col("gpu_model").list.len() == 1).then(pl.concat_list("alloc_gpus"))
            .when(pl.col("count").list.sum() == pl.col("alloc_gpus"))
            .then(pl.col("count").cast(pl.List(pl.Int32))).alias("count")
        )
        .filter(pl.col("count").is_not_null() & ~pl.col("gpu_model").list.contains(None))
        .drop("alloc_gpus")
    )  # fmt: skip
    typed = (pl.col("gpu_model_counts").list.sum() == pl.col("alloc_gpus")).fill_null(value=False)
    records = held.join(listed, on=JOB, how="left").select(
        *JOB, "raw_job_id", "alloc_gpus",
        pl.when(typed).then("gpu_models").otherwise("gpu_model").alias("gpu_models"),
        pl.when(typed).then("gpu_model_counts").otherwise("count").alias("gpu_model_counts"),
    )  # fmt: skip
    raw = records.filter(pl.col("raw_job_id") != pl.col("job_id")).with_columns(
        pl.col("raw_job_id").alias("job_id")
    )
    return pl.concat([records, raw]).drop("raw_job_id").unique(JOB, maintain_order=True)


def logged_fleet(records: pl.DataFrame, shapes: pl.DataFrame, steps: pl.LazyFrame) -> pl.DataFrame:
    """Per logged attempt: the shape, and the GPUs by model as lists.

    The scheduler's record is that of the attempt; else, since logs often number attempts from 1, what all
    attempts of the job held alike. A job that came back with other GPUs has none.
    """
    jobs = steps.select(JOB).unique().collect()
    text = pl.concat_str(
        pl.col("alloc_gpus"),
        pl.col("gpu_models").list.join("+", ignore_nulls=True),
        pl.col("gpu_model_counts").cast(pl.List(pl.String)).list.join("+", ignore_nulls=True),
        separator="|",
        ignore_nulls=True,
    )
    alike = (
        records.filter(text.n_unique().over("cluster", "job_id") == 1)
        .unique(("cluster", "job_id"), maintain_order=True)
        .drop("attempt")
    )
    found = jobs.join(records, on=JOB, how="left").join(
        alike, on=("cluster", "job_id"), how="left", suffix="_alike"
    )
    joined = found.join(shapes, on=("cluster", "job_id"), how="left")
    counts, models = (pl.coalesce(c, f"{c}_alike") for c in ("gpu_model_counts", "gpu_models"))
    count = pl.coalesce("alloc_gpus", "alloc_gpus_alike", "gpu_count").cast(pl.Int64)
    known = counts.list.len() > 0
    return joined.select(
        *JOB, *SHAPE, "recompute", "precision",
        count.alias("gpu_count"),
        pl.when(known).then(models).otherwise(pl.concat_list("gpu_model")).alias("gpu_models"),
        pl.when(known).then(counts).otherwise(pl.concat_list(count.cast(pl.Int32)))
        .alias("gpu_model_counts"),
    )  # fmt: skip
