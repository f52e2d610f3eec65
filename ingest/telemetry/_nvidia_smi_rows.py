"""Captures of nvidia-smi as rows of gpu_sample, gpu_sample_extra and gpu_identity."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import polars as pl

from fleetmark.table import TYPES

from ..tables.gpu_identity import GPU_IDENTITY
from ._gpu_series import canonical_uuid
from ._kernel_event import address
from ._nvidia_smi_blocks import Block, Capture, Gpu, identity, readings
from ._sample_rows import extra_rows, wide_rows
from ._signals import REGISTRY

_NO_UUID = "the GPU has no UUID here ({!r}): take the whole output of nvidia-smi -q, without -d"
_TWICE = "another GPU of this capture has the same UUID: it was masked"
_NO_INSTANCE = "a MIG device without GPU Instance ID: is the capture cut?"
_LIMITS = pl.DataFrame(
    [(n, s.table, s.min, s.max, s.instance, s.zero) for n, s in enumerate(REGISTRY)],
    schema={
        "signal": pl.UInt16(), "table": pl.String(), "min": pl.Float64(), "max": pl.Float64(),
        "instance": pl.Boolean(), "zero": pl.String(),
    },
    orient="row",
)  # fmt: skip
_SAMPLES = {
    "line_no": pl.Int64(), "page": pl.UInt32(), "series": pl.UInt32(), "signal": pl.UInt16(),
    "value": pl.Float64(), "value_text": pl.String(), "reason": pl.String(),
}  # fmt: skip
_SERIES = {
    "series": pl.UInt32(), "gpu": pl.UInt32(), "entity": pl.UInt32(), "node": pl.String(),
    "gpu_uuid": pl.String(), "gpu_index": pl.Int32(), "gpu_model": pl.String(),
    "mig_instance": pl.String(), "mig_profile": pl.String(), "labels_json": pl.String(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Placed:
    """A capture whose time and node are known."""

    capture: Capture
    ts: datetime
    node: str


@dataclass(slots=True)
class _Collected:
    samples: list[tuple[object, ...]]
    series: list[tuple[object, ...]]
    identities: list[dict[str, object]]
    refused: list[tuple[int, str]]


def rows_of(placed: Sequence[Placed]) -> tuple[dict[str, pl.DataFrame], list[tuple[int, str]]]:
    """Rows by table (without `cluster`), and (line_no, reason) of GPUs that cannot be kept."""
    found = _Collected([], [], [], [])
    for page, one in enumerate(placed):
        _collect(found, page, one)
    samples = (
        pl.DataFrame(found.samples, schema=_SAMPLES, orient="row")
        .join(_LIMITS, on="signal", how="left", maintain_order="left")
        .with_columns(factor=pl.lit(1.0), own_ts=pl.lit(None, pl.Datetime("us")), name=pl.lit(""))
    )
    series = pl.DataFrame(found.series, schema=_SERIES, orient="row")
    pages = pl.DataFrame(
        [(page, one.ts, one.node, None) for page, one in enumerate(placed)],
        schema={
            "page": pl.UInt32(), "page_ts": pl.Datetime("us"), "page_node": pl.String(), "problem": pl.String(),
        },
        orient="row",
    )  # fmt: skip
    wide = pl.col("table") == "gpu_sample"
    schema = {c.name: TYPES[c.type] for c in GPU_IDENTITY.columns if c.name != "cluster"}
    identities = pl.DataFrame(found.identities, schema={**schema, "line_no": pl.Int64()})
    return {
        "gpu_sample": wide_rows(samples.filter(wide), series, pages),
        "gpu_sample_extra": extra_rows(samples.filter(~wide), series, pages),
        "gpu_identity": identities.with_columns(address(pl.col("pci_bus_id")).alias("pci_bus_id")),
    }, found.refused


def _collect(found: _Collected, page: int, one: Placed) -> None:
    seen: set[str] = set()
    for gpu in one.capture.gpus:
        facts = identity(gpu.whole)
        uuid = facts["gpu_uuid"]
        problem = gpu.problem or _uuid_problem(gpu, uuid, seen)
        if problem or not isinstance(uuid, str):
            found.refused.append((gpu.whole.line_no, problem or _NO_UUID.format(uuid)))
            continue
        seen.add(uuid)
        facts["gpu_uuid"] = canonical_uuid(uuid)
        number = len(found.series)
        for block in gpu.blocks:
            if block is not gpu.whole and not block.instance:
                found.refused.append((block.line_no, _NO_INSTANCE))
                continue
            who = (one.node, facts["gpu_uuid"], gpu.index, facts["gpu_model"])
            series = len(found.series)
            found.series.append(_series(series, number, who, block))
            found.samples += _samples(page, series, block)
        found.identities.append(
            {"line_no": gpu.whole.line_no, "ts": one.ts, "node": one.node, "gpu_index": gpu.index}
            | facts
        )


def _uuid_problem(gpu: Gpu, uuid: object, seen: set[str]) -> str | None:
    if uuid is None:
        said = gpu.whole.cells.get("GPU UUID") or gpu.whole.cells.get("uuid")
        return _NO_UUID.format(said.text if said else None)
    return _TWICE if uuid in seen else None


def _series(series: int, gpu: int, who: tuple[object, ...], block: Block) -> tuple[object, ...]:
    said = {"gpu_uuid": who[1]} | ({"mig_instance": block.instance} if block.instance else {})
    labels = json.dumps(said, separators=(",", ":"))
    return (series, gpu, series, *who, block.instance, None, labels)


def _samples(page: int, series: int, block: Block) -> Iterator[tuple[object, ...]]:
    for one in readings(block):
        yield (one.line_no, page, series, one.signal, one.value, "", one.reason)
