"""Bytes that a stored sample takes, and whether every value still reads as it was printed.

The series are those that Prometheus and VictoriaMetrics were measured on (4.34 and 1.72 bytes a sample with their
index): 1,024 GPUs, four fields, six hours at 15 s, 5,898,240 samples at scale 1. Utilisation and temperature are
integer walks, power has 3 decimals and noise of 12 W, tensor activity 6 decimals. The files are those of `gpu_sample`:
all of its keys and columns, one commit an hour.
"""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.write import gate, insert, one_thread
from fleetmark.store import Store
from fleetmark.table import Table

from .workload import Goal, Run, Work, Workload, own

GPUS = 1024
HOURS = 6
SCRAPES = 240
FIELDS = ("gpu_busy_ratio", "gpu_temp_c", "power_w", "tensor_active_ratio")
PER_NODE = 8
BYTES = "bytes a sample"
SEED = 3
Grids = dict[str, npt.NDArray[np.float64]]
_START = datetime(2026, 3, 2)  # noqa: DTZ001 - UTC without zone


def values(gpus: int) -> Grids:
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


def hour_rows(found: Grids, hour: int) -> pl.DataFrame:
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


def fill(store: Store, table: Table, found: Grids) -> None:
    """Commit hour by hour, as an ingest does it."""
    for hour in range(HOURS):
        rows = gate(table, hour_rows(found, hour), f"{hour:016x}", pl.DataFrame()).rows
        with one_thread(store):
            store.commit(lambda rows=rows: insert(store, table, rows))  # type: ignore[misc]  # bound


def differing(store: Store, found: Grids) -> int:
    """Stored values that do not read as they were printed."""
    stored = store.connection.execute(
        "SELECT round(gpu_busy_ratio, 2), gpu_temp_c::DOUBLE, round(power_w, 3), "
        "round(tensor_active_ratio, 6) FROM lake.gpu_sample ORDER BY gpu_uuid, ts"
    ).fetchnumpy()
    pairs = zip(stored.values(), found.values(), strict=True)
    return sum(int((column != grid.ravel()).sum()) for column, grid in pairs)


def prepare(folder: Path, scale: float) -> Path:
    """A file that holds the number of GPUs: the series are drawn in memory."""
    path = folder / "gpus"
    path.write_text(str(max(PER_NODE, round(GPUS * scale / PER_NODE) * PER_NODE)), encoding="utf-8")
    return path


def bytes_share(own: Run, other: Run) -> float:
    """Bytes of a sample as a part of the other's."""
    return own.figures[BYTES] / other.figures[BYTES]


def whole(folder: Path, _scale: float) -> Path:
    """All GPUs, whatever the scale: bytes a sample depend on how much lies in a file."""
    return prepare(folder, 1)


def load(path: Path) -> tuple[Path, Catalog, Grids]:
    """A folder for the lake, the definitions and the series."""
    root = path.with_name("gpu-lake")
    shutil.rmtree(root, ignore_errors=True)
    return root, load_catalog(), values(int(path.read_text(encoding="utf-8")))


def into_lake(given: tuple[Path, Catalog, Grids]) -> Work:
    """Commit the series hour by hour. Raises RuntimeError when a stored value reads differently."""
    root, catalog, found = given
    count = sum(grid.size for grid in found.values())
    table = catalog.tables["gpu_sample"]
    with Store(root) as store:
        store.ensure(catalog.tables.values())
        fill(store, table, found)
        size = sum(Path(data).stat().st_size for data, _ in store.files("gpu_sample"))
        if wrong := differing(store, found):
            raise RuntimeError(f"{wrong} values read differently")
    return Work(count, {BYTES: size / count})


STORAGE = Workload(
    name="storage",
    doc="the samples of 1,024 GPUs x 4 fields x 6 h at 15 s, gated and committed hour by hour to the lake, every "
    "value read again. On the same series Prometheus 2.42 takes 4.34 bytes a sample and VictoriaMetrics 1.79 1.72",
    unit="samples",
    prepare=whole,
    load=load,
    run=into_lake,
    goals=(
        Goal(BYTES, 1.72, 1.5, of=own(BYTES), at_most=True),
        Goal("of Prometheus' bytes", 0.4, of=bytes_share, beside="prometheus_block", at_most=True),
    ),
    rounds=1,
    grows=False,
)
