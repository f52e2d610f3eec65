"""Operations of a StragglerAnalysis trace as rows of `trace_op`."""

from __future__ import annotations

import polars as pl

KEY = ("rank", "step", "op")
MAX_OPERATIONS = 3_000_000  # sorted at once
CHUNKS = {"chunk": "mc", "global_chunk": "gmc"}


def chunk_columns(schema: pl.Schema) -> list[pl.Expr]:
    """The model chunks of an operation; unknown where the file does not state them."""
    return [
        (
            pl.col(name).cast(pl.Int32, strict=False) if name in schema else pl.lit(None, pl.Int32)
        ).alias(ours)
        for ours, name in CHUNKS.items()
    ]


def by_kind(operations: pl.LazyFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """One row per rank, step and kind with its operations in lists, ordered by their start.

    Operations that cannot be read are left out: the lists are then shorter than those of other
    steps. Lists of chunks are NULL where no operation of the kind belongs to one. Sorting needs
    200 bytes an operation, so ranks are taken in turn.
    """
    known = steps.select("rank", "step", "ts", "dp_rank", "pp_stage").lazy()
    ranks = steps["rank"].unique().sort()
    at_once = max(1, MAX_OPERATIONS * len(ranks) // max(1, int(steps["op_count"].sum())))
    parts = [
        _lists(operations.filter(pl.col("rank").is_between(some.min(), some.max())))
        .join(known, on=["rank", "step"])
        .collect(engine="streaming")
        for some in (ranks[n : n + at_once] for n in range(0, max(1, len(ranks)), at_once))
    ]
    return pl.concat(parts)


def _lists(operations: pl.LazyFrame) -> pl.LazyFrame:
    return (
        operations.filter(pl.col("reason").is_null())
        .select(
            "rank",
            "step",
            pl.col("optype").alias("op"),
            pl.col("start_ts").alias("start_s"),
            pl.col("duration").alias("duration_s"),
            *CHUNKS,
            "line_no",
        )
        .sort(*KEY, "start_s", "duration_s", *CHUNKS)
        .group_by(*KEY, maintain_order=True)
        .agg("start_s", "duration_s", *CHUNKS, pl.col("line_no").min())
        .with_columns(
            pl.when(pl.col(name).list.max() >= 0).then(name).alias(name) for name in CHUNKS
        )
    )
