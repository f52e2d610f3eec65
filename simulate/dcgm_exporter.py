"""Scrapes of NVIDIA's dcgm-exporter as pages of Prometheus exposition text.

Names, help and types as in NVIDIA/dcgm-exporter@d5e5f51:etc/default-counters.csv; labels as
exporter 3.x writes them (gpu, UUID, device, modelName, Hostname), so without the bus id and driver
version of 4.x. Values have the exporter's forms: integers, or six decimals.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from .fleet import DAY_S, GPU_MODEL, Gpu
from .telemetry import Samples

# field, reading, type, help
FIELDS = (
    ("DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEM_CLOCK", "memory_clock_mhz", "gauge", "Memory clock frequency (in MHz)."),
    ("DCGM_FI_DEV_MEMORY_TEMP", "memory_temp_c", "gauge", "Memory temperature (in C)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gpu_temp_c", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "power_w", "gauge", "Power draw (in W)."),
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


def _labels(gpu: Gpu) -> str:
    return (
        f'gpu="{gpu.index}",UUID="{gpu.uuid}",device="nvidia{gpu.index}",'
        f'modelName="{GPU_MODEL}",Hostname="{gpu.node}"'
    )


def _lines(samples: Samples) -> Iterator[pl.Series | str]:
    """The lines of a page, top down: a text that is the same in all pages, or one value per page."""
    for field, reading, kind, text in FIELDS:
        yield f"# HELP {field} {text}\n# TYPE {field} {kind}"
        values = samples.values[reading]
        for gpu in samples.node.gpus:
            column = values[:, gpu.index]
            shown = column if column.dtype == np.int64 else np.char.mod("%.6f", column)
            prefix = f"{field}{{{_labels(gpu)}}} "
            yield prefix + pl.Series(shown).cast(pl.String)


def write(samples: Samples, folder: Path) -> None:
    """One file per day; a marker line before each page says when and where it was scraped."""
    name = samples.node.name
    marker = pl.Series(np.char.mod(f"# fleetmark scrape ts=%.3f node={name}", samples.ts_s))
    lines = [marker, *(line if isinstance(line, pl.Series) else pl.Series([line])
                       for line in _lines(samples))]  # fmt: skip
    columns = [pl.lit(line).alias(str(n)) for n, line in enumerate(lines)]
    days = (
        pl.select(
            pl.lit(pl.Series(samples.ts_s)).alias("ts"),
            pl.concat_str(columns, separator="\n").alias("page"),
        )
        .group_by((pl.col("ts") // DAY_S * DAY_S).alias("day_s"), maintain_order=True)
        .agg(pl.col("page").str.join("\n"))
        .with_columns(pl.from_epoch("day_s").dt.strftime("%Y%m%d").alias("day"))
    )
    folder.mkdir(parents=True, exist_ok=True)
    for day, page in days.select("day", "page").iter_rows():
        (folder / f"{name}-{day}.prom").write_bytes(page.encode() + b"\n")
