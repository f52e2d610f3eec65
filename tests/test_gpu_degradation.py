"""Degradation from samples to findings: on real captures, and on two hours of a fleet made of one.

The fleet's readings are those of the H100 capture under load (nvidia_gpu_exporter_h100_load.metrics:
632 W of 700, 1980 MHz, generation 5 with 16 lanes), repeated every 30 s on eight nodes of four
GPUs, with counters that grow as they should.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute, differences, parse_file, source_rows

CATALOG = load_catalog()
SAMPLES = Path(__file__).parent.parent / "samples/telemetry"
START = datetime(2026, 3, 1, 10)  # noqa: DTZ001 - all times are UTC without zone
MODELS = (
    "gpu_minute",
    "gpu_throttle_hour",
    "gpu_link_day",
    "gpu_memory_health_day",
    "gpu_clock_hour",
)
DETECTORS = (
    "thermal_throttle", "power_brake", "pcie_degraded", "pcie_errors", "nvlink_width", "nvlink_errors",
    "fabric_down", "ecc_rate", "row_remap", "power_limit_changed",
)  # fmt: skip
LINKS = 18


def views(samples: pl.DataFrame, links: pl.DataFrame | None = None) -> dict[str, pl.DataFrame]:
    """Every view of MODELS over samples, and the inputs beside them."""
    tables = {"gpu_sample": complete(CATALOG.tables["gpu_sample"], samples)}
    for name in ("gpu_link_sample", "inventory_gpu_span"):
        tables[name] = CATALOG.tables[name].empty()
    if links is not None:
        tables["gpu_link_sample"] = complete(CATALOG.tables["gpu_link_sample"], links)
    for name in MODELS:
        model = CATALOG.models[name]
        tables[name] = compute(CATALOG, model, {i: tables[i] for i in model.inputs}, {})
    return tables


def findings(tables: dict[str, pl.DataFrame]) -> set[tuple[str, str]]:
    """Detector and GPU (several joined by +) of every finding."""
    found = set()
    for name in DETECTORS:
        model = CATALOG.detectors[name].model
        rows = compute(CATALOG, model, {i: tables[i] for i in model.inputs}, {})
        found |= {(name, "+".join(gpus)) for gpus in rows["gpu_uuid"].to_list()}
    return found


@cache
def page(name: str, when: str | None = None) -> pl.DataFrame:
    options = {"node": "n", **({"ts": when} if when else {})}
    source = CATALOG.sources["dcgm_exporter"]
    rows, _ = source_rows(source, parse_file(source, SAMPLES / name, **options))
    return rows["gpu_sample"].with_columns(cluster=pl.lit("c"))


@cache
def fleet() -> pl.DataFrame:
    """Two hours of 32 GPUs, every 30 s, as the H100 of the capture."""
    capture = page("nvidia_gpu_exporter_h100_load.metrics", "2026-03-01T10:00:00Z")
    times = pl.DataFrame({"i": range(241)}).with_columns(
        ts=pl.lit(START) + pl.col("i") * timedelta(seconds=30)
    )
    gpus = pl.DataFrame({"g": range(32)})
    names = gpus.select(
        "g",
        node=pl.format("n{}", pl.col("g") // 4),
        gpu_uuid=pl.format("GPU-{}{}", pl.col("g") // 4, pl.col("g") % 4),
        gpu_index=(pl.col("g") % 4).cast(pl.Int32),
    )
    constant = capture.drop("node", "gpu_uuid", "gpu_index", "ts", "energy_j")
    return (
        names.join(times, how="cross")
        .join(constant, how="cross")
        .with_columns(
            gpu_model=pl.lit("NVIDIA H100 80GB HBM3"),
            energy_j=1000.0 + pl.col("i") * 30 * 632.0,
            power_violation_s=pl.col("i") * 3.0,
            sw_power_cap_s=pl.col("i") * 3.0,
        )
        .drop("i", "g")
    )


def set_where(
    gpu: str, after_min: float, until_min: float = 1e9, /, **values: pl.Expr
) -> list[pl.Expr]:
    """Columns of `gpu` (a prefix: GPU-1 is a whole node) between two minutes after the start."""
    minute = (pl.col("ts") - pl.lit(START)).dt.total_seconds() / 60
    here = pl.col("gpu_uuid").str.starts_with(gpu) & minute.is_between(after_min, until_min)
    return [
        pl.when(here).then(value).otherwise(pl.col(name)).alias(name)
        for name, value in values.items()
    ]


def elapsed_s(after_min: float) -> pl.Expr:
    return (pl.col("ts") - pl.lit(START)).dt.total_seconds() - after_min * 60


def links() -> pl.DataFrame:
    """Link states of every GPU at 10:00 and 11:00: 18 up, of GPU-70 only 17 at 11:00."""
    gpu = fleet().select("node", "gpu_uuid", "gpu_model").unique()
    link = pl.DataFrame({"link": range(LINKS)}, schema={"link": pl.Int32})
    hours = pl.DataFrame({"ts": [START, START + timedelta(hours=1), START + timedelta(hours=1.5)]})
    lost = (pl.col("gpu_uuid") == "GPU-70") & (pl.col("link") == 3) & (pl.col("ts") > START)
    return (
        gpu.join(link, how="cross")
        .join(hours, how="cross")
        .with_columns(
            state=pl.when(lost).then(pl.lit("inactive")).otherwise(pl.lit("up")),
            cluster=pl.lit("c"),
        )
    )


def test_values_of_the_real_captures() -> None:
    pages = {
        "h100": page("nvidia_gpu_exporter_h100_load.metrics", "2026-03-01T10:00:00Z"),
        "t4": page("dcgm_exporter_t4.prom", "2026-03-01T10:00:00Z"),
        "l4": page("dcgm_exporter_l4_1774009423.prom"),
    }
    samples = [rows.with_columns(node=pl.lit(name)) for name, rows in pages.items()]
    tables = views(pl.concat(samples, how="diagonal"))

    def row(table: str, node: str) -> dict[str, object]:
        return tables[table].row(by_predicate=pl.col("node") == node, named=True)

    clock = row("gpu_clock_hour", "h100")
    assert (clock["busy_minute_count"], clock["clock_deficit_ratio"]) == (1, 0)
    assert clock["power_ratio"] == pytest.approx(631.95 / 700)
    assert (clock["unexplained_minute_count"], clock["slow_pstate_minute_count"]) == (0, 0)
    link = row("gpu_link_day", "h100")
    assert (link["pcie_width_lanes"], link["pcie_width_expected_lanes"]) == (16, 16)
    assert (link["pcie_gen_busy"], link["pcie_gen_expected"]) == (5, 5)
    assert link["pcie_slow_minute_count"] == 0
    memory = row("gpu_memory_health_day", "h100")
    assert (memory["row_remap_failed"], memory["row_remap_pending"]) == (0, 0)
    assert (memory["row_remap_bank_full_count"], memory["row_remap_bank_none_count"]) == (2560, 0)
    assert (memory["ecc_sbe_aggregate_count"], memory["ecc_dbe_new_count"]) == (0, None)
    # T4: GPU_UTIL 91 with the engine active 15.6 %: not at work. No link, remap or throttle fields.
    assert row("gpu_clock_hour", "t4")["busy_minute_count"] == 0
    assert row("gpu_link_day", "t4")["pcie_narrow_minute_count"] is None
    assert row("gpu_memory_health_day", "t4")["row_remap_failed"] is None
    # L4: idle.
    assert row("gpu_clock_hour", "l4")["busy_minute_count"] == 0
    assert row("gpu_memory_health_day", "l4")["row_remap_failed"] == 0
    # One scrape each: no sample holds, so nothing is known of throttling.
    assert tables["gpu_throttle_hour"].is_empty()
    assert findings(tables) == set()


def test_each_fault_is_found_once_and_its_twins_are_not() -> None:
    faults = [
        set_where("GPU-00", 30, hw_thermal_slowdown_s=elapsed_s(30) * 0.7),
        set_where("GPU-1", 60, hw_power_brake_s=elapsed_s(60).clip(0, 300)),
        set_where("GPU-20", 40, pcie_link_width=pl.lit(8)),
        set_where("GPU-40", 0, power_limit_w=pl.lit(400.0)),
        set_where("GPU-50", 70, ecc_dbe_volatile_count=pl.lit(1)),
        set_where("GPU-60", 45, row_remap_pending=pl.lit(1)),
        set_where("GPU-21", 20, pcie_replay_count=(elapsed_s(20) * 5).cast(pl.Int64)),
        set_where("GPU-41", 35, 37, nvlink_recovery_error_count=pl.lit(1)),
        set_where("GPU-41", 37, nvlink_recovery_error_count=pl.lit(3)),
        set_where("GPU-52", 30, ecc_sbe_volatile_count=(elapsed_s(30) / 10).cast(pl.Int64)),
        # The twins: heat for a minute, an idle link, a cap at work, one corrected error, rows remapped.
        set_where("GPU-31", 20, hw_thermal_slowdown_s=elapsed_s(20).clip(0, 60)),
        set_where("GPU-30", 0, pcie_link_gen=pl.lit(1), gpu_busy_ratio=pl.lit(0.0), sm_clock_mhz=pl.lit(345)),
        set_where("GPU-51", 0, sw_power_cap_s=elapsed_s(0)),
        set_where("GPU-61", 45, ecc_sbe_volatile_count=pl.lit(1)),
        set_where("GPU-62", 50, row_remap_correctable_count=pl.lit(1)),
        set_where("GPU-22", 50, pcie_replay_count=pl.lit(9)),
        set_where("GPU-42", 50, nvlink_crc_flit_error_count=pl.lit(1)),
    ]  # fmt: skip
    samples = fleet()
    for fault in faults:
        samples = samples.with_columns(fault)
    assert findings(views(samples, links())) == {
        ("thermal_throttle", "GPU-00"),
        ("power_brake", "GPU-10+GPU-11+GPU-12+GPU-13"),
        ("pcie_degraded", "GPU-20"),
        ("power_limit_changed", "GPU-40"),
        ("ecc_rate", "GPU-50"),
        ("ecc_rate", "GPU-52"),
        ("pcie_errors", "GPU-21"),
        ("nvlink_errors", "GPU-41"),
        ("row_remap", "GPU-60"),
        ("nvlink_width", "GPU-70"),
    }


def test_bad_samples_change_nothing_but_themselves() -> None:
    """A spike, a restart of all counters, a missing scrape and missing values, on a GPU each."""
    restart = [
        expr
        for name in ("energy_j", "power_violation_s", "sw_power_cap_s")
        for expr in set_where("GPU-01", 30.4, **{name: pl.col(name) - pl.col(name).max() * 0.2})
    ]
    bad = (
        fleet()
        .with_columns(set_where("GPU-00", 30.4, 30.6, energy_j=pl.lit(4294967.295)))
        .with_columns(restart)
        .with_columns(set_where("GPU-03", 30.4, 30.6, energy_j=pl.lit(None), power_w=pl.lit(None)))
        .filter((pl.col("gpu_uuid") != "GPU-02") | (pl.col("ts") != START + timedelta(minutes=30.5)))
    )  # fmt: skip
    clean, hurt = views(fleet()), views(bad)
    assert findings(clean) == findings(hurt) == set()
    healthy = ~pl.col("gpu_uuid").is_in(["GPU-00", "GPU-01", "GPU-02", "GPU-03"])
    for name in MODELS:
        assert differences(hurt[name].filter(healthy), clean[name].filter(healthy), 1e-9) == []
    minutes = hurt["gpu_minute"].filter(~healthy).sort("gpu_uuid", "minute_ts")
    near = pl.col("minute_ts").is_between(
        START + timedelta(minutes=30), START + timedelta(minutes=31)
    )
    elsewhere = minutes.filter(~near)
    assert elsewhere["energy_used_j"].drop_nulls().is_between(18959, 37921).all()
    assert elsewhere["coverage_ratio"][1:].min() == clean["gpu_minute"]["coverage_ratio"].min()
    used = hurt["gpu_minute"].group_by("gpu_uuid").agg(pl.col("energy_used_j").sum())
    true_j = 240 * 30 * 632.0
    energy = dict(used.iter_rows())
    assert energy["GPU-20"] == energy["GPU-03"] == energy["GPU-02"] == true_j
    assert energy["GPU-00"] == true_j - 2 * 18960
    assert energy["GPU-01"] == true_j - 18960
