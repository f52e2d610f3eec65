"""The demo: the sample logs that ship, a simulated week for what no public log holds, a report."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.pipeline.build import build
from fleetmark.pipeline.detect import detect
from fleetmark.pipeline.run import ingest
from fleetmark.settings import Settings
from fleetmark.store import Store

SEED, NODES, DAYS = 1, 2, 7
SIMULATED = "simulated"


@dataclass(frozen=True, slots=True)
class Sample:
    """Files below `samples/`, their source and what has to be stated about them."""

    path: str
    source: str
    options: Mapping[str, str] = field(default_factory=dict)


SAMPLES = (
    Sample("telemetry/dcgm_exporter_l4_1774009423.prom", "dcgm_exporter", {"cluster": "kops"}),
    Sample("telemetry/dcgm_exporter_t4.prom", "dcgm_exporter",
           {"cluster": "ericsson", "ts": "2026-03-01T00:00:00Z"}),
    Sample("collectives/fr_traces/gpu_error_1st", "flight_recorder", {"job_id": "gpu_error_1st"}),
    Sample("collectives/fr_traces/lock_gil_1st", "flight_recorder", {"job_id": "lock_gil_1st"}),
    Sample("collectives/straggler_whatif/trace-AR.parquet", "straggler_trace", {"cluster": "bytedance"}),
    Sample("collectives/straggler_whatif/trace-ST.parquet", "straggler_trace", {"cluster": "bytedance"}),
    Sample("scheduler/slurm-22.05/sacct-parsable2-steps.txt", "sacct", {"tz": "UTC"}),
    Sample("scheduler/helios", "helios_vc"),
    Sample("scheduler/helios/Earth_gpu_number.csv", "helios_gpu_number"),
    Sample("storage/dandi_s3_log_extraction", "s3_access", {"cluster": "dandi"}),
)  # fmt: skip


def prepare(settings: Settings, now: datetime, log: Callable[[str], None]) -> None:
    """Ingest samples and the simulated week, build and detect. What is known already is skipped."""
    catalog = load_catalog()
    with Store(settings.store, memory_mb=settings.memory_mb) as store:
        store.ensure(catalog.tables.values())
        log(f"sample logs into {settings.store}")
        with as_file(files("fleetmark.samples")) as folder:
            for sample in SAMPLES:
                list(ingest(store, catalog, sample.source, [folder / sample.path],
                            sample.options, {}, now))  # fmt: skip
        if not _has_week(store):
            log(f"a simulated week of {NODES} nodes (cluster `{SIMULATED}`, seed {SEED})")
            _ingest_week(store, catalog, now)
        log("models and detectors")
        build(store, catalog, settings.params)
        detect(store, catalog, settings.params, now)
