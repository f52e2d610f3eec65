"""Hangs that only NCCL's monitor (RAS) tells of, in simulated jobs: who is named, and why.

The scenario `monitor` states causes and benign twins. A fault is found by a finding of a hang for its job that
names its process and no other; every other finding is false. The monitor counts what hosts issue, so a stuck
device has nobody that is right to name.
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

NODES = 2
CAUSES = ("dead_process", "blocked_host")
FINDINGS = """
SELECT
    job_id[1]::BIGINT AS job_id, evidence ->> 'cause' AS cause,
    array_to_string(evidence ->> '$.ranks[*].figures.process', ' ') AS accused
FROM finding
WHERE kind = 'hang'
"""


def figures(seed: int, jobs: int, folder: Path) -> Mapping[str, Measured]:
    """Precision and recall over a number of simulated jobs, one a day."""
    import_module("fleetmark.simulate").run("monitor", folder, seed, NODES, jobs)
    truth = pl.read_csv(folder / "truth" / "comm_job.csv")
    with judged(load_catalog(), ("hang",), _tables(folder / "raw" / "ras")) as connection:
        findings = connection.sql(FINDINGS).pl()
    faults = truth.filter(pl.col("accused").is_not_null())
    right = findings.join(faults, on=["job_id", "accused"], how="inner", suffix="_right")
    twins = truth.filter(pl.col("accused").is_null())
    return {
        f"recall_monitor_{cause}": share(
            right.filter(cause_right=cause)["job_id"].n_unique(), faults.filter(cause=cause).height
        )
        for cause in CAUSES
    } | {
        "precision_monitor_hang": share(right.height, findings.height),
        "monitor_cause_right": share(
            right.filter(pl.col("cause") == pl.col("cause_right")).height, right.height
        ),
        "monitor_twins_accused": exact(
            twins.join(findings, on="job_id", how="semi").height, twins.height
        ),
    }


def _tables(raw: Path) -> dict[str, pl.DataFrame]:
    source = load_catalog().sources["nccl_ras"]
    parts: dict[str, list[pl.DataFrame]] = {}
    for path in sorted(raw.glob("*/*")):
        stated = {"cluster": "sim", "job_id": path.parent.name, "tz": "UTC"}
        rows, _ = source_rows(source, parse_file(source, path, **stated))
        for table, frame in rows.items():
            parts.setdefault(table, []).append(frame)
    return {table: pl.concat(frames) for table, frames in parts.items()}
