"""S3 access lines: text file to typed Parquet, and the whole ingest into a lake."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.files import split_lines
from fleetmark.pipeline.lines import CHUNK_BYTES
from fleetmark.pipeline.write import gate
from fleetmark.source import Context

from ..lake import ingest_access_lines
from ..workload import Goal, Workload
from .access_lines import LINES, write_lines


def prepare(folder: Path, scale: float) -> Path:
    """2 million lines at scale 1; shared by the workloads of this file."""
    return write_lines(folder / "access.log", round(LINES * scale))


def load(path: Path) -> tuple[Path, Catalog]:
    """The file, and the definitions: imported before the clock starts."""
    return path, load_catalog()


def to_parquet(given: tuple[Path, Catalog]) -> int:
    """Chunk by chunk as the ingest does it: split, parse, gate by the contract, write.

    Raises RuntimeError unless every line became a row: all of them are good.
    """
    path, catalog = given
    count = 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES) + file.readline():
            rows = _typed_rows(catalog, chunk, count)
            part = path.with_name(f"part-{count}.parquet")
            rows.write_parquet(part, compression="zstd", compression_level=3)
            count += rows.height
    return count


def _typed_rows(catalog: Catalog, chunk: bytes, before: int) -> pl.DataFrame:
    context = Context("access.log", {"cluster": "bench"})
    lines, damaged = split_lines(chunk, before + 1)
    parsed = catalog.sources["s3_access"].parse(lines, context)  # type: ignore[arg-type]  # lines
    found = parsed.tables["storage_access"].lazy().collect()
    fit = gate(catalog.tables["storage_access"], found, "bench", lines)
    bad = damaged.height + parsed.rejects.height + fit.rejects.height
    if bad or fit.rows.height != lines.height:
        raise RuntimeError(f"{bad} rejects and {fit.rows.height} rows of {lines.height} lines")
    return fit.rows


TO_PARQUET = Workload(
    name="s3_access",
    doc="S3 access lines (7 of 10 ordinary, 3 of 10 awkward), text file to Parquet with every "
    "column of storage_access typed and gated",
    unit="lines",
    prepare=prepare,
    load=load,
    run=to_parquet,
    goals=(Goal("x REF", 0.8, 1.2),),
)

INTO_LAKE = Workload(
    name="s3_access_ingest",
    doc="The same file through `fleetmark ingest` into a new lake: parsed, gated, checked for "
    "repeats, committed chunk by chunk; the command's start included",
    unit="lines",
    prepare=prepare,
    run=ingest_access_lines,
)
