"""What deploy/ says fits what the program takes; what only a cluster can run is checked as a file."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetmark.catalog import load_catalog
from fleetmark.live.check import mistakes
from fleetmark.live.metrics import page
from fleetmark.live.status import Status, save
from fleetmark.settings import load_settings
from fleetmark.testing import EPOCH

DEPLOY = Path(__file__).parent.parent / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.toml")), ids=lambda p: p.parent.name)
def test_settings_are_right(path: Path) -> None:
    found = mistakes(load_catalog(), {}, path)
    # Secrets and schemas lie where it runs.
    assert [line for line in found if "/etc/fleetmark-secrets" not in line] == []


def _lakes() -> dict[str, dict[str, str]]:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    shared = yaml.safe_load((DEPLOY / "kubernetes-shared" / "kustomization.yaml").read_text())
    literals = shared["configMapGenerator"][0]["literals"]
    return {
        "compose": compose["x-lake"],
        "kubernetes-shared": dict(literal.split("=", 1) for literal in literals),
    }


@pytest.mark.parametrize("where", ["compose", "kubernetes-shared"])
def test_the_shared_store_is_set_right(where: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret")
    environment = {
        key: f'{{ file = "{tmp_path}/secret" }}' if value.startswith("{ file") else value
        for key, value in _lakes()[where].items()
    }
    lake = load_settings(environment, store=tmp_path).lake
    assert lake.catalog.startswith("postgres:host=")
    assert lake.password == "s3cret"  # noqa: S105 - as written above
    assert lake.remote == (where != "compose")


@pytest.mark.services
def test_alert_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("no promtool: Debian's package prometheus is not installed")
    rules = DEPLOY / "prometheus" / "fleetmark.rules.yaml"
    ran = subprocess.run(
        [promtool, "check", "rules", rules], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "9 rules found" in ran.stdout


def test_rules_ask_for_metrics_that_exist(tmp_path: Path) -> None:
    status = Status("a", "kafka", lag_count=1, timings_s={"build": 1.0}, unmet_counts={"error": 0})
    status.succeeded(EPOCH)
    save(tmp_path, status)
    offered = page(tmp_path).decode()
    rules = yaml.safe_load((DEPLOY / "prometheus" / "fleetmark.rules.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        asked = [
            word
            for word in rule["expr"].replace("(", " ").replace("{", " ").replace("[", " ").split()
            if word.startswith("fleetmark_")
        ]
        assert asked or rule["alert"] == "FleetmarkDown"
        for name in asked:
            assert f"\n{name}{{" in offered or f"\n{name} " in offered, name


def _containers() -> list[dict[str, Any]]:
    writer = yaml.safe_load((DEPLOY / "kubernetes" / "writer.yaml").read_text())
    found: list[dict[str, Any]] = writer["spec"]["template"]["spec"]["containers"]
    return found


def test_kubernetes_manifests_are_complete() -> None:
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == [p.name for p in MANIFESTS if p.name != "kustomization.yaml"]
    for container in _containers():
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["args"][0] in ("run", "serve")


def test_the_unit_checks_before_it_starts() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "systemd" / "fleetmark.service")
    service = unit["Service"]
    assert "check-config" in service["ExecStartPre"]
    assert service["ExecStart"].split()[1:2] == ["run"]
    assert service["Restart"] == "always"


def test_grafana_sends_the_key_that_compose_gives_it() -> None:
    """By the plugin's provisioning schema: a secret of this name goes out as `Authorization: Bearer`."""
    text = (DEPLOY.parent / "dashboards/provisioning/datasources/fleetmark.yaml").read_text()
    (source,) = yaml.safe_load(text)["datasources"]
    assert source["jsonData"]["auth_method"] == "bearerToken"
    assert source["secureJsonData"] == {"bearerToken": "$FLEETMARK_KEY"}
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    given = services["grafana"]["environment"]
    assert {source["url"], *source["jsonData"]["allowedHosts"]} == {"$FLEETMARK_URL"}
    assert given["FLEETMARK_URL"] == "http://api:8321"
    assert given["FLEETMARK_KEY"].startswith("${FLEETMARK_KEY")
    assert "serve" in services["api"]["command"]
