"""Who may see what: keys, tokens, roles, teams, rates, and the evidence of it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import jwt
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi.testclient import TestClient

from fleetmark.access.gate import Principal
from fleetmark.access.keys import KeyRing
from fleetmark.access.rules import Oidc, Scope, rules_of
from fleetmark.access.scope import Visibility
from fleetmark.access.tokens import TokenRefusedError, Tokens
from fleetmark.catalog import load_catalog
from fleetmark.cli import main
from fleetmark.errors import InputError, SettingsError
from fleetmark.evidence import Ledger
from fleetmark.query.snapshot import read_snapshot
from fleetmark.serve import serve
from fleetmark.settings import Settings, load_settings
from fleetmark.store import Store

create_app = import_module("fleetmark.api.app").create_app

NOW = datetime(2026, 11, 30, 12)  # noqa: DTZ001 - UTC without zone, as everywhere
TEAMS = {
    "teams": {
        "alpha": {"cluster": ["a"]},
        "vision": {"account": ["vision"]},
        "both": {"cluster": ["b"], "account": ["vision"]},
    },
    "requests_per_min": 100_000,
}
FILL = {
    "job": "SELECT c AS cluster, c || n AS job_id, DATE '2026-11-01' AS job_ts, 'vision' AS account "
    "FROM (VALUES ('a', 1), ('b', 1)) t(c, n) UNION ALL BY NAME "
    "SELECT 'a' AS cluster, 'a2' AS job_id, DATE '2026-11-01' AS job_ts, 'text' AS account",
    "train_step": "SELECT cluster, job_id, 1 AS attempt, 1 AS step, job_ts AS ts FROM lake.job",
    "goodput_day": "SELECT c AS cluster, DATE '2026-11-01' AS day_ts FROM (VALUES ('a'), ('b')) t(c)",
    "storage_access": "SELECT 'a' AS cluster, 'weights' AS bucket, 'r1' AS request_id, 'GET' AS operation, "
    "'k' AS object_key, '' AS version_id, '200' AS answer, DATE '2026-11-01' AS ts",
    "finding": "SELECT i AS finding_id, 'x' AS detector, d AS domain, 'k' AS kind, 1.0 AS score, "
    "'high' AS severity, DATE '2026-11-01' AS start_ts, start_ts AS end_ts, start_ts AS detected_at, "
    "'{}' AS evidence, c AS cluster, j AS job_id FROM (VALUES "
    "('theft', 'security', ['a'], []), ('slow a1', 'performance', ['a'], ['a1']), "
    "('slow a2', 'performance', ['a'], ['a2']), ('both', 'performance', ['a', 'b'], ['a1', 'b1'])"
    ") t(i, d, c, j)",
    "stream_position": "SELECT 'i' AS input, s AS topic, 0 AS partition, s AS source, s AS file_id, 1 AS next_offset "
    "FROM (VALUES ('s3_access'), ('sacct')) t(s)",
    "contract_result": "SELECT s AS table_name, '' AS source, 'd' AS scope, 'e' AS expectation, 'error' AS severity, true AS success "
    "FROM (VALUES ('storage_access'), ('weight_read'), ('job')) t(s)",
    "reject": "SELECT s AS source, 'f' AS path, s AS file_id, 1 AS line_no, 'bad' AS reason, 'x' AS text "
    "FROM (VALUES ('s3_access'), ('sacct')) t(s)",
}  # fmt: skip


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clusters, two accounts, one read of weights, findings of both domains."""
    root = tmp_path_factory.mktemp("guarded") / "store"
    with Store(root, memory_mb=512) as store:
        store.ensure(load_catalog().tables.values())
        for table, rows in FILL.items():
            fill = f"INSERT INTO lake.{table} BY NAME {rows}"
            store.commit(lambda fill=fill: store.connection.execute(fill))  # type: ignore[misc]  # bound per table
    return root


@pytest.fixture(scope="module")
def door(guarded: Path) -> TestClient:
    """The application itself, without workers."""
    return TestClient(create_app(Settings(store=guarded, auth=TEAMS), workers=0))


Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(guarded: Path) -> Iterator[Ask]:
    """GET a path, or POST SQL, with the key of a role (and team)."""
    settings = Settings(store=guarded, auth=TEAMS)
    ring, keys = KeyRing(rules_of(settings).keys), {}
    with ExitStack() as stack:
        client = stack.enter_context(TestClient(create_app(settings)))

        def asked(role: str, what: str, *, team: str | None = None) -> Any:
            if (role, team) not in keys:
                keys[role, team] = ring.create("test", role, NOW, team=team)  # type: ignore[arg-type]  # a role
            headers = {"Authorization": f"Bearer {keys[role, team]}"}
            if what.startswith("/"):
                return client.get(what, headers=headers)
            return client.post("/query", json={"sql": what}, headers=headers)

        yield asked


def column(answer: Any) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [next(iter(row.values())) for row in answer.json()["rows"]]


@pytest.mark.parametrize("path", ["/", "/tables", "/findings", "/query?sql=SELECT+1", "/nothing"])
@pytest.mark.parametrize(
    "header",
    ["", "Bearer x", "Bearer fmk_00000000_" + "A" * 43, "Basic !", "Digest x", "Bearer a.b.c"],
)
def test_nobody_enters_unknown(path: str, header: str, door: TestClient) -> None:
    answer = door.get(path, headers={"Authorization": header} if header else {})
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Basic" in answer.headers["www-authenticate"]


def test_health_and_documentation_are_open(door: TestClient) -> None:
    for path in ("/healthz", "/openapi.json", "/docs", "/static/page.css"):
        assert door.get(path).status_code == 200


@pytest.mark.parametrize(
    ("role", "sql", "storage", "findings", "rejects"),
    [
        ("viewer", 403, 404, 3, 403),
        ("planner", 200, 404, 3, 1),
        ("security", 200, 200, 4, 2),
        ("admin", 200, 200, 4, 2),
    ],
)
def test_roles(role: str, sql: int, storage: int, findings: int, rejects: int, ask: Ask) -> None:
    assert ask(role, "SELECT count(*) FROM goodput_day").status_code == sql
    assert ask(role, "/tables/storage_access").status_code == storage
    assert ask(role, "/findings").json()["total"] == findings
    assert ask(role, "/findings/theft").status_code == (200 if findings == 4 else 404)
    assert ask(role, "/tables/goodput_day").status_code == 200
    listed = {table["name"] for table in ask(role, "/tables").json()["tables"]}
    assert ("storage_access" in listed) == (storage == 200)
    if sql == 200:
        assert len(column(ask(role, "SELECT file_id FROM reject"))) == rejects


def test_bookkeeping_of_storage_logs_is_as_secret_as_they(ask: Ask) -> None:
    streams, results = (
        "SELECT source FROM stream_position",
        "SELECT table_name FROM contract_result",
    )
    assert column(ask("planner", streams)) == ["sacct"]
    assert sorted(column(ask("security", streams))) == ["s3_access", "sacct"]
    assert column(ask("planner", results)) == ["job"]
    assert len(column(ask("security", results))) == 3
    listed = ask("viewer", "/tables/contract_result/rows").json()
    assert [row["table_name"] for row in listed["rows"]] == ["job"]


def test_a_model_over_storage_access_is_as_secret_as_it(ask: Ask) -> None:
    for name in ("storage_access", "checkpoint_read_day", "manifest_object", "alert_delivery"):
        assert ask("planner", f"SELECT * FROM {name}").status_code == 403
        assert ask("security", f"SELECT * FROM {name}").status_code == 200


def test_detectors_of_security_are_not_told_to_everybody(ask: Ask) -> None:
    assert "uncovered_coverage" in ask("security", "/detectors").text
    assert "uncovered_coverage" not in ask("viewer", "/detectors").text


@pytest.mark.parametrize(
    ("team", "jobs", "steps", "days", "findings"),
    [
        ("alpha", ["a1", "a2"], ["a1", "a2"], ["a"], {"slow a1", "slow a2", "theft"}),
        ("vision", ["a1", "b1"], ["a1", "b1"], None, {"slow a1"}),
        ("both", ["b1"], ["b1"], None, set()),
        (None, ["a1", "a2", "b1"], ["a1", "a2", "b1"], ["a", "b"], None),
    ],
)
def test_teams_see_their_rows(
    team: str | None, jobs: list[str], steps: list[str], days: list[str] | None,
    findings: set[str] | None, ask: Ask,
) -> None:  # fmt: skip
    def rows(sql: str) -> Any:
        return ask("security", sql, team=team)

    assert column(rows("SELECT job_id FROM job ORDER BY 1")) == jobs
    assert column(rows("SELECT job_id FROM train_step ORDER BY 1")) == steps
    answer = rows("SELECT cluster FROM goodput_day ORDER BY 1")
    assert (None if answer.status_code == 403 else column(answer)) == days
    if findings is not None:
        assert set(column(rows("SELECT finding_id FROM finding"))) == findings
        listed = ask("security", "/findings", team=team).json()
        assert {item["finding_id"] for item in listed["items"]} == findings
    counted = ask("viewer", "/tables/job", team=team).json()
    assert counted["row_count"] == len(jobs)


def test_a_store_below_a_folder_called_like_a_cluster_opens_nothing(tmp_path: Path) -> None:
    """Files are a cluster's by the folder below the lake, never by one above it."""
    root = tmp_path / "cluster=a" / "store"
    root.parent.mkdir()
    catalog = load_catalog()
    with Store(root, memory_mb=512) as store:
        store.ensure([catalog.tables["goodput_day"]])
        fill = f"INSERT INTO lake.goodput_day BY NAME {FILL['goodput_day']}"
        store.commit(lambda: store.connection.execute(fill))
        snapshot = read_snapshot(store, [catalog.tables["goodput_day"]])
        seen = Visibility(catalog).narrowed(snapshot, Principal("x", "planner", (Scope(("a",)),)))
        rows = store.connection.execute(f"SELECT cluster FROM ({seen.view('goodput_day').sql})")
        assert rows.fetchall() == [("a",)]


def test_a_team_that_is_gone_sees_nothing(guarded: Path, door: TestClient) -> None:
    key = KeyRing(guarded / "access" / "keys.json").create("old", "admin", NOW, team="gone")
    assert door.get("/tables", headers={"Authorization": f"Bearer {key}"}).status_code == 403


def test_keys_are_hashed_expire_and_can_be_revoked(tmp_path: Path) -> None:
    ring = KeyRing(tmp_path / "keys.json")
    text = ring.create("grafana", "planner", NOW, days=1)
    stored = (tmp_path / "keys.json").read_text()
    assert text.rsplit("_", 1)[1] not in stored
    assert (tmp_path / "keys.json").stat().st_mode & 0o077 == 0
    key = ring.known(text, NOW)
    assert key is not None
    assert key.name == "grafana"
    assert ring.known(text[:-1] + ("A" if text[-1] != "A" else "B"), NOW) is None
    assert ring.known(text, NOW + timedelta(days=1)) is None
    KeyRing(tmp_path / "keys.json").revoke(key.id, NOW)  # another process
    assert ring.known(text, NOW) is None
    with pytest.raises(InputError, match="no key"):
        ring.revoke("00000000", NOW)


def test_the_command_makes_lists_and_revokes(tmp_path: Path) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, ["key", *arguments, "--store", str(tmp_path)])
        return done.exit_code, done.stdout

    code, key = run("create", "grafana", "--role", "planner")
    assert (code, key[:4]) == (0, "fmk_")
    assert run("create", "x", "--role", "planner", "--team", "none")[0] == 2
    code, listed = run("list", "--json")
    (entry,) = json.loads(listed)
    assert entry["role"] == "planner"
    assert key.strip() not in listed
    assert run("revoke", entry["id"])[0] == 0
    assert json.loads(run("list", "--json")[1])[0]["revoked_at"]


def test_basic_credentials_carry_a_key(guarded: Path, door: TestClient) -> None:
    key = KeyRing(guarded / "access" / "keys.json").create("browser", "viewer", NOW)
    basic = base64.b64encode(f"anybody:{key}".encode()).decode()
    assert door.get("/tables/job", headers={"Authorization": f"Basic {basic}"}).status_code == 200


def test_too_many_requests_are_told_when_to_come_back(guarded: Path) -> None:
    key = KeyRing(guarded / "access" / "keys.json").create("busy", "viewer", NOW)
    app = create_app(Settings(store=guarded, auth={"requests_per_min": 3}), workers=0)
    client = TestClient(app)
    codes = [client.get("/detectors", headers={"Authorization": f"Bearer {key}"}) for _ in range(4)]
    assert [answer.status_code for answer in codes] == [200, 200, 200, 429]
    assert 1 <= int(codes[-1].headers["retry-after"]) <= 20


def test_every_query_leaves_evidence(ask: Ask, guarded: Path) -> None:
    with Ledger(guarded, lambda: NOW) as ledger:
        before = ledger.head().number
        ask("planner", "SELECT job_id FROM job")
        ask("viewer", "SELECT 2")
        ask("viewer", "/findings?limit=1")
        entries = [json.loads(entry.body) for entry in ledger.entries(after=before)]
        assert ledger.verify() == []
    first, second, third = entries
    assert (first["sql"], first["row_count"], first["status"]) == ("SELECT job_id FROM job", 3, 200)
    assert first["who"].endswith(":test")
    assert first["body_bytes"] > 50
    assert "params" not in first
    assert first["complete"]
    assert second["status"] == 403
    assert third["query"] == "limit=1"


def test_evidence_holds_the_values_that_were_asked_for(guarded: Path) -> None:
    key = KeyRing(guarded / "access" / "keys.json").create("who", "planner", NOW)
    with TestClient(create_app(Settings(store=guarded), workers=1)) as client:
        asked = {"sql": "SELECT job_id FROM job WHERE job_id = $j", "params": {"j": "a\ud800"}}
        for name in ("a1", "a\ud800"):
            asked["params"] = {"j": name}
            client.post("/query", content=json.dumps(asked), headers={
                "Authorization": f"Bearer {key}", "Content-Type": "application/json"})  # fmt: skip
    with Ledger(guarded, lambda: NOW) as ledger:
        bodies = [json.loads(entry.body) for entry in ledger.entries()][-2:]
    assert [body["params"] for body in bodies] == ['{"j": "a1"}', '{"j": "a\\ud800"}']


def test_what_cannot_be_written_down_is_not_answered(guarded: Path) -> None:
    app = create_app(Settings(store=guarded), workers=0)
    key = KeyRing(guarded / "access" / "keys.json").create("x", "admin", NOW)
    with TestClient(app) as client:
        ledger = app.user_middleware[0].kwargs["ledger"]()
        ledger.close()
        answer = client.get("/tables/job", headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 503
    assert "row_count" not in answer.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[auth]\nkey = 1", "unknown setting key"),
        ("[auth]\nrequests_per_min = 0", "whole number from 1"),
        ("[auth.oidc]\nissuer = 'https://x'", "needs audience"),
        ("[auth.oidc]\nissuer = 'http://x'\naudience = 'a'", "https://"),
        (
            "[auth.oidc]\nissuer = 'https://x'\naudience = 'a'\n[auth.oidc.roles]\nx = 'root'",
            "root",
        ),
        ("[auth.teams.a]", "must say cluster"),
        ("[auth.teams.a]\ncluster = 'x'", "list of names"),
    ],
)
def test_wrong_settings_are_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(SettingsError, match=message):
        rules_of(load_settings({}, config=tmp_path / "f.toml"))


def test_wider_than_this_machine_only_with_authentication(tmp_path: Path) -> None:
    settings = Settings(store=tmp_path / "store")
    with pytest.raises(InputError, match="without authentication"):
        serve(settings, "0.0.0.0", 0, print)  # noqa: S104 - it is refused
    KeyRing(rules_of(settings).keys).create("first", "admin", NOW)
    with pytest.raises(InputError, match="port"):
        serve(settings, "192.0.2.1", 0, print)  # not an address of this machine


# OIDC: tokens signed here, judged by what an issuer would publish.
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OIDC = Oidc(
    "https://issuer", "fleetmark", "https://issuer/keys", "roles", "teams", {"sre": "planner", "soc": "security"},
)  # fmt: skip


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> Tokens:
    published = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    keys = {"keys": [{**published, "kid": "one", "use": "sig", "alg": "RS256"}]}
    monkeypatch.setattr(jwt.PyJWKClient, "fetch_data", lambda _: keys)
    return Tokens(OIDC)


def token(key: Any = KEY, algorithm: str = "RS256", **claims: Any) -> str:
    good = {"iss": "https://issuer", "aud": "fleetmark", "sub": "person", "exp": time.time() + 60,
            "roles": ["sre"], "teams": ["alpha"]}  # fmt: skip
    body = {name: value for name, value in {**good, **claims}.items() if value is not None}
    return jwt.encode(body, key, algorithm, headers={"kid": "one"})


def test_a_good_token_says_role_and_teams(tokens: Tokens) -> None:
    claims = tokens.known(token(roles=["sre", "soc", "other"]))
    assert (claims.subject, claims.role, claims.teams) == ("person", "security", ("alpha",))


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": time.time() - 60},
        {"exp": None},
        {"nbf": time.time() + 3600},
        {"iss": "https://elsewhere"},
        {"aud": "another"},
        {"aud": None},
        {"sub": None},
        {"roles": ["other"]},
        {"roles": None},
        {"roles": {"sre": True}},
        {"teams": None},
        {"teams": []},
        {"key": OTHER},
        {"key": "k" * 32, "algorithm": "HS256"},
        {"key": None, "algorithm": "none"},
    ],
)
def test_a_bad_token_is_refused(claims: dict[str, Any], tokens: Tokens) -> None:
    with pytest.raises(TokenRefusedError):
        tokens.known(token(**claims))


def test_a_token_opens_the_api(guarded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))
    monkeypatch.setattr(
        jwt.PyJWKClient, "fetch_data", lambda _: {"keys": [{**published, "kid": "one"}]}
    )
    oidc = {"issuer": OIDC.issuer, "audience": OIDC.audience, "jwks_url": OIDC.jwks_url,
            "team_claim": "teams", "roles": dict(OIDC.roles)}  # fmt: skip
    app = create_app(Settings(store=guarded, auth={**TEAMS, "oidc": oidc}), workers=0)
    client = TestClient(app)
    answer = client.get("/tables/job", headers={"Authorization": f"Bearer {token()}"})
    assert answer.status_code == 200
    assert answer.json()["row_count"] == 2
    answer = client.get("/tables/job", headers={"Authorization": f"Bearer {token(key=OTHER)}"})
    assert answer.status_code == 401
