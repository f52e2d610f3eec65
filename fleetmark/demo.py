"""The demo: the sample logs that ship, a simulated week for what no public log holds, a report."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import polars as pl

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.build import build
from fleetmark.pipeline.detect import detect
from fleetmark.pipeline.run import ingest
from fleetmark.settings import Settings
from fleetmark.store import Store

SEED, NODES, DAYS = 1, 2, 7
SIMULATED = "sim"
ORIGINS = (
    "cluster `sim` is made up; `testgpu` is a real Slurm whose GPUs are plain device files; "
    "all else is real"
)
# The page states no time; this day is an assumption, made so that it has a place on the calendar.
T4_TIME = "2026-03-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Sample:
    """Files below `samples/`, their source and what has to be stated about them."""

    path: str
    source: str
    options: Mapping[str, str] = field(default_factory=dict)


SAMPLES = (
    Sample("telemetry/dcgm_exporter_l4_1774009423.prom", "dcgm_exporter", {"cluster": "kops"}),
    Sample("telemetry/dcgm_exporter_t4.prom", "dcgm_exporter",
           {"cluster": "ericsson", "ts": T4_TIME}),
    Sample("collectives/fr_traces/gpu_error_1st", "flight_recorder", {"job_id": "gpu_error_1st"}),
    Sample("collectives/fr_traces/lock_gil_1st", "flight_recorder", {"job_id": "lock_gil_1st"}),
    Sample("collectives/straggler_whatif/trace-AR.parquet", "straggler_trace", {"cluster": "bytedance"}),
    Sample("collectives/straggler_whatif/trace-ST.parquet", "straggler_trace", {"cluster": "bytedance"}),
    Sample("scheduler/slurm-22.05/sacct-parsable2-steps.txt", "sacct",
           {"tz": "UTC", "duplicates": "yes"}),
    Sample("scheduler/helios", "helios_vc"),
    Sample("scheduler/helios/Earth_gpu_number.csv", "helios_gpu_number"),
    Sample("storage/s3_access", "s3_access", {"cluster": "dandi"}),
)  # fmt: skip


def prepare(settings: Settings, now: datetime, log: Callable[[str], None]) -> None:
    """Ingest samples and the simulated week, build and detect. What is known already is skipped."""
    catalog = load_catalog()
    with Store(settings.store, place=settings.lake, memory_mb=settings.memory_mb) as store:
        store.ensure(catalog.tables.values())
        log(f"sample logs into {settings.store}")
        with as_file(files("fleetmark.samples")) as folder:
            for sample in SAMPLES:
                list(ingest(store, catalog, sample.source, [folder / sample.path],
                            sample.options, {}, now))  # fmt: skip
        log(f"a simulated week of {NODES} nodes (cluster `{SIMULATED}`: made up, seed {SEED})")
        _ingest_week(store, catalog, now)
        log("models and detectors")
        build(store, catalog, settings.params)
        detect(store, catalog, settings.params, now)


def _ingest_week(store: Store, catalog: Catalog, now: datetime) -> None:
    """The same seed writes the same bytes, so a second run finds every file known."""
    with tempfile.TemporaryDirectory() as folder:
        import_module("fleetmark.simulate").run("week", Path(folder), SEED, NODES, DAYS)
        raw = Path(folder) / "raw"
        stated = {"cluster": SIMULATED}
        list(ingest(store, catalog, "dcgm_exporter", [raw / "dcgm"], stated, {}, now))
        list(ingest(store, catalog, "s3_access", [raw / "s3"], stated, {}, now))
        end = _first_row(Path(folder) / "truth" / "run.csv")["end_ts"]
        collected = {"tz": "UTC", "duplicates": "yes", "observed_at": end}
        list(ingest(store, catalog, "sacct", [raw / "slurm"], stated | collected, {}, now))
        list(ingest(store, catalog, "inventory", [raw / "inventory.csv"], stated, {}, now))
        list(ingest(store, catalog, "manifest", [raw / "manifest.csv"], stated, {}, now))
        (trace,) = (raw / "trace").iterdir()
        truth = pl.read_csv(Path(folder) / "truth" / "trace.csv", infer_schema=False).row(
            0, named=True
        )
        placed = {"start_ts": truth["start_ts"], "attempt": truth["attempt"]}
        list(ingest(store, catalog, "straggler_trace", [trace], stated | placed, {}, now))


def _first_row(path: Path) -> dict[str, str]:
    return pl.read_csv(path, infer_schema=False).row(0, named=True)


QUERIES = (
    "SELECT cluster, vc, q1_ratio, median_ratio, q3_ratio, coverage_ratio FROM vc_utilization_month",
    "SELECT job_id, rank, ratio, lost_gpu_s, verdict FROM step_straggler ORDER BY ratio DESC LIMIT 5",
    "SELECT principal, checkpoint, day_ts, uncovered_lower_ratio, uncovered_upper_ratio "
    "FROM checkpoint_read_day ORDER BY uncovered_upper_ratio DESC LIMIT 5",
)


def report(settings: Settings, program: str) -> str:
    """What the demo found, in a few lines, and queries to go on with, as commands of `program`."""
    with Store(settings.store, place=settings.lake, read_only=True) as store:
        lines = ["", f"What Fleetmark found ({ORIGINS})", ""]
        lines += _ingested(store)
        lines += _utilisation(store)
        lines += _goodput(store)
        lines += _seen(store)
        lines += [f"- {line}" for line in _findings(store)]
    lines += ["", "Try", *(f'  {program} sql --store {settings.store} "{q}"' for q in QUERIES)]
    return "\n".join(lines)


def _rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return store.connection.execute(sql).fetchall()


def _ingested(store: Store) -> list[str]:
    files_, rows, rejects = _rows(
        store, "SELECT count(*), sum(row_count), sum(reject_count) FROM lake.ingest_file"
    )[0]
    return [f"- {files_} files, {rows:,} rows, {rejects} lines quarantined (table `reject`)"]


def _utilisation(store: Store) -> list[str]:
    rows = _rows(
        store,
        "SELECT vc, q1_ratio, median_ratio, q3_ratio, excluded_day_count, coverage_ratio "
        "FROM lake.vc_utilization_month WHERE vc = 'vc6YE'",
    )
    return [
        f"- Helios {vc}, May 2020: utilisation quartiles {q1:.1%} {median:.1%} {q3:.1%} "
        f"({excluded} day of outage left out, {coverage:.1%} of the month seen)"
        for vc, q1, median, q3, excluded, coverage in rows
    ]


def _goodput(store: Store) -> list[str]:
    rows = _rows(
        store,
        "SELECT cluster, sum(allocated_gpu_s) / 3600, "
        "sum(goodput_lower_ratio * allocated_gpu_s) / sum(allocated_gpu_s), "
        "sum(goodput_upper_ratio * allocated_gpu_s) / sum(allocated_gpu_s) "
        "FROM lake.goodput_day GROUP BY cluster HAVING sum(allocated_gpu_s) > 0 ORDER BY cluster",
    )
    return [
        f"- {cluster}: {hours:,.1f} GPU-hours held; goodput between {low:.1%} (attempts that did not "
        f"complete lost all their work) and {high:.1%} (they lost none); job records cannot say more"
        for cluster, hours, low, high in rows
    ]


def _seen(store: Store) -> list[str]:
    rows = _rows(
        store,
        "SELECT cluster, sum(minute_covered_count) / sum(minute_expected_count), min(day_ts), max(day_ts) "
        "FROM (FROM lake.coverage_gpu_day QUALIFY sum(minute_seen_count) OVER (PARTITION BY cluster, day_ts) > 0) "
        "GROUP BY cluster HAVING sum(minute_expected_count) > 0 ORDER BY cluster",
    )
    return [
        f"- {cluster}: {share:.1%} of GPU minutes seen from {first:%Y-%m-%d} to {last:%Y-%m-%d} "
        "(scraped every few minutes only, so that the demo stays small)"
        for cluster, share, first, last in rows
    ]


def _findings(store: Store) -> list[str]:
    rows = _rows(
        store,
        "SELECT severity, kind, array_to_string(cluster, ', '), "
        "concat_ws(' ', 'job ' || job_id[1], 'rank ' || nullif(array_to_string(rank, ', '), ''), "
        "'GPU ' || gpu_uuid[1], 'node ' || node[1], principal[1], 'checkpoint ' || checkpoint[1]), "
        "json_extract_string(evidence, '$.quantity'), lower, upper, detected_at, "
        "json_extract_string(evidence, '$.time_basis') "
        "FROM lake.finding ORDER BY domain DESC, score DESC, detected_at, finding_id",
    )
    found = []
    for severity, kind, cluster, who, quantity, lower, upper, at, basis in rows:
        what = who if lower is None else f"{who}, {lower:.3g} to {upper:.3g} ({quantity})"
        when = (
            f"{at:%H:%M:%S} into an undated trace"
            if basis == "relative"
            else f"{at:%Y-%m-%d %H:%M}"
        )
        found.append(f"{severity} {kind}: {what} ({cluster or 'storage'}, {when})")
    return found
