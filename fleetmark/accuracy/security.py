"""Theft of weights: is it found, how much is gone by then, who else is accused, how many pages come.

Simulated months of storage access (simulate/access.py): 10 people a node, and thefts in bulk, over 28
days, by five to eight principals, and inside a lawful job with flow logs. A false finding is one of medium
severity or more, by any detector, that names neither a thief nor a thief's address.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from fleetmark.accuracy.frames import judged
from fleetmark.accuracy.interval import Measured, between, exact, middle, share
from fleetmark.accuracy.processes import each
from fleetmark.accuracy.scratch import simulated
from fleetmark.alerts.pages import decide
from fleetmark.catalog import Catalog, load_catalog
from fleetmark.testing import parse_file, source_rows

DAYS = 28
NODES, FLEETS = 8, 2
FULL_NODES, FULL_FLEETS = 30, 8
CLASSES = {"P1": "bulk", "P2": "slow", "P3": "five_principal", "P15": "inside_job"}
LOGS = (
    ("sacct", "slurm/sacct.txt", {"cluster": "sim", "duplicates": "yes"}),
    ("manifest", "manifest.csv", {"cluster": "sim"}),
    ("s3_access", "s3.log", {"cluster": "sim"}),
    ("vpc_flow", "flows/vpc_flow.log", {"cluster": "sim"}),
)
COVERAGE = ("uncovered_coverage", "cumulative_coverage", "distributed_coverage")
ALARMS = """
SELECT finding_id, detector, severity, score, detected_at, principal, checkpoint, ip
FROM finding WHERE severity IN ('medium', 'high', 'critical')
"""
PRINCIPAL_DAYS = "SELECT principal, day_ts FROM principal_day WHERE read_count > 0"


def measured(seed: int, folder: Path) -> Mapping[str, Measured]:
    """Two small fleets with thefts and one without, with the seeds `seed`, `seed + 1`, …"""
    return _figures(seed, folder, NODES, FLEETS)


def measured_in_full(seed: int, folder: Path) -> Mapping[str, Measured]:
    """Eight fleets of 300 people, 11 thefts of each class (55 in bulk) in each, and one without thefts."""
    return _figures(seed, folder, FULL_NODES, FULL_FLEETS)


def _figures(seed: int, folder: Path, nodes: int, fleets: int) -> Mapping[str, Measured]:
    work = partial(_fleet, folder=folder, nodes=nodes, scenario="access")
    months = each(work, range(seed, seed + fleets))
    (quiet,) = each(partial(_fleet, folder=folder, nodes=nodes, scenario="benign"), [seed + fleets])
    days = sum(m["principal_days"] for m in months)
    false = sum(m["false"] for m in months)
    caught: dict[str, list[float | None]] = defaultdict(list)
    for month in months:
        for path, gone in month["thefts"]:
            caught[CLASSES[path]].append(gone)
    recall = {name: share(sum(g is not None for g in found), len(found))
              for name, found in caught.items()}  # fmt: skip
    gone = {name: middle([g for g in found if g is not None]) for name, found in caught.items()}
    factors = [m["unjoined"] / max(1, m["joined"]) for m in (*months, quiet)]
    weeks = DAYS / 7
    return {
        "bulk_recall": recall["bulk"],
        "bulk_false_findings": share(false, days),
        "bulk_gone_at_first_alert": gone["bulk"],
        "principal_days": exact(days, days),
        "attacks_per_class": exact(min(map(len, caught.values())), len(caught)),
        "slow_recall": recall["slow"],
        "slow_false_findings": share(false, days),
        "slow_gone_at_first_alert": gone["slow"],
        "five_principal_recall": recall["five_principal"],
        "inside_job_recall": recall["inside_job"],
        "benign_week_pages": exact(quiet["pages"], int(weeks)),
        "scheduler_join_factor": between(
            sum(m["unjoined"] for m in (*months, quiet)) / max(1, sum(m["joined"] for m in (*months, quiet))),
            len(factors), min(factors), max(factors)),
        "pages_per_week_per_1000_principals": exact(
            quiet["pages"] / weeks / quiet["principals"] * 1000, int(weeks)),
    }  # fmt: skip


def _fleet(seed: int, *, folder: Path, nodes: int, scenario: str) -> dict[str, Any]:
    """One month: principal-days, false ones, thefts with the share gone at the first alert, pages."""
    out = folder / f"{scenario}-{seed}"
    world = simulated(out, seed, nodes, DAYS, ("slurm", "s3", "flows"), scenario)
    catalog = load_catalog()
    rules = [n for n, d in catalog.detectors.items() if d.card.domain == "security"]
    tables = _tables(catalog, out / "raw")
    connection = judged(catalog, rules, tables)
    alarms = connection.sql(ALARMS).pl()
    days = connection.sql(PRINCIPAL_DAYS).pl()
    thieves = sorted({_role(theft.transfer.principal) for theft in world.thefts})
    places = sorted({theft.transfer.ip for theft in world.thefts})
    names_no_thief = (pl.col("principal").list.set_intersection(thieves).list.len() == 0) & (
        (pl.col("principal").list.len() > 0)
        | (pl.col("ip").list.set_intersection(places).list.len() == 0)
    )
    supporting = frozenset(n for n in rules if not catalog.detectors[n].card.pages)
    principals = days["principal"].n_unique()
    decisions = decide(alarms.to_dicts(), supporting, principals)
    return {
        "principal_days": days.height,
        "principals": principals,
        "false": alarms.filter(names_no_thief).height,
        "thefts": _gone(world, alarms),
        "pages": sum(d.status == "page" for d in decisions),
        **_without_jobs(catalog, connection, tables),
    }


def _tables(catalog: Catalog, raw: Path) -> dict[str, pl.DataFrame]:
    """The source tables of the month. A file of the access log a line repeats in counts once, as in a store."""
    files = sorted(path for path in (raw / "s3").rglob("*") if path.is_file())
    (raw / "s3.log").write_bytes(b"".join(path.read_bytes() for path in files))
    tables: dict[str, pl.DataFrame] = {}
    for name, path, options in LOGS:
        source = catalog.sources[name]
        rows, refused = source_rows(source, parse_file(source, raw / path, **options))
        if refused.height:
            raise ValueError(f"{raw / path}: {refused.height} lines were refused")
        tables |= {k: v.unique(catalog.tables[k].grain) for k, v in rows.items()}
    return tables


def _role(principal: str) -> str:
    """A principal is the role without its session."""
    return principal.rsplit("/", 1)[0]


def _gone(world: Any, alarms: pl.DataFrame) -> list[tuple[str, float | None]]:  # noqa: ANN401 - see scratch.simulated
    """Of each theft its class, and the share of the checkpoint read at the first alert on any of its
    principals from its beginning on (None: there is none).
    """
    found = []
    crews: dict[int, list[Any]] = defaultdict(list)
    for theft in world.thefts:
        crews[theft.number].append(theft)
    for crew in crews.values():
        names = {_role(theft.transfer.principal) for theft in crew}
        begin = pl.from_epoch(pl.Series([min(t.transfer.start_s for t in crew)]).cast(pl.Int64))[0]
        hits = alarms.filter(
            (pl.col("detected_at") >= begin)
            & (pl.col("principal").list.set_intersection(sorted(names)).list.len() > 0)
        )
        first = hits["detected_at"].min()
        found.append((crew[0].path, None if first is None else _read_by(crew, first)))
    return found


def _read_by(crew: list[Any], first: Any) -> float:  # noqa: ANN401 - a datetime; see above
    """The share of the checkpoint that the crew had read at a time, transfers taken as steady."""
    at_s = pl.Series([first]).dt.epoch("s")[0]
    read = sum(
        t.transfer.size_bytes * min(1.0, max(0.0, (at_s - t.transfer.start_s) / t.transfer.seconds))
        for t in crew
    )
    return float(min(1.0, read / crew[0].checkpoint.size_bytes))


def _without_jobs(
    catalog: Catalog, connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pl.DataFrame]
) -> dict[str, int]:
    """Ablation: accused principal-days of the coverage detectors with and without the jobs."""
    reads = connection.sql("FROM weight_read").pl()
    unjoined = reads.with_columns(pl.lit(None, pl.String).alias("covering_job_id"))
    found = {}
    for name, rows in (("joined", reads), ("unjoined", unjoined)):
        alone = judged(catalog, COVERAGE, {**tables, "weight_read": rows})
        found[name] = (
            alone.sql(ALARMS).pl().explode("principal")
            .select("principal", pl.col("detected_at").dt.date()).n_unique()
        )  # fmt: skip
    return found
