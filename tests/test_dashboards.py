"""Every target of every dashboard, sent to the API as the Infinity plugin would send it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml
from fastapi.testclient import TestClient

from fleetmark.catalog import load_catalog
from fleetmark.errors import DefinitionError
from fleetmark.settings import Settings
from fleetmark.testing import complete, read_rows

create_app = import_module("fleetmark.api.app").create_app
dashboards = import_module("fleetmark.dashboards.__main__")
infinity = import_module("fleetmark.dashboards._infinity")

FOLDER = dashboards.FOLDER
FLEET = Path(__file__).parent / "fleet"
BOARDS = {p.stem: json.loads(p.read_text()) for p in sorted((FOLDER / "json").glob("*.json"))}
PANELS = [(name, panel) for name, board in BOARDS.items() for panel in board["panels"]]
TARGETS = [(name, p, t) for name, p in PANELS for t in p["targets"]]
TARGET_IDS = [f"{name}-{p['title']}-{t['refId']}" for name, p, t in TARGETS]
RULES = yaml.safe_load((FOLDER / "provisioning/alerting/rules.yaml").read_text())["groups"][0][
    "rules"
]

# A range over all of tests/fleet.
START = datetime(2026, 11, 1, tzinfo=UTC)
END = datetime(2026, 12, 1, tzinfo=UTC)
# Findings are told apart by domain and job; the clusters they name telemetry may not know.
WITHOUT_CLUSTER = {"finding", "detector_status", "ingest_file", "reject", "stream_position", "alert_delivery", "contract_result"}  # fmt: skip


def interpolate(text: str, variables: Mapping[str, list[str] | None]) -> str:
    """What Grafana (`${name:sqlstring}`) and the plugin's backend (`${__timeFrom}`) put in.

    Time macros are epoch milliseconds. All values chosen (None) give the variable's own text for
    that. A variable that nothing replaces stays, and fails the test.
    """
    for name, moment in (("__timeFrom", START), ("__timeTo", END)):
        text = text.replace(f"${{{name}}}", str(int(moment.timestamp() * 1000)))
    for name, values in variables.items():
        quoted = ",".join("'" + value.replace("'", "''") + "'" for value in values or ())
        text = text.replace(f"${{{name}:sqlstring}}", quoted if values is not None else "'*'")
    assert "$" not in text, f"nothing replaces a variable in: {text}"
    return text


def send(
    client: TestClient, target: dict[str, Any], variables: Mapping[str, list[str] | None]
) -> Any:
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
    with TestClient(create_app(Settings(store=fleet)), base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def filled() -> duckdb.DuckDBPyConnection:
    """The rows of tests/fleet without the API: for what is about the SQL alone."""
    connection = duckdb.connect()
    for table in load_catalog().tables.values():
        connection.execute(f"CREATE TABLE {table.name} ({table.ddl()})")
    for path in sorted(FLEET.glob("*.csv")):
        table = load_catalog().tables[path.stem]
        connection.register("rows", complete(table, read_rows(path, table)).to_arrow())
        connection.execute(f"INSERT INTO {table.name} FROM rows")
        connection.unregister("rows")
    return connection


def run(
    connection: duckdb.DuckDBPyConnection,
    target: dict[str, Any],
    variables: Mapping[str, list[str] | None],
) -> list[dict[str, Any]]:
    """A target's rows without the API."""
    sql = interpolate(target["url_options"]["params"][0]["value"], variables)
    answer = connection.execute(sql)
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def everything(board: dict[str, Any]) -> dict[str, list[str] | None]:
    """A dashboard's variables as it opens: all values chosen."""
    asked = [v for v in board["templating"]["list"] if v["type"] == "query"]
    assert all(v["allValue"] == infinity.ALL for v in asked)
    assert all(v["current"]["value"] == ["$__all"] for v in asked)
    return {v["name"]: None for v in asked}


def test_every_subject_has_a_dashboard() -> None:
    assert set(BOARDS) == {
        "capacity", "fleet_health", "hardware", "job_efficiency", "pipeline_health", "serving",
        "storage_access", "stragglers",
    }  # fmt: skip
    assert len(TARGETS) >= 70


def test_committed_files_are_current() -> None:
    assert dashboards.stale() == []


def test_sql_that_does_not_bind_is_no_dashboard() -> None:
    with pytest.raises(DefinitionError, match="does not bind"):
        _ = infinity.Query("SELECT nope FROM finding").columns
    with pytest.raises(DefinitionError, match="cannot show column node"):
        _ = infinity.Query("SELECT node FROM finding").columns


HELD = {
    "cluster": ["ember", "harbour"], "team": ["speech", "vision"], "gpu_model": ["H100"],
    "job": ["eval-70b", "train-7b", "tune-1b"], "gpu": ["GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-9"],
    "node": ["n000", "n001", "n004", "n005", "n009"],
}  # fmt: skip
VARIABLES = {
    variable["name"]: variable["query"]
    for board in BOARDS.values()
    for variable in board["templating"]["list"]
    if variable["type"] == "query"
}


@pytest.mark.parametrize("name", VARIABLES)
def test_variable_lists_what_the_tables_hold(name: str, client: TestClient) -> None:
    query = VARIABLES[name]["infinityQuery"]
    assert VARIABLES[name]["queryType"] == "infinity"
    assert [c["text"] for c in query["columns"]] == ["__text", "__value"]
    rows = send(client, query, dict.fromkeys(VARIABLES))
    assert sorted(row["__value"] for row in rows) == HELD[name]


@pytest.mark.parametrize("name", BOARDS)
def test_every_variable_changes_something(name: str) -> None:
    asked = [v for v in BOARDS[name]["templating"]["list"] if v["type"] == "query"]
    for number, variable in enumerate(asked):
        assert variable["query"] == VARIABLES[variable["name"]]
        used = json.dumps([BOARDS[name]["panels"], [v["query"] for v in asked[number + 1 :]]])
        assert f"{{{variable['name']}:" in used


@pytest.mark.parametrize(("board", "panel", "target"), TARGETS, ids=TARGET_IDS)
def test_target(
    board: str, panel: dict[str, Any], target: dict[str, Any], client: TestClient
) -> None:
    rows = send(client, target, everything(BOARDS[board]))
    assert rows, "nothing to show on a store with data"
    seen = set()
    for row in rows:
        assert set(row) == {column["selector"] for column in target["columns"]}
        for column in target["columns"]:
            value = row[column["selector"]]
            if value is not None:
                assert CHECKS[column["type"]](value), (column, value)
                seen.add(column["selector"])
            if column["selector"].endswith("coverage_ratio") and value is not None:
                assert 0 <= value <= 1
    assert {c["selector"] for c in target["columns"] if c["type"] != "string"} <= seen
    if target["format"] == "timeseries":
        times = [c["selector"] for c in target["columns"] if c["type"] == "timestamp"]
        assert len(times) == 1
        moments = [row[times[0]] for row in rows]
        assert moments == sorted(moments)
        assert all(START.isoformat() <= m < END.isoformat() for m in moments)
        labels = [c["selector"] for c in target["columns"] if c["type"] == "string"]
        keys = [(row[times[0]], *(row[label] for label in labels)) for row in rows]
        assert panel["title"] == "XID timeline" or len(keys) == len(set(keys)), "one point a series"


@pytest.mark.parametrize(("board", "panel", "target"), TARGETS, ids=TARGET_IDS)
def test_target_filters_by_each_variable_and_takes_any_name(
    board: str, panel: dict[str, Any], target: dict[str, Any], filled: duckdb.DuckDBPyConnection
) -> None:
    chosen = everything(BOARDS[board])
    rows = run(filled, target, chosen)
    sql = target["url_options"]["params"][0]["value"]
    assert "${cluster" in sql or {w for w in WITHOUT_CLUSTER if f"FROM {w}" in sql}
    for name in chosen:
        if f"${{{name}:" in sql:
            none = run(filled, target, {**chosen, name: ["it's none of ours"]})
            assert none != rows
            figures = [v for row in none for k, v in row.items() if k != "coverage_ratio"]
            assert all(value in (0, None) for value in figures), name


@pytest.mark.parametrize(("board", "panel", "target"), TARGETS, ids=TARGET_IDS)
def test_target_works_on_empty_tables(
    board: str, panel: dict[str, Any], target: dict[str, Any]
) -> None:
    rows = run(infinity._tables(), target, everything(BOARDS[board]))
    assert all(value in (0, None) for row in rows for value in row.values()), "unknown is not 0"
    assert all(v is None for row in rows for k, v in row.items() if k.endswith("_ratio"))


def test_incidents_are_drawn_over_every_graph(client: TestClient) -> None:
    for board in BOARDS.values():
        (incidents,) = [a for a in board["annotations"]["list"] if a["name"] == "Incidents"]
        target = incidents["target"]
        assert target["format"] == "dataframe"
        assert [c["selector"] for c in target["columns"]] == ["time", "timeEnd", "title", "text", "tags"]  # fmt: skip
        rows = send(client, target, {"cluster": None})
        assert [row["title"] for row in rows] == ["hang rank 3", "straggler rank 5"]


@pytest.mark.parametrize("rule", RULES, ids=[rule["uid"] for rule in RULES])
def test_alert_rule_can_be_evaluated(rule: dict[str, Any], client: TestClient) -> None:
    query, reduced, threshold = (part["model"] for part in rule["data"])
    assert rule["data"][0]["datasourceUid"] == "fleetmark"
    assert (reduced["expression"], threshold["expression"]) == ("A", "B")
    assert rule["condition"] == "C"
    assert rule["annotations"]["summary"]
    kinds = [c["type"] for c in query["columns"]]
    assert (kinds.count("timestamp"), kinds.count("number")) == (1, 1)
    rows = send(client, query, {})
    assert rows
    (number,) = [c["selector"] for c in query["columns"] if c["type"] == "number"]
    (bound,) = threshold["conditions"][0]["evaluator"]["params"]
    kind = threshold["conditions"][0]["evaluator"]["type"]
    fires = [row[number] > bound if kind == "gt" else row[number] < bound for row in rows]
    assert any(fires), "the fleet of the tests has each of these troubles"
    for row in run(infinity._tables(), query, {}):
        assert row[number] in (0, None)
