"""Rows of gpu_identity from what the labels of an exporter's series say of a GPU."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache

import polars as pl

from ..tables.gpu_identity import GPU_IDENTITY
from ._gpu_series import CARD, serial_uuid
from ._kernel_event import address

# Labels by column: dcgm-exporter puts fields of its collector file that are marked as labels on
# every series, under their DCGM name (until 4.5, then 4.6); device-metrics-exporter, omnistat
# (rocm_version_info) and nvidia_gpu_exporter (nvidia_smi_gpu_info) have labels of their own.
_LABELS: Mapping[str, tuple[str, ...]] = {
    "driver_version": (
        "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION", "driver_version", "driver_ver",
    ),
    "cuda_version": ("cuda_version",),
    "vbios_version": ("DCGM_FI_DEV_VBIOS_VERSION", "vbios_version", "vbios"),
    "inforom_image_version": ("DCGM_FI_DEV_INFOROM_IMAGE_VER", "DCGM_FI_DEV_INFOROM_IMAGE_VERSION"),
    "inforom_oem_version": ("DCGM_FI_DEV_OEM_INFOROM_VER", "DCGM_FI_DEV_INFOROM_OEM_VERSION"),
    "inforom_ecc_version": ("DCGM_FI_DEV_ECC_INFOROM_VER", "DCGM_FI_DEV_INFOROM_ECC_VERSION"),
    "inforom_power_version": ("DCGM_FI_DEV_POWER_INFOROM_VER", "DCGM_FI_DEV_INFOROM_POWER_VERSION"),
    "serial": ("DCGM_FI_DEV_SERIAL", "DCGM_FI_DEV_BOARD_SERIAL", "serial_number", "serial"),
    "chassis_serial": ("DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER",),
    "fabric_cluster_uuid": ("DCGM_FI_DEV_FABRIC_CLUSTER_UUID",),
    "pci_bus_id": ("pci_bus_id", "DCGM_FI_DEV_PCI_BUSID", "DCGM_FI_DEV_PCI_BUS_ID"),
    "gpu_model": ("modelName", "model_name", "card_series", "type", "name", "card_model"),
}  # fmt: skip
_DEVICE = re.compile(r"nvidia(\d{1,4})")
_COLUMNS = (*_LABELS, "minor_number")
_NOTHING = re.compile(r"|\[?N/A\]?|<<<\w+>>>|[0-]+")


def identity_rows(samples: pl.DataFrame, series: pl.DataFrame, pages: pl.DataFrame) -> pl.DataFrame:
    """Rows of gpu_identity (without `cluster`), one per GPU and hour, at the hour's start.

    Pages repeat the same labels on every series of every scrape: of an hour the first page counts.
    """
    facts = _facts(series)
    if facts.is_empty():
        return GPU_IDENTITY.empty().drop("cluster")
    seen = _first_of_pages(samples.select("line_no", "series", "page", "own_ts"), series.height)
    hour = pl.coalesce("own_ts", "page_ts").dt.truncate("1h").alias("ts")
    per_page = (
        seen.join(facts, on="series", how="inner", maintain_order="left")
        .join(pages, on="page", how="left", maintain_order="left")
        .with_columns(hour, pl.coalesce("node", "page_node").alias("node"))
        .group_by("node", "gpu_uuid", "ts", "page", "own_ts", maintain_order=True)
        .agg(pl.col("line_no").first(), pl.col("gpu_index", *_COLUMNS).drop_nulls().first())
    )
    return (
        per_page.unique(["gpu_uuid", "node", "ts"], keep="first", maintain_order=True)
        .with_columns(address(pl.col("pci_bus_id")).alias("pci_bus_id"))
        .drop("page", "own_ts")
    )


def _first_of_pages(samples: pl.DataFrame, series_count: int) -> pl.DataFrame:
    """The first sample of each series, page and time of its own."""
    if samples["own_ts"].null_count() < samples.height:
        return samples.unique(["series", "page", "own_ts"], keep="first", maintain_order=True)
    # By one number for both: hashing three columns takes five times as long.
    place = samples["page"].cast(pl.Int64) * series_count + samples["series"]
    return samples[place.arg_unique().sort()]


def named(rows: pl.DataFrame, identities: pl.DataFrame) -> pl.DataFrame:
    """Rows with a name for GPUs of which their series give only the index on the node.

    That is the serial number, where the same exporter prints one for that index (omnistat does
    since 2026), else node/index: a place, which stays the same when the GPU in it is replaced.
    """
    is_place = pl.col("gpu_uuid").str.starts_with(CARD).fill_null(value=False)
    if rows.is_empty() or not rows.select(is_place.any()).item():
        return rows
    boards = identities.filter(is_place).select(
        "node", "gpu_uuid", pl.col("ts").alias("hour"), pl.col("serial").alias("board")
    )
    index = pl.col("gpu_uuid").str.strip_prefix(CARD)
    board = pl.format(serial_uuid("{}"), "board")
    name = pl.coalesce(board, pl.format("{}/{}", "node", index))
    return (
        rows.with_columns(pl.col("ts").dt.truncate("1h").alias("hour"))
        .join(boards, on=["node", "gpu_uuid", "hour"], how="left", maintain_order="left")
        .with_columns(pl.when(is_place).then(name).otherwise("gpu_uuid").alias("gpu_uuid"))
        .drop("hour", "board")
    )


def _facts(series: pl.DataFrame) -> pl.DataFrame:
    """What each series that names a GPU says of it; series that say nothing are left out."""
    named = series.filter(pl.col("gpu_uuid").is_not_null() & ~pl.col("lost"))
    found = [_facts_of(text) for text in named["labels_json"]]
    schema = dict.fromkeys(_LABELS, pl.String()) | {"minor_number": pl.Int32()}
    known = pl.DataFrame(
        [facts or (None,) * len(schema) for facts in found], schema=schema, orient="row"
    )
    who = named.select("series", "node", "gpu_uuid", "gpu_index")
    return who.hstack(known).filter(
        pl.Series([facts is not None for facts in found], dtype=pl.Boolean)
    )


@lru_cache(maxsize=1 << 14)
def _facts_of(labels_json: str) -> tuple[str | int | None, ...] | None:
    """The columns that labels give, or None where they give neither a version nor a serial number."""
    labels = json.loads(labels_json)
    found = {column: _first(labels, names) for column, names in _LABELS.items()}
    device = _DEVICE.fullmatch(labels.get("device", ""))
    if not any(found[name] for name in _LABELS if name.endswith(("_version", "serial"))):
        return None
    return (*found.values(), int(device[1]) if device else None)


def _first(labels: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next(
        (labels[name] for name in names if name in labels and not _NOTHING.fullmatch(labels[name])),
        None,
    )
