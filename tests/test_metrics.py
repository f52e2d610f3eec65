"""`/metrics` of the API: figures equal the tables', labels are bounded, rules ask for what exists."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from fleetmark.catalog import load_catalog
from fleetmark.query.snapshot import read_snapshot
from fleetmark.settings import Settings
from fleetmark.store import Store

create_app = import_module("fleetmark.api.app").create_app
metrics = import_module("fleetmark.api.metrics")
Lake = import_module("fleetmark.api.lake").Lake
ROOT = Path(__file__).parent.parent
RULES = ROOT / "deploy" / "prometheus" / "fleetmark.fleet.rules.yaml"


@pytest.fixture(scope="module")
def page(fleet: Path) -> str:
    """As of 21 November 2026, 02:00, in the fleet's last day."""
    return page_of(fleet)


def page_of(root: Path) -> str:
    with Store(root, read_only=True, memory_mb=512) as store:
        snapshot = read_snapshot(store, load_catalog().tables.values())
    lake = Lake(root, load_catalog(), 512)
    now = datetime(2026, 11, 21, 2)  # noqa: DTZ001 - UTC without zone, as everywhere
    text: bytes = metrics.Page(lake).text(snapshot, now)
    return text.decode()


def value(page: str, name: str, **labels: str) -> float | None:
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == name and sample.labels.items() >= labels.items():
                return float(sample.value)
    return None


def test_figures_are_those_of_the_newest_day(page: str) -> None:
    """tests/fleet: the last day of goodput_day is 21 November; one rank is slow on 20 November."""
    rows = (ROOT / "tests" / "fleet" / "goodput_day.csv").read_text().splitlines()
    names, last = rows[0].split(","), rows[-1].split(",")
    newest = dict(zip(names, last, strict=True))
    for gauge, column in (("goodput_lower_ratio", "goodput_lower_ratio"),
                          ("goodput_coverage_ratio", "coverage_ratio")):  # fmt: skip
        shown = value(page, f"fleetmark_{gauge}", cluster="ember")
        assert shown == (float(newest[column]) if newest[column] else None), gauge
    assert value(page, "fleetmark_slow_ranks", cluster="ember") == 1
    assert value(page, "fleetmark_signal_timestamp_seconds", signal="goodput_day") == 1795219200
    assert value(page, "fleetmark_findings", domain="security") is None  # three days old
    assert value(page, "fleetmark_findings", detector="slow_rank") == 1


def test_what_is_unknown_has_no_series(new_store: Callable[[str], Store]) -> None:
    with new_store("nothing") as store:
        root = store.root
    page = page_of(root)
    for name in ("mfu_ratio", "goodput_lower_ratio", "findings"):
        assert f"# HELP fleetmark_{name}" in page
        assert f"fleetmark_{name}{{" not in page


def test_no_label_grows_with_the_fleet() -> None:
    for signal in metrics.SIGNALS:
        assert not {"job_id", "node", "gpu_uuid", "principal", "rank"} & set(signal.labels)


def test_rules_ask_for_metrics_that_exist(page: str) -> None:
    offered = set(re.findall(r"# HELP (\S+)", page))
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            asked = re.findall(r"\bfleetmark_\w+", rule["expr"])
            assert set(asked) <= offered, rule
            if "alert" in rule:
                assert rule["annotations"].keys() == {"summary", "action"}


@pytest.mark.services
def test_alert_rules_fire_and_stay_quiet() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: Debian's package prometheus is not installed")
    for command in (["check", "rules", str(RULES)],
                    ["test", "rules", str(ROOT / "tests" / "prometheus" / "fleet_rules_test.yaml")]):  # fmt: skip
        ran = subprocess.run([promtool, *command], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_route_serves_the_text_format(fleet: Path) -> None:
    answer = TestClient(
        create_app(Settings(store=fleet), workers=0), base_url="http://localhost"
    ).get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert value(answer.text, "fleetmark_snapshot_timestamp_seconds")
