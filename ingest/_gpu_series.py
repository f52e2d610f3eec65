"""Which GPU (or MIG instance, link, switch) a series of an exporter belongs to, from its labels."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from ._exposition import labels_of

# Spellings over the versions of dcgm-exporter (GPU series; link series; 1.x) and nvidia_gpu_exporter.
_NODE = ("Hostname", "hostname", "node")
_UUID = ("UUID", "uuid", "gpu_uuid")
_INDEX = ("gpu",)
_MODEL = ("modelName", "model_name")
_MIG_INSTANCE = ("GPU_I_ID", "gpu_i_id")
_MIG_PROFILE = ("GPU_I_PROFILE", "gpu_i_profile")
# A series with one of these measures something else than a GPU as a whole.
_PART = ("nvlink", "nvswitch", "cpu", "cpucore", "pid")
_BARE_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


@dataclass(frozen=True, slots=True)
class Series:
    """What labels say; None where they say nothing (an empty label counts as absent).

    `gpu_uuid` is None for series that measure a part or no GPU at all; `labels` is JSON.
    """

    node: str | None
    gpu_uuid: str | None
    gpu_index: int | None
    gpu_model: str | None
    mig_instance: str
    mig_profile: str | None
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

    uuid = first(_UUID)
    index = first(_INDEX)
    return Series(
        node=first(_NODE),
        gpu_uuid=canonical_uuid(uuid) if uuid else None,
        gpu_index=int(index)
        if index and index.isascii() and index.isdigit() and len(index) < 6
        else None,
        gpu_model=first(_MODEL),
        mig_instance=first(_MIG_INSTANCE) or "",
        mig_profile=first(_MIG_PROFILE),
        is_part=first(_PART) is not None,
        labels=json.dumps(labels, sort_keys=True, ensure_ascii=False, separators=(",", ":")),
    )


def series_frame(labels: pl.Series) -> pl.DataFrame:
    """The distinct label texts of a chunk with what they say.

    series   number of the label text
    entity   number of the MIG instance or GPU it measures; `gpu` is the one of the whole GPU.
             Equal for label texts that differ in other labels (pods, error texts) only
    is_gpu   it measures a GPU or an instance of one, and names it
    lost     it does not say which GPU, and names no other part either
    """
    texts = labels.unique(maintain_order=True)
    found = [series_of(text) for text in texts]
    numbers: dict[tuple[object, ...], int] = {}
    gpus, entities = [], []
    for one in found:
        gpu = (one.node, one.gpu_uuid, one.gpu_index, one.gpu_model)
        gpus.append(numbers.setdefault((*gpu, "", None), len(numbers)))
        instance = (*gpu, one.mig_instance, one.mig_profile)
        entities.append(numbers.setdefault(instance, len(numbers)))
    return pl.DataFrame(
        {
            "labels": texts,
            "series": pl.int_range(len(found), dtype=pl.UInt32, eager=True),
            "gpu": pl.Series(gpus, dtype=pl.UInt32),
            "entity": pl.Series(entities, dtype=pl.UInt32),
            "is_gpu": pl.Series([not s.is_part and s.gpu_uuid is not None for s in found]),
            "lost": pl.Series([not s.is_part and s.gpu_uuid is None for s in found]),
            "node": pl.Series([s.node for s in found], dtype=pl.String),
            "gpu_uuid": pl.Series([s.gpu_uuid for s in found], dtype=pl.String),
            "gpu_index": pl.Series([s.gpu_index for s in found], dtype=pl.Int32),
            "gpu_model": pl.Series([s.gpu_model for s in found], dtype=pl.String),
            "mig_instance": pl.Series([s.mig_instance for s in found], dtype=pl.String),
            "mig_profile": pl.Series([s.mig_profile for s in found], dtype=pl.String),
            "labels_json": pl.Series([s.labels for s in found], dtype=pl.String),
        },
        schema_overrides={"is_gpu": pl.Boolean, "lost": pl.Boolean},
    )


def entity_frame(series: pl.DataFrame) -> pl.DataFrame:
    """GPUs and instances by number: who they are."""
    who = ("node", "gpu_uuid", "gpu_index", "gpu_model")
    whole = (pl.lit("").alias("mig_instance"), pl.lit(None, pl.String).alias("mig_profile"))
    parts = series.select("entity", *who, "mig_instance", "mig_profile")
    gpus = series.select(pl.col("gpu").alias("entity"), *who, *whole)
    return pl.concat([parts, gpus]).unique("entity", keep="first", maintain_order=True)
