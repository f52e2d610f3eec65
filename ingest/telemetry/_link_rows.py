"""From samples of single NVLinks to rows of gpu_link_sample."""

from __future__ import annotations

import polars as pl

from fleetmark.table import TYPES

from ..tables.gpu_link_sample import GPU_LINK_SAMPLE
from ._signals import LINK_STATUS, REGISTRY

_SIGNALS = {n: signal for n, signal in enumerate(REGISTRY) if signal.entity == "link"}
# NVML_FI_DEV_NVLINK_GET_STATE (nvml.h): inactive, active, sleep.
STATES = {0: "inactive", 1: "up", 2: "asleep"}


def link_rows(samples: pl.DataFrame, series: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Rows of gpu_link_sample (without `cluster`) from samples of link signals on GPUs.

    The link is the one of the label `nvlink`, or else the one in the field's name. Of two values
    for one link the first stays.
    """
    if samples.is_empty():
        return GPU_LINK_SAMPLE.empty().drop("cluster")
    value = pl.col("value") * pl.col("factor")
    who = series.select("series", "node", "gpu_uuid", "gpu_index", "gpu_model", "link")
    cells = (
        samples.join(who, on="series", how="left", maintain_order="left")
        .join(pages, on="page", how="left", maintain_order="left")
        .select(
            "line_no", "signal", "gpu_uuid", "gpu_index", "gpu_model",
            pl.coalesce("node", "page_node").alias("node"),
            pl.coalesce("link", "name_link").alias("link"),
            pl.coalesce("own_ts", "page_ts").alias("ts"),
            pl.when(value.is_between("min", "max")).then(value).alias("value"),
        )
    )  # fmt: skip
    present = [n for n in _SIGNALS if n in cells["signal"]]
    rows = cells.group_by("node", "gpu_uuid", "link", "ts", maintain_order=True).agg(
        pl.col("line_no", "gpu_index", "gpu_model").first(),
        *(
            pl.col("value").filter(pl.col("signal") == n).drop_nulls().first()
            .round(_SIGNALS[n].decimals).cast(TYPES[_SIGNALS[n].type])
            .alias(_SIGNALS[n].column.removeprefix("link_") if _SIGNALS[n].column != LINK_STATUS else "state")
            for n in present
        ),
    )  # fmt: skip
    if "state" not in rows.columns:
        return rows
    return rows.with_columns(
        pl.col("state").replace_strict(STATES, default=None, return_dtype=pl.String)
    )
