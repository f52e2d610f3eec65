"""Kineto traces of eight ranks: gzipped JSON to typed rows, as straggler ranking needs them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.files import Content
from fleetmark.source import Context, Source
from fleetmark.testing import source_rows

from ..workload import Goal, Workload

SAMPLE = Path(__file__).resolve().parents[2] / "samples/collectives/kineto/sampled_rank-0.json.gz"
RANKS = 8
# HolisticTraceAnalysis reads 28,000 events per CPU second where REF does 225,000 lines: 0.124 REF.
# A fifth of its CPU (required) is then 0.62 REF, 0.08 of it (aim) 1.55 REF.
EVENTS = 109_123  # of one rank in the trace that HolisticTraceAnalysis is measured on
STEP_US = 4_000_000  # longer than the sample's two steps: copies do not overlap
PEAK_LIMIT_BYTES = 256 << 20


def prepare(folder: Path, scale: float) -> Path:
    """A folder with a file per rank: the sample's events repeated, later each time."""
    target = folder / f"kineto-{scale:g}"
    if target.exists():
        return target
    target.mkdir()
    trace = json.loads(gzip.decompress(SAMPLE.read_bytes()))
    events = trace["traceEvents"]
    wanted = round(EVENTS * scale)
    trace["traceEvents"] = [
        _later(events[n % len(events)], n // len(events)) for n in range(wanted)
    ]
    for rank in range(RANKS):
        trace["distributedInfo"]["rank"] = rank
        text = json.dumps(trace).encode()
        (target / f"rank-{rank}.json.gz").write_bytes(gzip.compress(text, 6))
    return target


def _later(event: dict[str, Any], copy: int) -> dict[str, Any]:
    return {**event, "ts": event["ts"] + copy * STEP_US} if "ts" in event else event


def load(folder: Path) -> tuple[list[Path], Source]:
    """The files, and the source: imported before the clock starts."""
    return sorted(folder.iterdir()), load_catalog().sources["kineto"]


def rank_stragglers(given: tuple[list[Path], Source]) -> int:
    """Read every rank's trace, then order the ranks by compute time against the median of a step.

    Counts events. Raises RuntimeError unless every event became a row or was passed over: all of
    them are good.
    """
    paths, source = given
    counts, steps = zip(*(_steps_of(path, source) for path in paths), strict=True)
    ratio = pl.col("compute_s") / pl.col("compute_s").median().over("step")
    ranking = pl.concat(steps).group_by("rank").agg(ratio.median().alias("ratio"))
    if ranking.sort("ratio", descending=True).height != RANKS:
        raise RuntimeError("a rank is missing from the ranking")
    return sum(counts)


def _steps_of(path: Path, source: Source) -> tuple[int, pl.DataFrame]:
    """Events and steps of one file, read as the ingest does: unpack, parse, gate by contracts."""
    content = Content(path)
    data = content.read(PEAK_LIMIT_BYTES)
    content.close()
    options = {"cluster": "bench", "job_id": "j", "attempt": "1"}
    parsed = source.parse(data, Context(path.name, options))  # type: ignore[arg-type]  # a document
    rows, refused = source_rows(source, parsed)
    if refused.height:
        raise RuntimeError(f"{path.name}: {refused.height} events are refused")
    steps = rows["step_sample"].select("rank", "step", "compute_s")
    return parsed.skipped + rows["trace_span"].height, steps


KINETO = Workload(
    name="kineto",
    doc="PyTorch profiler traces of 8 ranks x 109,123 events (the public trace of one rank, "
    "repeated), gzipped JSON to gated rows of trace_span and step_sample, and ranks by compute time",
    unit="events",
    prepare=prepare,
    load=load,
    run=rank_stragglers,
    goals=(Goal("x REF", 0.62, 1.55),),
    peak_limit_bytes=PEAK_LIMIT_BYTES,
)
