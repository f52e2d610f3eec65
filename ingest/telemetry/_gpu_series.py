"""Which GPU (or MIG instance, link, switch) a series of an exporter belongs to, from its labels."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import polars as pl

from ._exposition import labels_of

# Spellings over the versions of dcgm-exporter (GPU series; link series; 1.x), nvidia_gpu_exporter and
# AMD's device-metrics-exporter, omnistat and amd_smi_exporter.
_NODE = ("Hostname", "hostname", "node", "exported_node")
_UUID = ("UUID", "uuid", "gpu_uuid")
_SERIAL = ("serial_number",)
# amd_smi_exporter calls the label like the metric.
_POSITION = (
    "card", "gpu_power_avg", "gpu_power", "gpu_power_cap", "gpu_current_temperature", "gpu_SCLK",
    "gpu_MCLK", "gpu_use_percent", "gpu_memory_use_percent",
)  # fmt: skip
_INDEX = ("gpu", "gpu_id", "index", *_POSITION)
_MODEL = ("modelName", "model_name", "card_series", "productname", "card_model")
# Labels of that meaning on the one series that introduces a GPU (nvidia_gpu_exporter, omnistat), which has
# some of these too; elsewhere they name other things.
_INTRODUCTION = ("vbios_version", "vbios", "driver_version", "driver_model_current", "index")
_INTRODUCED_MODEL = ("type", "name")
_MIG_INSTANCE = ("GPU_I_ID", "gpu_i_id")
_MIG_PROFILE = ("GPU_I_PROFILE", "gpu_i_profile")
_LINK = ("nvlink",)
# A series with one of these measures something else than a GPU as a whole.
_PART = (*_LINK, "nvswitch", "cpu", "cpucore", "pid")
# An AMD GPU in this mode is one; in others each compute partition counts as an instance.
_WHOLE = ("", "spx")
# Stands in gpu_uuid before the index of a GPU that only its place names.
CARD = "CARD:"
_BARE_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class Series:
    """What labels say; None where they say nothing (an empty label counts as absent).

    `gpu_uuid` is None for series that measure a part or no GPU at all; `labels` is JSON.

    identity  how the GPU is named: "uuid"; "serial", by the number of its board, where AMD's
              exporter leaves the UUID out; "position", by its index on the node, which then stands
              in gpu_uuid as CARD:index
    link      number of the NVLink it measures
    """

    node: str | None
    gpu_uuid: str | None
    identity: str
    gpu_index: int | None
    gpu_model: str | None
    mig_instance: str
    mig_profile: str | None
    link: int | None
    is_part: bool
    labels: str


def canonical_uuid(text: str) -> str:
    """A GPU's UUID as the driver prints it, in lower case; some tools leave out the prefix GPU-."""
    bare = text[4:] if text[:4].upper() == "GPU-" else text
    return f"GPU-{bare.lower()}" if _BARE_UUID.fullmatch(bare) else text


@lru_cache(maxsize=1 << 14)
def series_of(labels_text: str) -> Series:
    """The series that a label text (as `labels_of` reads it) describes."""
    labels = dict(labels_of(labels_text) or ())

    def first(names: tuple[str, ...]) -> str | None:
        return next((labels[name] for name in names if labels.get(name)), None)

    uuid, identity = _who(labels, first)
    is_whole = labels.get("gpu_compute_partition_type", "").lower() in _WHOLE
    return Series(
        node=first(_NODE),
        gpu_uuid=uuid,
        identity=identity,
        gpu_index=_number(first(_INDEX)),
        gpu_model=first(_MODEL) or (first(_INTRODUCED_MODEL) if first(_INTRODUCTION) else None),
        mig_instance=first(_MIG_INSTANCE)
        or ("" if is_whole else labels.get("gpu_partition_id", "")),
        mig_profile=first(_MIG_PROFILE)
        or (None if is_whole else labels["gpu_compute_partition_type"]),
        link=_number(first(_LINK)),
        is_part=first(_PART) is not None,
        labels=json.dumps(labels, sort_keys=True, ensure_ascii=False, separators=(",", ":")),
    )


def _who(
    labels: Mapping[str, str], first: Callable[[tuple[str, ...]], str | None]
) -> tuple[str | None, str]:
    """What stands in gpu_uuid, and how the GPU is named."""
    uuid, serial, position = first(_UUID), first(_SERIAL), _number(first(_POSITION))
    if uuid:
        return canonical_uuid(uuid), "uuid"
    if serial:
        return serial_uuid(serial), "serial"
    if position is not None and "gpu" not in labels:
        return f"{CARD}{position}", "position"
    return None, "uuid"


def serial_uuid(serial: str) -> str:
    """What stands in gpu_uuid for a GPU that only its board's serial number names."""
    return f"SERIAL-{serial}"


def _number(text: str | None) -> int | None:
    """A small number; labels hold text."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 6 else None


def series_frame(labels: pl.Series) -> pl.DataFrame:
    """The distinct label texts of a chunk with what they say.

    series   number of the label text
    entity   number of the MIG instance or GPU it measures; `gpu` is the one of the whole GPU.
             Equal for label texts that differ in other labels (pods, error texts) only
    is_gpu   it measures a GPU or an instance of one, and names it
    is_link  it measures one NVLink of a GPU it names
    lost     it does not say which GPU, and names no other part either; or it says so by the number
             of a board that holds several
    """
    texts = labels.unique(maintain_order=True)
    found = _introduced([series_of(text) for text in texts])
    numbers: dict[tuple[object, ...], int] = {}
    gpus, entities = [], []
    for one in found:
        gpu = (one.node, one.gpu_uuid, one.gpu_index, one.gpu_model)
        gpus.append(numbers.setdefault((*gpu, "", None), len(numbers)))
        instance = (*gpu, one.mig_instance, one.mig_profile)
        entities.append(numbers.setdefault(instance, len(numbers)))
    shared = _shared_boards(found)
    lost = [not s.is_part and (s.gpu_uuid is None or s.gpu_uuid in shared) for s in found]
    return pl.DataFrame(
        {
            "labels": texts,
            "series": pl.int_range(len(found), dtype=pl.UInt32, eager=True),
            "gpu": pl.Series(gpus, dtype=pl.UInt32),
            "entity": pl.Series(entities, dtype=pl.UInt32),
            "is_gpu": pl.Series(
                [not s.is_part and not no for s, no in zip(found, lost, strict=True)]
            ),
            "lost": pl.Series(lost),
            "node": pl.Series([s.node for s in found], dtype=pl.String),
            "gpu_uuid": pl.Series([s.gpu_uuid for s in found], dtype=pl.String),
            "identity": pl.Series([s.identity for s in found], dtype=pl.String),
            "gpu_index": pl.Series([s.gpu_index for s in found], dtype=pl.Int32),
            "gpu_model": pl.Series([s.gpu_model for s in found], dtype=pl.String),
            "mig_instance": pl.Series([s.mig_instance for s in found], dtype=pl.String),
            "mig_profile": pl.Series([s.mig_profile for s in found], dtype=pl.String),
            "link": pl.Series([s.link for s in found], dtype=pl.Int32),
            "is_link": pl.Series([s.link is not None and s.gpu_uuid is not None for s in found]),
            "labels_json": pl.Series([s.labels for s in found], dtype=pl.String),
        },
        schema_overrides=dict.fromkeys(("is_gpu", "is_link", "lost"), pl.Boolean),
    )


def _introduced(found: Sequence[Series]) -> list[Series]:
    """Series with the index and model that another series of the same GPU gives.

    nvidia_gpu_exporter prints both on one series and only the UUID on the others. Where series of
    one GPU differ (it was renumbered between two pages), nothing is passed on.
    """
    indexes: dict[tuple[str | None, str | None], set[int]] = {}
    models: dict[tuple[str | None, str | None], set[str]] = {}
    for one in found:
        if one.gpu_index is not None:
            indexes.setdefault((one.node, one.gpu_uuid), set()).add(one.gpu_index)
        if one.gpu_model is not None:
            models.setdefault((one.node, one.gpu_uuid), set()).add(one.gpu_model)

    def introduced(one: Series) -> Series:
        who = (one.node, one.gpu_uuid)
        index, model = indexes.get(who, set()), models.get(who, set())
        gpu_index = one.gpu_index if len(index) != 1 else min(index)
        gpu_model = one.gpu_model if len(model) != 1 else min(model)
        if (gpu_index, gpu_model) == (one.gpu_index, one.gpu_model):
            return one
        return replace(one, gpu_index=gpu_index, gpu_model=gpu_model)

    return [introduced(one) if one.gpu_uuid and not one.is_part else one for one in found]


def _shared_boards(found: Sequence[Series]) -> set[str]:
    """Serial numbers that stand for several GPUs of one node: an MI250X has two on a board."""
    indexes: dict[tuple[str | None, str, str], set[int | None]] = {}
    for one in found:
        if one.identity == "serial" and one.gpu_uuid and one.gpu_index is not None:
            place = (one.node, one.gpu_uuid, one.mig_instance)
            indexes.setdefault(place, set()).add(one.gpu_index)
    return {uuid for (_, uuid, _), seen in indexes.items() if len(seen) > 1}


def entity_frame(series: pl.DataFrame) -> pl.DataFrame:
    """GPUs and instances by number: who they are."""
    who = ("node", "gpu_uuid", "gpu_index", "gpu_model")
    whole = (pl.lit("").alias("mig_instance"), pl.lit(None, pl.String).alias("mig_profile"))
    parts = series.select("entity", *who, "mig_instance", "mig_profile")
    gpus = series.select(pl.col("gpu").alias("entity"), *who, *whole)
    return pl.concat([parts, gpus]).unique("entity", keep="first", maintain_order=True)
