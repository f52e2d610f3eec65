"""Scrapes of NVIDIA's dcgm-exporter as pages of Prometheus exposition text.

Names, help and types as in NVIDIA/dcgm-exporter@d5e5f51:etc/default-counters.csv; labels as
exporter 3.x writes them (gpu, UUID, device, modelName, Hostname), so without the bus id and driver
version of 4.x. Values have the exporter's forms: integers, or six decimals. A GPU that the exporter
does not see has no line at all. MIG instances and pods that share a GPU repeat what is said of it,
activity included: tenants are taken to be equally busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .fleet import DAY_S, GPU_MODEL, Gpu, Node
from .health import HEALTH_FIELDS, NOT_PRINTED
from .telemetry import Samples

# field, reading, type, help
FIELDS = (
    ("DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEM_CLOCK", "memory_clock_mhz", "gauge", "Memory clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "memory_temp_c", "gauge", "Memory temperature (in C)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gpu_temp_c", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "power_w", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "power_limit_w", "gauge", "Power limit in force (in W)."),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_mj", "counter",
     "Total energy consumption since boot (in mJ)."),
    ("DCGM_FI_DEV_GPU_UTIL", "util_percent", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_FB_USED", "fb_used_mib", "gauge", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "throttle_mask", "gauge",
     "Current clock throttle reasons."),
    ("DCGM_FI_PROF_SM_ACTIVE", "sm_ratio", "gauge",
     "The ratio of cycles an SM has at least 1 warp assigned (in %)."),
    ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_ratio", "gauge",
     "Ratio of cycles the tensor (HMMA) pipe is active (in %)."),
    ("DCGM_FI_PROF_DRAM_ACTIVE", "dram_ratio", "gauge",
     "Ratio of cycles the device memory interface is active sending or receiving data (in %)."),
)  # fmt: skip


MIG_PROFILE = "3g.40gb"


def _labels(gpu: Gpu, more: str = "") -> str:
    return (
        f'gpu="{gpu.index}",UUID="{gpu.uuid}",device="nvidia{gpu.index}",'
        f'modelName="{GPU_MODEL}"{more},Hostname="{gpu.node}"'
    )


def _series(samples: Samples, number: int) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Labels of a GPU's series and in which pages they stand: its own, its instances', its pods'."""
    gpu, there = samples.gpus[number], ~samples.missing[:, number]
    yield _labels(gpu), there
    for instance in range(1, int(samples.instances[:, number].max(initial=0)) + 1):
        more = f',GPU_I_PROFILE="{MIG_PROFILE}",GPU_I_ID="{instance}"'
        yield _labels(gpu, more), there & (samples.instances[:, number] >= instance)
    for pod in range(int(samples.pods[:, number].max(initial=0))):
        more = f',container="main",namespace="serve",pod="replica-{pod}",vgpu="{pod}"'
        yield _labels(gpu, more), there & (samples.pods[:, number] > pod)


def _lines(samples: Samples) -> Iterator[pl.Series | str]:
    """The lines of a page, top down: a text that is the same in all pages, or one value per page.

    NULL where a page has no such line.
    """
    for field, reading, kind, text in (*FIELDS, *HEALTH_FIELDS):
        if reading not in samples.values:
            continue
        yield f"# HELP {field} {text}\n# TYPE {field} {kind}"
        values = samples.values[reading]
        for number in range(len(samples.gpus)):
            column = values[:, number]
            shown = column if column.dtype == np.int64 else np.char.mod("%.6f", column)
            for labels, there in _series(samples, number):
                printed = there & (column != NOT_PRINTED)
                line = f"{field}{{{labels}}} " + pl.Series(shown).cast(pl.String)
                yield line if printed.all() else line.set(~pl.Series(printed), None)


def write(node: Node, samples: Samples, folder: Path) -> None:
    """One file per day; a marker line before each page says when and where it was scraped."""
    ts_s = samples.ts_s[:, 0]
    marker = pl.Series(np.char.mod(f"# fleetmark scrape ts=%.3f node={node.name}", ts_s))
    lines = [marker, *(line if isinstance(line, pl.Series) else pl.Series([line])
                       for line in _lines(samples))]  # fmt: skip
    columns = [pl.lit(line).alias(str(n)) for n, line in enumerate(lines)]
    days = (
        pl.select(
            pl.lit(pl.Series(ts_s)).alias("ts"),
            pl.concat_str(columns, separator="\n", ignore_nulls=True).alias("page"),
        )
        .group_by((pl.col("ts") // DAY_S * DAY_S).alias("day_s"), maintain_order=True)
        .agg(pl.col("page").str.join("\n"))
        .with_columns(pl.from_epoch("day_s").dt.strftime("%Y%m%d").alias("day"))
    )
    folder.mkdir(parents=True, exist_ok=True)
    for day, page in days.select("day", "page").iter_rows():
        (folder / f"{node.name}-{day}.prom").write_bytes(page.encode() + b"\n")
