"""Every target of every dashboard, sent to the API as the Infinity plugin would send it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from fleetmark.settings import Settings

create_app = import_module("fleetmark.api.app").create_app
dashboards = import_module("fleetmark.dashboards.__main__")

FOLDER = dashboards.FOLDER
BOARDS = {p.stem: json.loads(p.read_text()) for p in sorted((FOLDER / "json").glob("*.json"))}
PANELS = [(name, panel) for name, board in BOARDS.items() for panel in board["panels"]]
TARGETS = [(name, p["title"], t) for name, p in PANELS for t in p["targets"]]

# A range over all of tests/fleet.
START = datetime(2026, 11, 1, tzinfo=UTC)
END = datetime(2026, 12, 1, tzinfo=UTC)


def interpolate(text: str, variables: Mapping[str, list[str]]) -> str:
    """What Grafana (`${name:sqlstring}`) and the plugin's backend (`${__timeFrom}`) put in.

    Time macros are epoch milliseconds. A variable that nothing replaces stays, and fails the test.
    """
    for name, moment in (("__timeFrom", START), ("__timeTo", END)):
        text = text.replace(f"${{{name}}}", str(int(moment.timestamp() * 1000)))
    for name, values in variables.items():
        quoted = ",".join("'" + value.replace("'", "''") + "'" for value in values)
        text = text.replace(f"${{{name}:sqlstring}}", quoted)
    assert "$" not in text, f"nothing replaces a variable in: {text}"
    return text


def send(client: TestClient, target: dict[str, Any], variables: Mapping[str, list[str]]) -> Any:
    """The request that the backend parser makes of a target, and the array its selector finds."""
    assert target["type"] == "json"
    assert target["source"] == "url"
    assert target["parser"] == "backend"
    assert target["url"], "an empty address is answered by a demo file on the internet"
    options = target["url_options"]
    assert options["method"] == "GET"
    answer = client.get(
        interpolate(target["url"], variables),
        params={p["key"]: interpolate(p["value"], variables) for p in options["params"]},
        headers={h["key"]: h["value"] for h in options["headers"]},
    )
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["truncated"] is False
    assert re.fullmatch(r"\w+", target["root_selector"])
    return body[target["root_selector"]]


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_timestamp(value: object) -> bool:
    return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None


CHECKS = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "boolean": lambda value: isinstance(value, bool),
    "timestamp": is_timestamp,
}


@pytest.fixture(scope="module")
def client(fleet: Path) -> Iterator[TestClient]:
    with TestClient(create_app(Settings(store=fleet))) as client:
        yield client


@pytest.fixture(scope="module")
def variables(client: TestClient) -> dict[str, dict[str, list[str]]]:
    """Per dashboard the values of its variables, with all of them selected."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, board in BOARDS.items():
        found[name] = {}
        for variable in board["templating"]["list"]:
            if variable["type"] == "query":
                assert variable["query"]["queryType"] == "infinity"
                query = variable["query"]["infinityQuery"]
                assert [c["text"] for c in query["columns"]] == ["__text", "__value"]
                rows = send(client, query, {})
                found[name][variable["name"]] = [row["__value"] for row in rows]
    return found


def test_there_are_dashboards() -> None:
    assert "fleet_overview" in BOARDS
    assert len(TARGETS) >= 8


def test_committed_json_is_current() -> None:
    assert dashboards.stale() == []


def test_variables_list_what_the_tables_hold(variables: dict[str, dict[str, list[str]]]) -> None:
    assert variables["fleet_overview"]["cluster"] == ["ember", "harbour"]


@pytest.mark.parametrize(
    ("board", "title", "target"), TARGETS, ids=[f"{n}-{t}" for n, t, _ in TARGETS]
)
def test_target(
    board: str,
    title: str,
    target: dict[str, Any],
    client: TestClient,
    variables: dict[str, dict[str, list[str]]],
) -> None:
    rows = send(client, target, variables[board])
    assert rows, "nothing to show on a store with data"
    seen = set()
    for row in rows:
        assert set(row) == {column["selector"] for column in target["columns"]}
        for column in target["columns"]:
            value = row[column["selector"]]
            if value is not None:
                assert CHECKS[column["type"]](value), (column, value)
                seen.add(column["selector"])
    assert {c["selector"] for c in target["columns"] if c["type"] != "string"} <= seen
    if target["format"] == "timeseries":
        times = [c["selector"] for c in target["columns"] if c["type"] == "timestamp"]
        assert len(times) == 1
        moments = [row[times[0]] for row in rows]
        assert moments == sorted(moments)
        assert all(START.isoformat() <= m < END.isoformat() for m in moments)


@pytest.mark.parametrize(
    ("board", "title", "target"), TARGETS, ids=[f"{n}-{t}" for n, t, _ in TARGETS]
)
def test_target_filters_by_cluster_and_takes_any_name(
    board: str, title: str, target: dict[str, Any], client: TestClient
) -> None:
    rows = send(client, target, {"cluster": ["it's none of ours"]})
    if "${cluster" in json.dumps(target):
        assert all(set(row.values()) <= {0} for row in rows)
    else:
        assert rows


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=[f"{n}-{p['title']}" for n, p in PANELS])
def test_panel_says_what_it_shows(name: str, panel: dict[str, Any]) -> None:
    assert "**" in panel["description"], "the definition, in the contract's words"
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"]["uid"] == "${datasource}"


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
