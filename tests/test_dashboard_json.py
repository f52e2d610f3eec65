"""The dashboards as files: what every panel must state, where links lead, what Grafana needs to load them."""

from __future__ import annotations

import json
import re
from importlib import import_module
from typing import Any

import pytest
import yaml

panels = import_module("fleetmark.dashboards._panels")
FOLDER = import_module("fleetmark.dashboards.__main__").FOLDER
BOARDS = {p.stem: json.loads(p.read_text()) for p in sorted((FOLDER / "json").glob("*.json"))}
PANELS = [(name, panel) for name, board in BOARDS.items() for panel in board["panels"]]

# Lists of things that have no coverage of their own.
WITHOUT_COVERAGE = {
    "Findings, worst first": "each has its own bounds",
    "Findings about jobs, worst first": "each has its own bounds",
    "Findings of security, worst first": "each has its own bounds",
    "Health events, newest first": "each states its confidence and bounds of its count",
    "Bus bandwidth against its own past and against peers": "states the days and peers compared",
    "Detectors": "states what could not be judged",
    "Why records were refused": "all that were refused",
    "Changes of access, newest first": "a list of records; the logs' coverage stands beside it",
    "Data contracts not met, errors first": "verdicts on whole files and hours of rows",
    "Alerts by channel": "all of the outbox",
}


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=[f"{n}-{p['title']}" for n, p in PANELS])
def test_panel_says_what_it_shows(name: str, panel: dict[str, Any]) -> None:
    assert "**" in panel["description"], "the definition, in the contract's words"
    assert panel["datasource"]["uid"] == "${datasource}"
    columns = [c["selector"] for t in panel["targets"] for c in t["columns"]]
    covered = any(c.endswith("coverage_ratio") for c in columns)
    assert covered != (panel["title"] in WITHOUT_COVERAGE), "coverage beside every figure"
    assert [t["refId"] for t in panel["targets"]] == ["A", "B"][: len(panel["targets"])]


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=[f"{n}-{p['title']}" for n, p in PANELS])
def test_units_follow_the_names_of_columns(name: str, panel: dict[str, Any]) -> None:
    default = panel["fieldConfig"]["defaults"]["unit"]
    for target in panel["targets"]:
        for column in target["columns"]:
            if column["type"] != "number":
                continue
            unit = default
            for override in panel["fieldConfig"].get("overrides", []):
                option = override["matcher"]["options"]
                plain = option.strip("/")
                hit = re.fullmatch(plain, column["selector"]) or option == column["selector"]
                unit = next((p["value"] for p in override["properties"] if hit and p["id"] == "unit"), unit)  # fmt: skip
            wanted = panels.unit_of(column["selector"])
            assert wanted in ("short", unit), (column["selector"], unit)


def test_links_lead_to_dashboards_and_their_variables() -> None:
    known = {b["uid"]: {v["name"] for v in b["templating"]["list"]} for b in BOARDS.values()}
    followed = set()
    for _, panel in PANELS:
        for override in panel["fieldConfig"].get("overrides", []):
            for links in (p["value"] for p in override["properties"] if p["id"] == "links"):
                for link in links:
                    uid = re.match(r"/d/([\w-]+)\?", link["url"])
                    assert uid is not None
                    asked = set(re.findall(r"var-(\w+)=", link["url"]))
                    assert asked <= known[uid[1]], link["url"]
                    followed.add((override["matcher"]["options"], uid[1]))
    assert followed == {(column, board) for column, (board, _) in panels.LINKS.items()}
    for board in BOARDS.values():
        assert board["links"][0]["includeVars"]
        assert board["links"][0]["keepTime"]


@pytest.mark.parametrize("name", BOARDS)
def test_dashboard_can_be_provisioned(name: str) -> None:
    board = BOARDS[name]
    assert board["uid"]
    assert board.get("id") is None
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids))
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place.get("x", 0), place.get("x", 0) + place["w"])
        for y in range(place.get("y", 0), place.get("y", 0) + place["h"])
    ]
    assert len(cells) == len(set(cells)), "two panels lie on each other"
    assert all(place.get("x", 0) + place["w"] <= 24 for place in places)
    source = (FOLDER / "provisioning" / "datasources" / "fleetmark.yaml").read_text()
    assert f"type: {board['panels'][0]['datasource']['type']}" in source


def test_dashboards_have_addresses_of_their_own() -> None:
    uids = [board["uid"] for board in BOARDS.values()]
    assert len(uids) == len(set(uids))


def test_alerts_go_somewhere() -> None:
    files = {
        kind: yaml.safe_load((FOLDER / f"provisioning/alerting/{kind}.yaml").read_text())
        for kind in ("contactpoints", "policies")
    }
    (point,) = files["contactpoints"]["contactPoints"]
    assert files["policies"]["policies"][0]["receiver"] == point["name"]
