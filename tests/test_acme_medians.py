"""Acme (NSDI 2024): published medians of GPU utilisation and memory, through `gpu_minute`.

Definition: median over all DCGM samples, allocated or idle, of GPU_UTIL and of FB_USED / 80 GiB. The released
distributions hold a thousand equally likely samples per metric; each stands here as one minute of a GPU.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute

CATALOG = load_catalog()
CDF = Path(__file__).parent.parent / "samples/scheduler/acme/acme_gpu_metric_cdf.csv.gz"
BEGIN = datetime(2023, 7, 1)  # noqa: DTZ001 - times are UTC without zone
FRAMEBUFFER_BYTES = 80 << 30
# cluster of the file -> published or, for kalos_short, obtained from the shorter file; percent
UTILISATION = {"seren": 99, "kalos": 98, "kalos_short": 97}


@pytest.fixture(scope="module")
def minutes() -> pl.DataFrame:
    values = pl.read_csv(CDF)
    parts = []
    for cluster in UTILISATION:
        of = {
            metric: values.filter(
                (pl.col("cluster") == cluster) & (pl.col("metric") == metric)
            )["value"]
            for metric in ("gpu_util_pct", "fb_used_pct")
        }  # fmt: skip
        parts.append(
            pl.DataFrame(
                {
                    "cluster": cluster,
                    "node": "n",
                    "gpu_uuid": "GPU-1",
                    "gpu_index": 0,
                    "mig_instance": "",
                    "ts": [BEGIN + timedelta(minutes=n) for n in range(1000)],
                    "gpu_busy_ratio": of["gpu_util_pct"] / 100,
                    "fb_used_bytes": (of["fb_used_pct"] / 100 * FRAMEBUFFER_BYTES).cast(pl.Int64),
                }
            )
        )
    table = CATALOG.tables["gpu_sample"]
    samples = complete(table, pl.concat(parts).cast({"gpu_index": pl.Int32}))
    return compute(CATALOG, CATALOG.models["gpu_minute"], {"gpu_sample": samples}, {})


def medians(minutes: pl.DataFrame, where: str = "true") -> dict[str, tuple[float, float]]:
    with duckdb.connect() as connection:
        connection.register("gpu_minute", minutes.to_arrow())
        rows = connection.execute(
            "SELECT cluster, 100 * quantile_cont(gpu_busy_ratio, 0.5), "
            f"100 * quantile_cont(fb_used_max_bytes, 0.5) / {FRAMEBUFFER_BYTES} "
            f"FROM gpu_minute WHERE {where} GROUP BY cluster"
        ).fetchall()
    return {cluster: (util, memory) for cluster, util, memory in rows}


def test_medians_equal_the_published(minutes: pl.DataFrame) -> None:
    found = medians(minutes)
    assert {c: util for c, (util, _) in found.items()} == pytest.approx(UTILISATION)
    # The paper: half of Kalos' GPUs hold more than 75 % of their memory.
    assert found["kalos"][1] == pytest.approx(75.4, abs=0.1)


def test_idle_samples_belong_to_the_denominator(minutes: pl.DataFrame) -> None:
    """Without the minutes at 0 Kalos has other medians, of utilisation and of memory."""
    utilisation, _ = medians(minutes, "gpu_busy_ratio > 0")["kalos"]
    _, memory = medians(minutes, "fb_used_max_bytes > 0")["kalos"]
    assert utilisation == pytest.approx(99)
    assert memory == pytest.approx(77.0, abs=0.05)
