"""Theft of weights: is it found, how much is gone by then, and who else is accused.

Per seed one simulated fleet of two nodes and three days with one bulk theft from outside any job,
beside restarts, an evaluation sweep, rollouts, backups and fine-tunes that run as jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from fleetmark.accuracy.interval import Measured, exact, middle, share
from fleetmark.accuracy.scratch import judged, rows, simulated

DETECTOR = "uncovered_coverage"
FLEETS, NODES, DAYS = 20, 2, 3

PRINCIPAL_DAYS = """
SELECT DISTINCT principal, ts::DATE AS day FROM lake.storage_access
WHERE op_class IN ('read', 'copy_read')
"""
FINDINGS = f"""
SELECT unnest(principal) AS principal, detected_at, detected_at::DATE AS day
FROM lake.finding WHERE detector = '{DETECTOR}'
"""  # noqa: S608 - a constant of this file
SENT = "SELECT principal, ts, sent_bytes FROM lake.storage_access WHERE op_class = 'read'"


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """Recall, share gone and false findings over fleets with the seeds `seed`, `seed + 1`, …"""
    fleets = [_fleet(number, folder / str(number)) for number in range(seed, seed + FLEETS)]
    principal_days = sum(fleet["principal_days"] for fleet in fleets)
    false = sum(fleet["false"] for fleet in fleets)
    gone = [fleet["gone"] for fleet in fleets if fleet["gone"] is not None]
    return {
        "bulk_recall": share(len(gone), len(fleets)),
        "bulk_false_findings": share(false, principal_days),
        "bulk_gone_at_first_alert": middle(gone),
        "principal_days": exact(principal_days, principal_days),
        "attacks_per_class": exact(len(fleets), len(fleets)),
    }


def _fleet(seed: int, folder: Path) -> dict[str, Any]:
    """Principal-days, principal-days falsely accused, and share gone at the alert (None: missed)."""
    world = simulated(folder, seed, NODES, DAYS, ("slurm", "s3"))
    theft = world.thefts[0]
    thief = theft.transfer.principal.rsplit("/", 1)[
        0
    ]  # a principal is the role without its session
    raw, options = folder / "raw", {"cluster": "sim"}
    inputs = [
        ("sacct", [raw / "slurm"], {"cluster": "sim", "duplicates": "yes"}),
        ("manifest", [raw / "manifest.csv"], options),
        ("s3_access", [raw / "s3"], options),
    ]
    with judged(folder / "store", inputs, [DETECTOR]) as store:
        days = rows(store, PRINCIPAL_DAYS)
        accused = rows(store, FINDINGS)
        sent = rows(store, SENT).filter(pl.col("principal") == thief)
    found = accused.filter(pl.col("principal") == thief)
    others = accused.filter(pl.col("principal") != thief).unique(["principal", "day"])
    gone = None
    if found.height:
        before = sent.filter(pl.col("ts") <= found["detected_at"].min())
        gone = before["sent_bytes"].sum() / theft.checkpoint.size_bytes
    return {"principal_days": days.height, "false": others.height, "gone": gone}
