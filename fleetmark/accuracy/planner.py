"""Planner figures that were published: utilisation quartiles of virtual clusters.

Helios (Hu et al., SC 2021), virtual-cluster utilisation box plot: per minute running over total
GPUs, May 2020 without 10 May, linear quartiles, five virtual clusters; equal means
equal as printed, to 0.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import polars as pl

from fleetmark.accuracy.interval import Measured, exact
from fleetmark.accuracy.scratch import Inputs, judged, rows

WITHIN = 0.05  # they are printed to 0.1
MONTH = """
SELECT vc, 100 * q1_ratio AS q1_pct, 100 * median_ratio AS median_pct, 100 * q3_ratio AS q3_pct
FROM lake.vc_utilization_month WHERE month_ts = DATE '2020-05-01'
"""


def measured(_seed: int, folder: Path) -> Mapping[str, Measured]:
    """The share of the 15 published quartiles that come out equal. Nothing here depends on a seed."""
    samples = Path(str(files("fleetmark.samples"))) / "scheduler" / "helios"
    inputs: Inputs = [
        ("helios_vc", sorted(samples.glob("*_cluster_sequence_vc*")), {}),
        ("helios_gpu_number", sorted(samples.glob("*_gpu_number.csv")), {}),
    ]
    with judged(folder / "store", inputs, ()) as store:
        found = rows(store, MONTH)
    index = "vc"
    published = pl.read_csv(samples / "published_fig4_quartiles.csv").unpivot(index=index)
    both = published.join(
        found.unpivot(index=index), on=[index, "variable"], how="left", suffix="_found"
    )
    equal = both.select(
        ((pl.col("value") - pl.col("value_found")).abs() < WITHIN + 1e-9).fill_null(value=False)
    )["value"].sum()
    return {"helios_quartiles": exact(float(equal) / published.height, published.height)}
