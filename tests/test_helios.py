"""Helios: the published quartiles of virtual-cluster utilisation, and what they rest on.

Source: SC'21, box plot of VC utilisation (samples/scheduler/helios/SOURCES.md). Definition: running
over owned GPUs per minute, May 2020 without 10 May, linear interpolation.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.testing import complete, compute, parse_file

HELIOS = Path(__file__).parent.parent / "samples" / "scheduler" / "helios"
CATALOG = load_catalog()


def rows(source: str, table: str, path: Path) -> pl.DataFrame:
    parsed = parse_file(CATALOG.sources[source], path)
    frame = parsed.tables[table]
    assert isinstance(frame, pl.DataFrame)
    assert parsed.rejects.is_empty()
    return complete(CATALOG.sources[source].outputs[0], frame.drop("line_no"))


@pytest.fixture(scope="module")
def minutes() -> pl.DataFrame:
    paths = sorted(HELIOS.glob("earth_*.csv.gz"))
    return pl.concat([rows("helios_vc", "vc_minute", p) for p in paths])


@pytest.fixture(scope="module")
def counts() -> pl.DataFrame:
    return rows("helios_gpu_number", "vc_gpu_day", HELIOS / "Earth_gpu_number.csv")


@pytest.fixture(scope="module")
def days(minutes: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    inputs = {"vc_minute": minutes, "vc_gpu_day": counts}
    return compute(CATALOG, CATALOG.models["vc_day"], inputs, {})


def published() -> Mapping[str, tuple[float, float, float]]:
    with (HELIOS / "published_fig4_quartiles.csv").open() as file:
        return {
            r["vc"]: (float(r["q1_pct"]), float(r["median_pct"]), float(r["q3_pct"]))
            for r in csv.DictReader(file)
        }


def quartiles(minutes: pl.DataFrame, days: pl.DataFrame) -> dict[str, tuple[float, float, float]]:
    inputs = {"vc_minute": minutes, "vc_day": days}
    found = compute(CATALOG, CATALOG.models["vc_utilization_month"], inputs, {})
    return {
        r["vc"]: tuple(round(100 * r[q], 1) for q in ("q1_ratio", "median_ratio", "q3_ratio"))
        for r in found.iter_rows(named=True)
    }


def test_published_quartiles(minutes: pl.DataFrame, days: pl.DataFrame) -> None:
    got = quartiles(minutes, days)
    wanted = published()
    assert len(wanted) == 5
    for vc, values in wanted.items():
        assert got[vc] == pytest.approx(values, abs=0.1 + 1e-9), vc


def test_leaving_the_outage_in_changes_four_of_five(
    minutes: pl.DataFrame, days: pl.DataFrame
) -> None:
    got = quartiles(minutes, days.with_columns(pl.lit(value=False).alias("is_outage")))
    wrong = [vc for vc, values in published().items() if got[vc] != pytest.approx(values, abs=0.1)]
    assert len(wrong) == 4
    assert got["vcvlY"] == (41.7, 68.8, 100.0)


def test_the_outage_and_the_wrong_count_are_found_by_rule(days: pl.DataFrame) -> None:
    flagged = (
        days.filter(pl.col("quality") != "ok").select("day_ts", "quality").unique().sort("day_ts")
    )
    assert flagged.rows() == [
        (datetime(2020, 5, 9), "count_mismatch"),  # noqa: DTZ001 - times carry no zone
        (datetime(2020, 5, 10), "outage"),  # noqa: DTZ001 - times carry no zone
    ]
    assert days.filter(pl.col("is_outage")).height == 8


def test_invariants_of_the_records(minutes: pl.DataFrame, days: pl.DataFrame) -> None:
    assert minutes.height == 8 * 31 * 1440
    assert days.height == 8 * 31
    assert days["balance_violation_count"].sum() == 0
    assert days["coverage_ratio"].unique().to_list() == [1.0]
    mismatched = days.filter(pl.col("count_mismatch_minute_count") > 0)["day_ts"].unique().to_list()
    assert mismatched == [datetime(2020, 5, 9)]  # noqa: DTZ001 - times carry no zone


def test_idle_days_of_one_small_group_are_no_outage(
    minutes: pl.DataFrame, counts: pl.DataFrame
) -> None:
    """Vcira runs nothing on 25 of 31 days; alone it is too little of the cluster to judge."""
    inputs = {"vc_minute": minutes.filter(pl.col("vc") == "vcira"), "vc_gpu_day": counts}
    alone = compute(CATALOG, CATALOG.models["vc_day"], inputs, {})
    assert alone["is_outage"].null_count() == 31


def test_without_a_name_the_virtual_cluster_must_be_stated(tmp_path: Path) -> None:
    path = tmp_path / "minutes.csv"
    path.write_text("time,total_gpu_num,running_gpu_num\n2020-05-01 00:00:00,8,8\n")
    parsed = parse_file(CATALOG.sources["helios_vc"], path)
    assert parsed.rejects.height == 2
    assert "state it with --set vc=NAME" in parsed.rejects["reason"][0]
    stated = parse_file(CATALOG.sources["helios_vc"], path, vc="v").tables["vc_minute"]
    assert stated.lazy().collect().height == 1
