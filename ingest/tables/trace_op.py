"""`trace_op`: the operations of one training step, as one rank ran them."""

from __future__ import annotations

from fleetmark.table import Column, Table

TRACE_OP = Table(
    name="trace_op",
    doc="Operations of traced training steps, one row per rank, step and kind of operation. The "
    "lists hold one entry per operation, in the order in which they were started; "
    "unnest(start_s), unnest(duration_s) gives one row per operation.",
    grain=("cluster", "job_id", "attempt", "rank", "step", "op"),
    columns=(
        Column("cluster", "VARCHAR", "cluster"),
        Column("job_id", "VARCHAR", "job"),
        Column(
            "attempt", "BIGINT", "attempt of the job as in job_attempt; 1 where nothing was stated"
        ),
        Column("rank", "INTEGER", "global rank"),
        Column("step", "BIGINT", "training step (iteration) as the framework numbers it"),
        Column("op", "VARCHAR", "kind of operation, such as forward-compute or backward-send"),
        Column("ts", "TIMESTAMP", "start of the step, as in step_sample"),
        Column("dp_rank", "INTEGER", "rank in its data-parallel group"),
        Column("pp_stage", "INTEGER", "pipeline stage; 0 where there is no pipeline"),
        Column("start_s", "DOUBLE[]", "start of each operation, from the start of the step", "s"),
        Column("duration_s", "DOUBLE[]", "length of each operation, waiting included", "s"),
        Column("chunk", "INTEGER[]", "model chunk within the stage; -1 where it has none"),
        Column("global_chunk", "INTEGER[]", "model chunk within the model; -1 where it has none"),
    ),
    time="ts",
    sort=("job_id", "rank", "ts"),
)
