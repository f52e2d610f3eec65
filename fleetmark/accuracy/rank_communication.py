"""Slow NICs, slow links and hangs of simulated jobs: which are found, and who is accused wrongly.

The scenario `communication` states causes and benign twins; its records are read by the sources and judged
by the shipped detectors. A fault is found by a finding of its kind for its job that names the right process,
pair of processes or rank, and nobody else; every other finding of that kind is false.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import polars as pl

from fleetmark.accuracy.frames import judged
from fleetmark.accuracy.interval import Measured, exact, share
from fleetmark.catalog import load_catalog
from fleetmark.testing import parse_file, source_rows

NODES = 4
KINDS = {
    "slow_nic": "slow_nic",
    "slow_link": "slow_link",
    "dead_gpu": "hang",
    "blocked_host": "hang",
}
SOURCES = {"nccl": "nccl_inspector", "flight_recorder": "flight_recorder"}
FINDINGS = """
SELECT kind, job_id[1]::BIGINT AS job_id, evidence ->> 'cause' AS cause,
    coalesce(evidence ->> 'element', 'rank ' || array_to_string(rank, ' ')) AS accused
FROM finding
"""


def figures(seed: int, jobs: int, folder: Path) -> Mapping[str, Measured]:
    """Precision and recall per cause over a number of simulated jobs, one a day."""
    import_module("fleetmark.simulate").run("communication", folder, seed, NODES, jobs)
    truth = pl.read_csv(folder / "truth" / "comm_job.csv")
    with judged(load_catalog(), ("slow_link", "hang"), _tables(folder / "raw")) as connection:
        findings = connection.sql(FINDINGS).pl()
    faults = truth.filter(pl.col("accused").is_not_null()).with_columns(
        pl.col("cause").replace_strict(KINDS).alias("kind")
    )
    right = findings.join(faults, on=["kind", "job_id", "accused"], how="semi")
    twins = truth.filter(pl.col("accused").is_null())
    measured = {
        f"recall_{cause}": share(
            part.join(right, on=["kind", "job_id"], how="semi").height, part.height
        )
        for (cause,), part in faults.group_by("cause")
    } | {
        f"precision_{kind}": share(
            right.filter(kind=kind).height, findings.filter(kind=kind).height
        )
        for kind in sorted(set(KINDS.values()))
    }
    causes = right.filter(kind="hang").join(faults, on="job_id", suffix="_right")
    alarms = twins.join(findings, on="job_id", how="semi").height
    return measured | {
        "hang_cause_right": share(
            causes.filter(pl.col("cause") == pl.col("cause_right")).height, causes.height
        ),
        "communication_twins_accused": exact(alarms, twins.height),
    }


def _tables(raw: Path) -> dict[str, pl.DataFrame]:
    catalog = load_catalog()
    parts: dict[str, list[pl.DataFrame]] = {}
    for folder, name in SOURCES.items():
        source = catalog.sources[name]
        for path in sorted((raw / folder).glob("*/*")):
            rows, _ = source_rows(
                source, parse_file(source, path, cluster="sim", job_id=path.parent.name)
            )
            for table, frame in rows.items():
                parts.setdefault(table, []).append(frame)
    return {table: pl.concat(frames) for table, frames in parts.items()}
