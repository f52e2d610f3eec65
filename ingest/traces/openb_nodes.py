"""Alibaba's GPU cluster trace of 2023 (openb): nodes."""

from __future__ import annotations

from datetime import datetime

import polars as pl

from fleetmark.source import Context, Parsed, source

from ..tables.node_state import NODE_STATE
from ._columns import fields_of, header_has, parsed, unread, whole

NEEDED = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
BEGIN = datetime(1970, 1, 1)  # noqa: DTZ001 - the trace's second 0, as in openb_pods


def looks_like_openb_nodes(head: bytes, file_name: str) -> bool:  # noqa: ARG001 - the header tells
    """A header with the columns a row cannot do without."""
    return header_has(head, NEEDED)


@source(outputs=(NODE_STATE,), reads="lines", sniff=looks_like_openb_nodes)
def openb_nodes(lines: pl.DataFrame, context: Context) -> Parsed:
    """`openb_node_list_*.csv` (alibaba/clusterdata, cluster-trace-gpu-v2023), one row a node.

    The list says what nodes have, not how they do: state is NULL, and they stand at second 0 of the
    trace. CPUs are rounded down.
    """
    fields = fields_of(lines, context, NEEDED, ())
    large = pl.when(
        ~whole("cpu_milli").is_between(0, 1 << 40)
        | ~whole("memory_mib").is_between(0, 1 << 40)
        | ~whole("gpu").is_between(0, 1 << 20)
    ).then(pl.lit("a size out of range"))
    problem = pl.coalesce(
        pl.when(pl.col("sn").is_null()).then(pl.lit("no sn")),
        unread("cpu_milli", "memory_mib", "gpu"),
        large,
    )
    gpus = whole("gpu").cast(pl.Int32, strict=False)
    rows = fields.frame.select(
        "line_no",
        problem.alias("problem"),
        pl.lit(context.options["cluster"]).alias("cluster"),
        pl.col("sn").alias("node"),
        pl.lit(BEGIN, pl.Datetime("us")).alias("ts"),
        gpus.alias("gpu_count"),
        pl.when(gpus.is_not_null()).then(pl.lit("as_given")).alias("gpu_count_source"),
        pl.when(pl.col("model").is_not_null()).then(pl.concat_list("model")).alias("gpu_models"),
        pl.when(pl.col("model").is_not_null()).then(pl.concat_list(gpus)).alias("gpu_model_counts"),
        (whole("cpu_milli") // 1000).alias("cpu_count"),
        (whole("memory_mib") * (1 << 20)).alias("mem_bytes"),
        pl.lit("trace_openb").alias("source"),
    )
    return parsed("node_state", rows, lines, fields)
