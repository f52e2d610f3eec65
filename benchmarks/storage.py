"""Bytes that a stored sample takes, and whether every value still reads as it was printed.

`python -m fleetmark.benchmarks.storage [--scale X]` fills a lake with the series that Prometheus and
VictoriaMetrics were measured on (4.34 and 1.72 bytes a sample with their index): 1,024 GPUs, four fields, six
hours at 15 s, 5,898,240 samples. Utilisation and temperature are integer walks, power has 3 decimals and
noise of 12 W, tensor activity 6 decimals. The files are those of `gpu_sample`: all of its keys and columns,
one commit an hour.
"""

from __future__ import annotations

import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
import polars as pl

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.write import gate, insert, one_thread
from fleetmark.store import Store
from fleetmark.table import Table

GPUS = 1024
HOURS = 6
SCRAPES = 240
FIELDS = ("gpu_busy_ratio", "gpu_temp_c", "power_w", "tensor_active_ratio")
LIMIT_BYTES = 1.5
SEED = 3
_START = datetime(2026, 3, 2)  # noqa: DTZ001 - UTC without zone


def values(gpus: int) -> dict[str, npt.NDArray[np.float64]]:
    """Each field as an array of GPUs by scrapes, at the decimals that the exporter prints."""
    draw = np.random.default_rng(SEED)
    shape = (gpus, HOURS * SCRAPES)
    busy = np.empty(shape)
    level = np.full(gpus, 80.0)
    for scrape in range(shape[1]):
        level = np.clip(level + draw.integers(-3, 4, gpus), 0, 100)
        busy[:, scrape] = level
    busy[draw.random(shape) < 0.02] = 0
    warmth = np.round(45 + np.cumsum(draw.normal(0, 0.3, shape), axis=1)).clip(20, 95)
    power = np.clip(120 + 5.4 * busy + draw.normal(0, 12, shape), 60, 720)
    tensor = np.clip(0.45 * busy / 100 + draw.normal(0, 0.02, shape), 0, 1)
    printed = (busy / 100, warmth, np.round(power, 3), np.round(tensor, 6))
    return dict(zip(FIELDS, printed, strict=True))


def hour_rows(found: dict[str, npt.NDArray[np.float64]], hour: int) -> pl.DataFrame:
    """One hour of all GPUs, in the order in which scrapes arrive."""
    part = {name: grid[:, hour * SCRAPES : (hour + 1) * SCRAPES].T for name, grid in found.items()}
    gpus = len(next(iter(found.values())))
    numbers = np.tile(np.arange(gpus), SCRAPES)
    scrapes = np.repeat(np.arange(SCRAPES), gpus)
    start = _START + timedelta(hours=hour)
    columns = {name: grid.ravel() for name, grid in part.items()}
    return pl.DataFrame({**columns, "gpu": numbers, "scrape": scrapes}).select(
        pl.lit(start).add(pl.duration(seconds=15 * pl.col("scrape"))).alias("ts"),
        pl.lit("bench").alias("cluster"),
        pl.format("gpu-node-{}", pl.col("gpu") // 8).alias("node"),
        pl.format("GPU-6d5c0ac5-74d7-3130-{}-e93ed57f46aa", pl.col("gpu") + 1000).alias("gpu_uuid"),
        (pl.col("gpu") % 8).alias("gpu_index"),
        pl.lit("").alias("mig_instance"),
        pl.lit("NVIDIA H100 80GB HBM3").alias("gpu_model"),
        *FIELDS,
        pl.lit([], pl.List(pl.String)).alias("quality"),
        pl.int_range(1, pl.len() + 1).alias("line_no"),
    )  # fmt: skip


def fill(store: Store, table: Table, found: dict[str, npt.NDArray[np.float64]]) -> None:
    """Commit hour by hour, as an ingest does it."""
    for hour in range(HOURS):
        rows = gate(table, hour_rows(found, hour), f"{hour:016x}", pl.DataFrame()).rows
        with one_thread(store):
            store.commit(lambda rows=rows: insert(store, table, rows))  # type: ignore[misc]  # bound


def differing(store: Store, found: dict[str, npt.NDArray[np.float64]]) -> int:
    """Stored values that do not read as they were printed."""
    stored = store.connection.execute(
        "SELECT round(gpu_busy_ratio, 2), gpu_temp_c::DOUBLE, round(power_w, 3), "
        "round(tensor_active_ratio, 6) FROM lake.gpu_sample ORDER BY gpu_uuid, ts"
    ).fetchnumpy()
    pairs = zip(stored.values(), found.values(), strict=True)
    return sum(int((column != grid.ravel()).sum()) for column, grid in pairs)


@click.command()
@click.option("--scale", default=1.0, help="Share of the GPUs.")
def main(scale: float) -> None:
    """Measure, and exit with 1 when a sample takes more than 1.5 bytes or reads differently."""
    found = values(max(8, round(GPUS * scale)))
    count = sum(grid.size for grid in found.values())
    catalog = load_catalog()
    with tempfile.TemporaryDirectory(prefix="fleetmark-bench-") as folder:
        root = Path(folder) / "store"
        with Store(root) as store:
            store.ensure(catalog.tables.values())
            cpu = time.process_time()
            fill(store, catalog.tables["gpu_sample"], found)
            cpu = time.process_time() - cpu
            wrong = differing(store, found)
            size = sum(Path(data).stat().st_size for data, _ in store.files("gpu_sample"))
    click.echo(
        f"{count:,} samples, {size:,} bytes: {size / count:.3f} bytes a sample (aim {LIMIT_BYTES}); "
        f"{wrong} values read differently; {count / cpu:,.0f} samples per CPU second into the lake"
    )
    sys.exit(size / count > LIMIT_BYTES or wrong > 0)


if __name__ == "__main__":
    main()
