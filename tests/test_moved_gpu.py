"""A GPU that moved while its old inventory entry stayed open has one place at a time, wherever it is joined."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl

from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute

CATALOG = load_catalog()
START = datetime(2026, 3, 1, 10)  # noqa: DTZ001 - all times are UTC without zone
MOVED = START + timedelta(minutes=30)
MINUTES = 60
# GPU-a moves from n1 to n2 at 10:30; nobody closes its old entry. GPU-b stays on n1.
INVENTORY = pl.DataFrame(
    {
        "cluster": ["c"] * 3,
        "node": ["n1", "n2", "n1"],
        "gpu_uuid": ["GPU-a", "GPU-a", "GPU-b"],
        "start_ts": [START - timedelta(days=90), MOVED, START - timedelta(days=90)],
    }
)
SAMPLED = pl.DataFrame(
    [
        {"cluster": "c", "node": "pod", "gpu_uuid": gpu, "mig_instance": "",
         "minute_ts": START + timedelta(minutes=minute), "sample_count": 1,
         "coverage_ratio": 1.0, "energy_used_j": 60.0}
        for gpu in ("GPU-a", "GPU-b") for minute in range(MINUTES)
    ]
)  # fmt: skip
CHANGES = pl.DataFrame(
    {
        "cluster": ["c"], "node": ["pod"], "gpu_uuid": ["GPU-a"], "signal": ["xid_code"],
        "ts": [MOVED + timedelta(minutes=5)], "after_ts": [MOVED + timedelta(minutes=4)],
        "code": [79],
    },
    schema_overrides={"code": pl.Int32},
)  # fmt: skip
HELD = pl.DataFrame(
    {
        "cluster": ["c", "c"], "job_id": ["1", "2"], "attempt": [1, 1], "node": ["n1", "n2"],
        "start_ts": [START, MOVED], "end_ts": [MOVED, START + timedelta(hours=1)],
        "gpu_count": [2.0, 1.0],
    }
)  # fmt: skip


def computed(name: str, **given: pl.DataFrame) -> pl.DataFrame:
    """A model over the stated tables; the others it reads are empty."""
    model = CATALOG.models[name]
    inputs = {
        i: complete(CATALOG.tables[i], given.get(i, CATALOG.tables[i].empty()))
        for i in model.inputs
    }
    return compute(CATALOG, model, inputs, {})


def test_one_place_at_a_time() -> None:
    span = computed("inventory_gpu_span", inventory_gpu=INVENTORY)
    day = computed("coverage_gpu_day", inventory_gpu_span=span, gpu_minute=SAMPLED)
    assert day["minute_seen_count"].sum() == 2 * MINUTES
    assert dict(day.filter(gpu_uuid="GPU-a").select("node", "minute_covered_count").iter_rows()) == {
        "n1": 30, "n2": 30,
    }  # fmt: skip
    hour = computed("gpu_presence_hour", inventory_gpu_span=span, gpu_minute=SAMPLED)
    assert hour["minute_expected_count"].sum() == hour["minute_seen_count"].sum() == 2 * MINUTES
    events = computed("health_event", inventory_gpu_span=span, gpu_code_change=CHANGES)
    assert events["node"].to_list() == ["n2"]
    energy = computed(
        "job_energy_day", inventory_gpu_span=span, gpu_minute=SAMPLED, gpu_allocation=HELD
    )
    assert energy["energy_j"].sum() == (2 * 30 + 30) * 60


def test_only_one_model_reads_the_list_itself() -> None:
    readers = {m.name for m in CATALOG.models.values() if "inventory_gpu" in m.inputs}
    readers |= {d.name for d in CATALOG.detectors.values() if "inventory_gpu" in d.model.inputs}
    assert readers == {"inventory_gpu_span"}
