"""The API over a small invented fleet (tests/fleet)."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from fleetmark.catalog import load_catalog
from fleetmark.query.process import Limits
from fleetmark.settings import Settings
from fleetmark.store import Store

create_app = import_module("fleetmark.api.app").create_app
accepted = import_module("fleetmark.api.media").accepted

PLACES = (
    b'[Infinity, 1, "2026-01-01", "x"]', b'[1e400, 1, "2026-01-01", "x"]', b'[9999999999, 1, "2026-01-01", "x"]',
    b'[1, 1, "2026-01-01", "\\ud800"]', b"[1, 1" + b"0" * 400 + b', "2026-01-01", "x"]', b"[" * 1400,
    b'{"order": "detected_at,finding_id", "after": ["2026-01-01", "\\ud800"]}', b"\xff\xfe",
)  # fmt: skip
HOSTILE = "<script>window.pwned=1</script>"
ISO = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


def made_up(place: bytes) -> str:
    """A cursor that no page gave."""
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


@pytest.fixture(scope="module")
def client(fleet: Path) -> Iterator[TestClient]:
    app = create_app(Settings(store=fleet), limits=Limits(deadline_s=2))
    with TestClient(app, base_url="http://localhost") as client:
        yield client


def ask(client: TestClient, sql: str, **more: Any) -> dict[str, Any]:
    answer = client.post("/query", json={"sql": sql, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_health_says_how_old_the_answers_are(client: TestClient) -> None:
    health = client.get("/healthz").json()
    assert health["status"] == "ok"
    assert health["snapshot"] > 0
    assert ISO.match(health["snapshot_at"])
    assert 0 <= health["snapshot_age_s"] < 3600


def test_a_missing_store_is_a_problem_document(tmp_path: Path) -> None:
    with TestClient(
        create_app(Settings(store=tmp_path / "none"), workers=0), base_url="http://localhost"
    ) as client:
        answer = client.get("/healthz")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert "fleetmark ingest" in answer.json()["detail"]


def test_every_table_is_listed_with_what_stands_in_it(client: TestClient) -> None:
    listed = {t["name"]: t for t in client.get("/tables").json()["tables"]}
    assert listed.keys() == load_catalog().tables.keys()
    goodput = listed["goodput_day"]
    assert goodput["row_count"] == 21
    assert (goodput["first_ts"], goodput["last_ts"]) == (
        "2026-11-01T00:00:00Z",
        "2026-11-21T00:00:00Z",
    )
    assert goodput["coverage"]["period_ratio"] == 1
    # 18 days at 1, two at 0.62, one at 0
    assert goodput["coverage"]["mean_coverage_ratio"] == pytest.approx((18 + 2 * 0.62) / 21)
    assert listed["gpu_sample"]["row_count"] == 0
    assert listed["gpu_sample"]["first_ts"] is None


def test_coverage_counts_days_without_rows(client: TestClient) -> None:
    """Findings stand on days 1 to 20 of November 2026."""
    coverage = client.get("/tables/finding").json()["coverage"]
    assert (coverage["period"], coverage["period_count"], coverage["range_period_count"]) == (
        "day",
        20,
        20,
    )


def test_monthly_tables_count_months(client: TestClient) -> None:
    """The rows are those of August and October 2026."""
    months = client.get("/tables/vc_utilization_month").json()["coverage"]
    assert (months["period"], months["period_count"], months["range_period_count"]) == (
        "month",
        2,
        3,
    )
    assert months["period_ratio"] == pytest.approx(2 / 3)


def test_a_table_shows_its_contract(client: TestClient) -> None:
    shown = client.get("/tables/goodput_day").json()
    table = load_catalog().tables["goodput_day"]
    assert [c["name"] for c in shown["columns"]] == list(table.column_names)
    assert all(c["doc"] for c in shown["columns"])
    lower = next(c for c in shown["columns"] if c["name"] == "goodput_lower_ratio")
    assert (lower["type"], lower["unit"], lower["nullable"]) == ("DOUBLE", "ratio", True)
    assert client.get("/tables/nothing").status_code == 404


def test_findings_come_worst_first_and_in_pages(client: TestClient) -> None:
    seen: list[str] = []
    cursor = None
    while True:
        page = client.get(
            "/findings", params={"limit": 7, **({"cursor": cursor} if cursor else {})}
        ).json()
        assert page["total"] == 30
        assert page["severity_counts"] == {"critical": 1, "high": 1, "medium": 1, "low": 27}
        seen += [item["finding_id"] for item in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen[:4] == ["EX001-1", "SLOW-5", "GPU-2", "LOW-26"]
    assert len(seen) == len(set(seen)) == 30


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"domain": "security"}, 1),
        ({"severity": ["high", "medium"]}, 2),
        ({"detector": "placement"}, 27),
        ({"since": "2026-11-20T09:10:00Z"}, 1),
        ({"since": "2026-11-20T10:10:00+01:00"}, 1),
        ({"since": "2026-11-20T09:10:00.000001"}, 0),
        ({"until": "2026-11-01T03:00:00Z"}, 0),
        ({"until": "2026-11-01T03:00:01Z"}, 2),
        ({"detector": "' OR 1=1 --"}, 0),
    ],
)
def test_findings_are_filtered(client: TestClient, filters: dict[str, Any], count: int) -> None:
    page = client.get("/findings", params=filters).json()
    assert page["total"] == len(page["items"]) == count


def test_a_finding_keeps_hostile_text_and_large_numbers_as_they_are(client: TestClient) -> None:
    finding = client.get("/findings/EX001-1").json()
    assert finding["evidence"]["first_key"].startswith(HOSTILE)
    assert finding["evidence"]["bytes_read"] == "9007199254740993"  # beyond 2^53 - 1
    assert finding["evidence"]["request_count"] == 48213
    assert finding["principal"][1].startswith(HOSTILE)
    assert ISO.match(finding["detected_at"])
    assert client.get("/findings/EX001-1").headers["content-type"] == "application/json"
    assert client.get("/findings/nothing").status_code == 404


def test_a_finding_brings_the_card_of_its_rule(fleet: Path, tmp_path: Path) -> None:
    """The rule stands in the catalog under the id that the finding names."""
    catalog = load_catalog()
    name, rule = next(iter(catalog.detectors.items()))
    with Store(tmp_path / "store") as store:
        store.ensure(catalog.tables.values())
        fill = (
            "INSERT INTO lake.finding BY NAME SELECT 'f/1 ?' AS finding_id, "
            f"'{name}' AS detector, 'performance' AS domain, 'x' AS kind, 1.0 AS score, "
            "'high' AS severity, TIMESTAMP '2026-01-01' AS start_ts, start_ts AS end_ts, "
            "start_ts AS detected_at, 'not json' AS evidence"
        )
        store.commit(lambda: store.connection.execute(fill))
    with TestClient(
        create_app(Settings(store=tmp_path / "store"), workers=0), base_url="http://localhost"
    ) as client:
        shown = client.get("/findings/f%2F1%20%3F")
        listed = client.get("/findings").json()["items"]
    assert listed[0]["evidence"] == {"text": "not json"}
    assert listed[0]["node"] == []
    assert shown.status_code == 200, shown.text
    assert shown.json()["card"]["misses"] == rule.card.misses


def test_detectors_tell_whether_they_could_judge(client: TestClient) -> None:
    status = {row["detector"]: row for row in client.get("/detectors").json()}
    assert status["EX001"]["status"] == "evaluated"
    assert status["gpu_health"]["status"] == "not_evaluable"
    assert status["gpu_health"]["reason"] == "gpu_event has no rows"
    never = set(load_catalog().detectors) - {"EX001", "slow_rank", "gpu_health"}
    assert all(status[name]["status"] == "never_run" for name in never)


def test_json_rows_are_typed_and_exact(client: TestClient) -> None:
    answer = ask(
        client,
        "SELECT 9007199254740991 AS safe, 9007199254740993 AS large, "
        "sum(9007199254740993) OVER () AS huge, 1.5 AS short, 0.1234567890123456789 AS long, "
        "'NaN'::DOUBLE AS nan, '-inf'::DOUBLE AS inf, NULL AS unknown, "
        "TIMESTAMP '2026-11-30 12:00:00' AS t, TIMESTAMPTZ '2026-11-30 12:00:00.5+02' AS z, "
        "TIMESTAMP '20000-01-01' AS far, 'infinity'::TIMESTAMP AS never, DATE '2026-11-30' AS d, "
        "TIME '12:00' AS clock, INTERVAL '1 month 2 days 3.5 seconds' AS i, '\\xAB'::BLOB AS b, "
        "[1, NULL] AS list, {'a': TIMESTAMP '2026-11-30'} AS struct, MAP {'k': 1} AS map, "
        "'<b>'::ENUM('<b>') AS e, uuid() IS NOT NULL AS yes, 1 AS dup, 2 AS dup",
    )
    assert answer["rows"] == [
        {
            "safe": 9007199254740991,
            "large": "9007199254740993",
            "huge": "9007199254740993",
            "short": 1.5,
            "long": "0.1234567890123456789",
            "nan": "NaN",
            "inf": "-Infinity",
            "unknown": None,
            "t": "2026-11-30T12:00:00Z",
            "z": "2026-11-30T10:00:00.500000Z",
            "far": "20000-01-01T00:00:00Z",
            "never": "infinity",
            "d": "2026-11-30",
            "clock": "12:00:00",
            "i": "P1M2DT3.5S",
            "b": "ab",
            "list": [1, None],
            "struct": {"a": "2026-11-30T00:00:00Z"},
            "map": [["k", 1]],
            "e": "<b>",
            "yes": True,
            "dup": 1,
            "dup_1": 2,
        }
    ]
    types = {c["name"]: c["type"] for c in answer["columns"]}
    assert types["large"] == "BIGINT"
    assert types["z"] == "TIMESTAMP WITH TIME ZONE"
    assert list(types) == list(answer["rows"][0])


@pytest.mark.parametrize("kind", ["1::UHUGEINT", "'101'::BIT", "TIMETZ '10:00:00+02'", "[1::BIT]"])
def test_a_type_that_would_change_is_refused(client: TestClient, kind: str) -> None:
    answer = client.get("/query", params={"sql": f"SELECT {kind} AS x"})
    assert answer.status_code == 400
    assert "cast it" in answer.json()["detail"]


SQL = (
    "SELECT day_ts, coverage_ratio, 9007199254740993 AS n, 'a,\"b' AS s FROM goodput_day ORDER BY 1"
)


def test_arrow_keeps_types(client: TestClient) -> None:
    answer = client.get(
        "/query", params={"sql": SQL}, headers={"Accept": "application/vnd.apache.arrow.stream"}
    )
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(answer.content).read_all()
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    assert frame.schema["day_ts"] == pl.Datetime("us")
    assert frame["n"][0] == 9007199254740993
    assert frame.height == int(answer.headers["fleetmark-row-count"]) == 21


def test_csv_and_ndjson_say_the_same(client: TestClient) -> None:
    text = client.get("/query", params={"sql": SQL}, headers={"Accept": "text/csv"}).text
    rows = list(csv.DictReader(io.StringIO(text)))
    lines = client.get("/query", params={"sql": SQL}, headers={"Accept": "application/x-ndjson"})
    objects = [json.loads(line) for line in lines.text.splitlines()]
    assert len(rows) == len(objects) == 21
    for row, item in zip(rows, objects, strict=True):
        assert row["day_ts"] == item["day_ts"]
        assert float(row["coverage_ratio"]) == item["coverage_ratio"]
        assert row["s"] == item["s"] == 'a,"b'
        assert row["n"] == item["n"] == "9007199254740993"


@pytest.mark.parametrize(
    ("header", "media"),
    [
        ("*/*", "application/json"),
        ("text/html, application/json;q=0.9", "application/json"),
        ("text/csv;q=0.5, application/x-ndjson", "application/x-ndjson"),
        ("text/*", "text/csv"),
        ("application/json;q=0, text/csv;q=0.1", "text/csv"),
    ],
)
def test_accept_picks_the_format(header: str, media: str) -> None:
    assert accepted(header) == media


def test_an_unknown_format_is_refused(client: TestClient) -> None:
    answer = client.get("/query", params={"sql": "SELECT 1"}, headers={"Accept": "image/png"})
    assert answer.status_code == 406


def test_truncation_is_stated(client: TestClient) -> None:
    answer = ask(client, "SELECT * FROM range(20000)")
    assert (answer["row_count"], answer["truncated"], len(answer["rows"])) == (10_000, True, 10_000)
    answer = ask(client, "SELECT * FROM range(5)", limit=5)
    assert (answer["row_count"], answer["truncated"]) == (5, False)
    text = client.post(
        "/query", json={"sql": "FROM range(5)", "limit": 4}, headers={"Accept": "text/csv"}
    )
    assert text.headers["fleetmark-truncated"] == "true"


def test_parameters(client: TestClient) -> None:
    answer = ask(client, "SELECT $x AS a, $y AS b", params={"x": "';--", "y": [1, 2]})
    assert answer["rows"] == [{"a": "';--", "b": [1, 2]}]
    assert client.post("/query", json={"sql": "SELECT $1", "params": []}).status_code == 400


@pytest.mark.parametrize(
    ("sql", "status", "line", "column"),
    [
        ("SELECT\n  nope FROM finding", 400, 2, 3),
        ("SELECT 'ä' FRM finding", 400, 1, 16),
        ("SELECT *\nFROM read_text('/etc/passwd')", 403, 2, 6),
        ("DROP TABLE finding", 403, None, None),
        ("SELECT count(*) FROM range(1000000) a, range(1000000) b", 422, None, None),
        ("SELECT 1/0 + 'a'::INT", 400, 1, 17),
    ],
)
def test_problems_say_where(
    client: TestClient, sql: str, status: int, line: int | None, column: int | None
) -> None:
    answer = client.get("/query", params={"sql": sql})
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, problem.get("line"), problem.get("column")) == (
        status,
        line,
        column,
    ), problem


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/query", 422),
        ("/query?sql=SELECT+1&limit=0", 422),
        ("/findings?severity=awful", 422),
        ("/findings?cursor=abc", 422),
        ("/findings?cursor=" + base64.urlsafe_b64encode(b'[1, "x", 3, 4]').decode(), 422),
        ("/findings?since=yesterday", 422),
        ("/findings?since=0001-01-01T00:00:00%2B14:00", 422),
        ("/findings?until=9999-12-31T23:59:59-14:00", 422),
        *((f"/findings?cursor={made_up(place)}", 422) for place in PLACES),
        *((f"/tables/finding/rows?after={made_up(place)}", 422) for place in PLACES),
        ("/findings?limit=100000", 422),
    ],
)
def test_malformed_requests_are_problems(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"]


@pytest.mark.parametrize(
    ("params", "message"), [('["\\ud800"]', "not Unicode"), ("[" * 300 + "]" * 300, "nested")]
)
def test_hostile_parameters_are_named_and_cost_no_worker(
    client: TestClient, params: str, message: str
) -> None:
    body = f'{{"sql": "SELECT $1", "params": {params}}}'
    answer = client.post("/query", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert message in answer.json()["detail"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8321", "[::1", ""])
def test_a_name_that_was_pointed_here_is_refused(client: TestClient, host: str) -> None:
    """DNS rebinding: a page elsewhere whose name means this machine for a moment."""
    for path in ("/query?sql=SELECT+1", "/findings", "/healthz", "/"):
        assert client.get(path, headers={"Host": host}).status_code == 421
    for name in ("localhost:8321", "127.0.0.1:1", "[::1]:8321"):
        assert client.get("/healthz", headers={"Host": name}).status_code == 200


def test_a_fault_is_a_problem_document_that_tells_nothing(
    fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(Settings(store=fleet), workers=0)
    monkeypatch.setattr(app.state.lake, "seen_by", lambda _: int("secret"))
    client = TestClient(app, base_url="http://localhost", raise_server_exceptions=False)
    answer = client.get("/findings")
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "ValueError" in answer.json()["detail"]
    assert "secret" not in answer.text


def test_large_bodies_are_refused(client: TestClient) -> None:
    assert client.post("/query", content=b"x" * (2 << 20)).status_code == 413


def test_nothing_points_outside(client: TestClient) -> None:
    page = client.get("/").text + client.get("/docs").text
    static = [p.read_text() for p in Path("api/static").glob("*.*")] if Path("api").exists() else []
    for text in (page, *static):
        # the SVG namespace is a name, not an address
        assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    for asset in re.findall(r'(?:src|href|url)[=:] ?["\'](/[^"\']+)', page):
        assert client.get(asset).status_code == 200, asset


def test_the_page_may_run_nothing_but_its_own_script(client: TestClient) -> None:
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_openapi_describes_every_answer(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    tables = {f"/tables/{name}/rows" for name in load_catalog().tables}
    assert set(paths) == tables | {
        "/healthz", "/metrics", "/tables", "/tables/{name}", "/findings", "/findings/{finding_id}",
        "/detectors", "/query",
    }  # fmt: skip
    for operations in paths.values():
        for method, operation in operations.items():
            assert method in {"get", "post"}
            assert operation.get("description")


def test_the_api_loads_no_heavy_library() -> None:
    script = (
        "import sys; from fleetmark.api.app import create_app\n"
        "print([m for m in ('pandas', 'matplotlib', 'playwright', 'grafana_foundation_sdk') "
        "if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
