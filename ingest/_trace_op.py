"""Operations of a StragglerAnalysis trace as rows of `trace_op`."""

from __future__ import annotations

import polars as pl

KEY = ("rank", "step", "op")
CHUNKS = {"chunk": "mc", "global_chunk": "gmc"}


def chunk_columns(schema: pl.Schema) -> list[pl.Expr]:
    """The model chunks of an operation; unknown where the file does not state them."""
    return [
        (pl.col(name).cast(pl.Int32, strict=False) if name in schema else pl.lit(None, pl.Int32)).alias(ours)
        for ours, name in CHUNKS.items()
    ]


def by_kind(operations: pl.LazyFrame, steps: pl.DataFrame) -> pl.LazyFrame:
    """One row per rank, step and kind with its operations in lists, ordered by their start.

    Operations that cannot be read are left out: the lists are then shorter than those of other
    steps. Lists of chunks are NULL where no operation of the kind belongs to one.
    """
    known = steps.select("rank", "step", "ts", "dp_rank", "pp_stage")
    lists = (
        operations.filter(pl.col("reason").is_null())
        .select(
            pl.col("rank", "step"),
            pl.col("optype").alias("op"),
            pl.col("start_ts").alias("start_s"),
            pl.col("duration").alias("duration_s"),
            *CHUNKS,
            "line_no",
        )
        .sort(*KEY, "start_s", "duration_s", *CHUNKS)
        .group_by(*KEY, maintain_order=True)
        .agg("start_s", "duration_s", *CHUNKS, pl.col("line_no").min())
    )
    return lists.join(known.lazy(), on=["rank", "step"]).with_columns(
        pl.when(pl.col(name).list.max() >= 0).then(name).alias(name) for name in CHUNKS
    )
