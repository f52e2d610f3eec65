"""Answers of Prometheus' remote read: message to typed, wide rows."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pyarrow as pa

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.prometheus import sized, varint
from fleetmark.pipeline.write import gate
from fleetmark.source import Context

from ..workload import Goal, Workload
from .exposition import METRICS

GPUS = 256
SCRAPES = 240
SEED = 5
_START_MS = 1_774_008_000_000
_STEP_MS = 15_000


def time_series(labels: Mapping[str, str], samples: Iterable[tuple[float, int]]) -> bytes:
    """prompb.TimeSeries of samples (value, time in ms), as Go writes it: a 0 is left out."""
    head = b"".join(
        sized(1, sized(1, k.encode()) + sized(2, v.encode())) for k, v in sorted(labels.items())
    )
    points = (
        sized(2, (b"\x09" + struct.pack("<d", v) if v != 0 else b"") + b"\x10" + varint(t))
        for v, t in samples
    )
    return head + b"".join(points)


def snappy(*messages: bytes) -> bytes:
    """A message with these in field 1, in a snappy block: of time series a QueryResult or
    WriteRequest, of QueryResults a ReadResponse.
    """
    body = b"".join(sized(1, message) for message in messages)
    return bytes(pa.Codec("snappy").compress(body, asbytes=True))


def answer(*several: bytes) -> bytes:
    """prompb.ReadResponse with one result of these time series, in a snappy block."""
    return snappy(b"".join(sized(1, one) for one in several))


def _series(scale: float) -> Iterator[tuple[dict[str, str], list[tuple[float, int]]]]:
    """Labels and samples (value, time in ms) of each series."""
    draw = random.Random(SEED)  # noqa: S311 - seeded randomness is the point
    times = [_START_MS + _STEP_MS * scrape for scrape in range(SCRAPES)]
    for name in METRICS[:20]:
        for gpu in range(max(1, round(GPUS * scale))):
            labels = {
                "__name__": name, "gpu": str(gpu % 8), "device": f"nvidia{gpu % 8}",
                "UUID": f"GPU-6d5c0ac5-74d7-3130-{gpu:04x}-e93ed57f46aa",
                "Hostname": f"gpu-node-{gpu // 8:04}", "modelName": "NVIDIA H100 80GB HBM3",
                "DCGM_FI_DRIVER_VERSION": "590.48.01", "instance": "10.0.0.7:9400", "job": "dcgm",
            }  # fmt: skip
            yield labels, [(float(draw.randrange(2)), t) for t in times]


def prepare(folder: Path, scale: float) -> Path:
    """20 metrics of 256 GPUs over an hour at 15 s: 1,228,800 samples at scale 1."""
    path = folder / "answer.read"
    path.write_bytes(answer(*(time_series(*one) for one in _series(scale))))
    return path


def load(path: Path) -> tuple[bytes, Catalog]:
    """The answer, and the definitions: imported before the clock starts."""
    return path.read_bytes(), load_catalog()


def to_rows(given: tuple[bytes, Catalog]) -> int:
    """Decode, place and gate. Raises RuntimeError unless every sample became a value."""
    content, catalog = given
    context = Context("answer.read", {"cluster": "bench", "node_label": ""})
    parsed = catalog.sources["prometheus_read"].parse(content, context)  # type: ignore[arg-type]  # document
    rows = parsed.tables["gpu_sample"].lazy().collect()
    fit = gate(catalog.tables["gpu_sample"], rows, "bench", parsed.rejects)
    units = [c.name for c in catalog.tables["gpu_sample"].columns if c.unit]
    flaws = int(fit.rows["quality"].list.len().sum())
    values = fit.rows.height * len(units) - sum(fit.rows.select(units).null_count().row(0)) + flaws
    if values != fit.rows.height * 20 or parsed.rejects.height:
        raise RuntimeError(f"{values} values of {fit.rows.height * 20} samples")
    return int(values)


def prepare_json(folder: Path, scale: float) -> Path:
    """The same series as `query_range` answers them, in JSON."""
    path = folder / "answer.json"
    path.write_text(json.dumps([
        {"metric": labels, "values": [[t / 1000, f"{v:g}"] for v, t in samples]}
        for labels, samples in _series(scale)
    ]), encoding="utf-8")  # fmt: skip
    return path


def to_frame(path: Path) -> int:
    """prometheus-api-client's frame of the answer: rows."""
    frame = import_module("prometheus_api_client").MetricRangeDataFrame
    return len(frame(json.loads(path.read_text(encoding="utf-8"))))


FRAME = Workload(
    name="range_frame",
    doc="the same series as `query_range` JSON through prometheus-api-client's MetricRangeDataFrame",
    unit="samples",
    prepare=prepare_json,
    run=to_frame,
    peer="pandas",
)
REMOTE_READ = Workload(
    name="remote_read",
    doc="an answer of Prometheus' remote read (20 metrics of 256 GPUs, an hour at 15 s) to rows of "
    "gpu_sample, typed and gated; the peer reads the same series from `query_range`, which Fleetmark does not use: it resamples",
    unit="samples",
    prepare=prepare,
    load=load,
    run=to_rows,
    goals=(Goal("x REF"), Goal("x MetricRangeDataFrame", 3, 4.5, beside=FRAME.name)),
    peak_limit_bytes=400 << 20,
)
