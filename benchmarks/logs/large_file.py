"""Memory of an ingest: a file of 2 GiB must not need 1 GiB."""

from __future__ import annotations

from pathlib import Path

from ..lake import ingest_access_lines
from ..workload import Workload
from .access_lines import write_bytes

FILE_BYTES = 2 << 30
PEAK_LIMIT_BYTES = 1 << 30


def prepare(folder: Path, _scale: float) -> Path:
    """A file of S3 access lines of 2 GiB, whatever the scale: its memory is what counts."""
    return write_bytes(folder / "large.log", FILE_BYTES)


LARGE_FILE = Workload(
    name="large_file",
    doc="2 GiB of S3 access lines through `fleetmark ingest` into a new lake: parsed, gated, "
    "checked for repeats, committed chunk by chunk",
    unit="lines",
    prepare=prepare,
    run=ingest_access_lines,
    peak_limit_bytes=PEAK_LIMIT_BYTES,
    rounds=1,
    grows=False,
)
