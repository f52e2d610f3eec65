"""Rows of `trace_op` as arrays that a step can be replayed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ._replay import Trace
from ._schedule import Operation, ScheduleError

# Stage, kind, number, start, end and chunks of an operation.
Facts = tuple[int, str, int, float, float, int, int]


def complete_steps(rows: pl.DataFrame) -> pl.DataFrame:
    """Steps in which every rank ran as many operations of each kind as it did in most steps."""
    cells = rows.select("step", "rank", "op", ops=pl.col("start_s").list.len())
    usual = (
        cells.group_by("rank", "op", "ops").len()
        .sort("len", "ops", descending=True)
        .unique(["rank", "op"], keep="first", maintain_order=True)
    )  # fmt: skip
    fits = cells.join(usual, on=["rank", "op", "ops"], how="inner").group_by("step").len()
    all_steps = cells.group_by("step").len(name="cells")
    return all_steps.join(fits, on="step").filter(
        (pl.col("len") == usual.height) & (pl.col("cells") == usual.height)
    )


def trace_of(rows: pl.DataFrame) -> Trace:
    """Rows of complete steps as arrays. Raises ScheduleError where ranks do not form a grid."""
    if rows.is_empty():
        raise ScheduleError("no two steps have the same operations")
    if rows.select(pl.col("dp_rank", "pp_stage").is_null().any()).sum_horizontal().item():
        raise ScheduleError("data-parallel rank or pipeline stage of a rank is unknown")
    grid = rows.select("pp_stage", "dp_rank", "rank").unique().sort("pp_stage", "dp_rank")
    stages, columns = grid["pp_stage"].n_unique(), grid["dp_rank"].n_unique()
    if (
        grid.height != stages * columns
        or grid.select("pp_stage", "dp_rank").n_unique() != grid.height
    ):
        raise ScheduleError("ranks do not form a grid of pipeline stages and data-parallel ranks")
    order = rows.select("pp_stage", "op", "step", "dp_rank").with_row_index("row")
    order = order.sort("pp_stage", "op", "step", "dp_rank")
    counts = rows.select("pp_stage", "op", ops=pl.col("start_s").list.len())
    if counts.n_unique() != counts.select("pp_stage", "op").n_unique():
        raise ScheduleError("ranks of one stage ran different numbers of operations")
    shape = (rows["step"].n_unique(), columns)
    starts: list[NDArray[np.float32]] = []
    durations: list[NDArray[np.float32]] = []
    operations: list[Facts] = []
    for (_, kind), places in order.group_by("pp_stage", "op", maintain_order=True):
        if places.height != shape[0] * shape[1]:
            raise ScheduleError(f"{kind} is not run by every rank of its stage")
        of_kind = rows[places["row"]]
        starts.append(_by_operation(of_kind["start_s"], shape))
        durations.append(_by_operation(of_kind["duration_s"], shape))
        operations.extend(_operations(of_kind.row(0, named=True)))
    placed = [Operation(place, *facts) for place, facts in enumerate(operations)]
    ranks = grid["rank"].to_numpy().reshape(stages, columns).astype(np.int64)
    dp_ranks = grid["dp_rank"].unique().sort().to_list()
    return Trace(np.concatenate(starts), np.concatenate(durations), placed, ranks, dp_ranks)


def _by_operation(lists: pl.Series, shape: tuple[int, int]) -> NDArray[np.float32]:
    """Lists of steps x ranks, all of one length, as operations x steps x ranks."""
    values: NDArray[np.float32] = lists.explode().to_numpy().reshape(*shape, -1)
    return np.ascontiguousarray(np.moveaxis(values, -1, 0))


def _operations(row: Mapping[str, Any]) -> Iterator[Facts]:
    """The operations of one rank, step and kind."""
    count = len(row["start_s"])
    chunk: list[int] = row["chunk"] or [-1] * count
    global_chunk: list[int] = row["global_chunk"] or [-1] * count
    if row["op"].endswith("-compute") and row["chunk"] is None:
        chunk, global_chunk = [0] * count, [row["pp_stage"]] * count
    starts = np.asarray(row["start_s"], dtype=np.float32)
    ends = starts + np.asarray(row["duration_s"], dtype=np.float32)
    for number in range(count):
        yield (
            row["pp_stage"], row["op"], number, float(starts[number]), float(ends[number]),
            chunk[number], global_chunk[number],
        )  # fmt: skip
