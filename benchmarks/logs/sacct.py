"""Slurm accounting text: 109 columns of `sacct --parsable2` to typed Parquet."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import polars as pl

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.files import split_lines
from fleetmark.pipeline.lines import CHUNK_BYTES
from fleetmark.pipeline.write import gate
from fleetmark.source import Context, Parsed

from ..workload import Goal, Work, Workload

ROWS = 1_000_000
BLOCK = 10_000
SAMPLES = files("fleetmark.samples") / "scheduler"
OPTIONS = {"cluster": "bench", "tz": "UTC", "delimiter": "|"}


def prepare(folder: Path, scale: float) -> Path:
    """The 68 real rows of 109 columns in turn, each with a job id of its own.

    Every second one carries the resources of a real GPU job of Slurm 22.05 in place of its own.
    """
    count = round(ROWS * scale)
    path = folder / f"sacct-{count}.txt"
    if path.exists():
        return path
    header, *rows = (SAMPLES / "slurm-gcm" / "sacct_parsable2_steps.txt").read_text().splitlines()
    names = header.split("|")
    job, raw, tres = (names.index(name) for name in ("JobID", "JobIDRaw", "AllocTRES"))
    gpus = _gpu_resources()
    templates = []
    for number, row in enumerate(rows):
        cells = row.replace("%", "%%").split("|")
        cells[job], cells[raw] = "%d." + cells[job].rpartition(".")[2], "%d"
        if number % 2:
            cells[tres] = gpus[number % len(gpus)]
        templates.append("|".join(cells) + "\n")
    made = path.with_suffix(".part")
    with made.open("w", encoding="utf-8") as file:
        file.write(header + "\n")
        for start in range(0, count, BLOCK):
            ids = range(start, min(start + BLOCK, count))
            file.writelines(templates[n % len(templates)] % (n + 1, n + 1) for n in ids)
    made.rename(path)
    return path


def _gpu_resources() -> list[str]:
    """AllocTRES of the attempts of the Slurm 22.05 sample that hold GPUs."""
    text = (SAMPLES / "slurm-22.05" / "sacct-parsable2-allocations.txt").read_text()
    header, *rows = text.splitlines()
    at = header.split("|").index("AllocTRES")
    cells = [row.split("|") for row in rows]
    return [c[at] for c in cells if len(c) > at and "gres/gpu=" in c[at]]


def load(path: Path) -> tuple[Path, Catalog]:
    """The file, and the definitions: imported before the clock starts."""
    return path, load_catalog()


def to_parquet(given: tuple[Path, Catalog]) -> Work:
    """Chunk by chunk as the ingest does it: split, parse, gate by the contract, write.

    Raises RuntimeError unless every line but the header became a row: all of them are good.
    """
    path, catalog = given
    count, before = 0, 0
    held = pl.DataFrame(schema={"line_no": pl.Int64, "text": pl.String})
    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.readline().decode().rstrip("\n")
        file.seek(0)
        while chunk := file.read(CHUNK_BYTES) + file.readline():
            fresh, _ = split_lines(chunk, before + 1)
            before += fresh.height
            lines = pl.concat([held, fresh])
            context = Context(path.name, OPTIONS, first, at_end=file.tell() >= size)
            parsed = catalog.sources["sacct"].parse(lines, context)  # type: ignore[arg-type]  # lines
            held = lines.clear()
            if parsed.held_from is not None:
                held = lines.filter(pl.col("line_no") >= parsed.held_from)
            count += _write(catalog, parsed, lines, path.with_name(f"sacct-part-{before}.parquet"))
    if count != before - 1:
        raise RuntimeError(f"{count} rows of {before - 1} lines")
    size = sum(part.stat().st_size for part in path.parent.glob("sacct-part-*.parquet"))
    return Work(count, {"bytes a row": size / count})


def _write(catalog: Catalog, parsed: Parsed, lines: pl.DataFrame, part: Path) -> int:
    """Gate and write the steps (the real rows are steps); how many."""
    found = parsed.tables["job_step"].lazy().collect()
    fit = gate(catalog.tables["job_step"], found, "bench", lines)
    if parsed.rejects.height or fit.rejects.height:
        raise RuntimeError(f"{parsed.rejects.height + fit.rejects.height} rejects")
    fit.rows.write_parquet(part, compression="zstd", compression_level=3)
    return fit.rows.height


TO_PARQUET = Workload(
    name="sacct",
    doc="1 M rows of sacct text, 109 columns, half of them with GPUs: text file to Parquet with every "
    "column of job_step typed and gated. A widely used parser of the same rows in Python runs at 0.18 REF",
    unit="rows",
    prepare=prepare,
    load=load,
    run=to_parquet,
    goals=(Goal("x REF", 0.6, 0.9),),
    peak_limit_bytes=500 << 20,
)
