"""The receiver: bodies on disk before the sender is told, nobody without the token, and metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from fleetmark.live import receive
from fleetmark.live.inputs import Run, Webhook
from fleetmark.live.status import Status, save
from fleetmark.secret import Secret
from fleetmark.settings import Settings
from fleetmark.testing import EPOCH


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "token").write_text("s3cret\n")
    hooks = [
        Webhook(name="open", source="s3_access", max_body_bytes=100),
        Webhook(name="closed", source="s3_access", token=Secret(file=str(tmp_path / "token"))),
    ]
    return TestClient(receive.receiver(Settings(store=tmp_path), hooks, Run(), lambda: EPOCH))


def spooled(root: Path, name: str) -> list[str]:
    return sorted(path.read_text() for path in (root / "spool" / name).glob("*"))


def test_a_body_is_on_disk_when_it_is_taken(client: TestClient, tmp_path: Path) -> None:
    assert client.post("/hooks/open", content="one").status_code == 202
    assert client.post("/hooks/open", content="two\n").status_code == 202
    assert spooled(tmp_path, "open") == ["one\n", "two\n"]


def test_an_empty_body_tries_the_connection(client: TestClient, tmp_path: Path) -> None:
    assert client.post("/hooks/open").status_code == 202
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize(
    "header", [{}, {"Authorization": "Bearer other"}, {"Authorization": "s3cret"}]
)
def test_nobody_without_the_token(
    header: dict[str, str], client: TestClient, tmp_path: Path
) -> None:
    answer = client.post("/hooks/closed", content="x", headers=header)
    assert answer.status_code == 401
    assert "Bearer" in answer.json()["title"]
    assert not (tmp_path / "spool").exists()


def test_a_renewed_token_counts_at_once(client: TestClient, tmp_path: Path) -> None:
    def post(token: str) -> int:
        header = {"Authorization": f"Bearer {token}"}
        return client.post("/hooks/closed", content="x", headers=header).status_code

    assert post("s3cret") == 202
    (tmp_path / "token").write_text("new")
    assert (post("s3cret"), post("new")) == (401, 202)
    (tmp_path / "token").unlink()
    assert post("new") == 401


def test_refusals(client: TestClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert client.post("/hooks/other", content="x").status_code == 404
    assert client.post("/hooks/..%2F..%2Fetc", content="x").status_code == 404
    assert client.post("/hooks/open", content="x" * 101).status_code == 413
    monkeypatch.setattr(receive, "FREE_BYTES", 1 << 60)
    full = client.post("/hooks/open", content="x")
    assert (full.status_code, full.json()["title"]) == (
        503,
        "the disk is nearly full: send it again later",
    )
    assert spooled(tmp_path, "open") == []


def test_readiness_and_metrics(client: TestClient, tmp_path: Path) -> None:
    fine, bad = Status("gpus", "prometheus"), Status("audit", "kafka", lag_count=12)
    fine.succeeded(EPOCH, rows=5, rejects=1)
    fine.last_success = "2999-01-01T00:00:00"
    save(tmp_path, fine)
    assert client.get("/readyz").status_code == 200
    bad.failed("no broker\nat all")
    save(tmp_path, bad)
    (tmp_path / "run" / "half.json").write_text('{"name":')
    ready = client.get("/readyz")
    assert (ready.status_code, ready.text) == (503, "audit: no broker\nat all\n")
    page = client.get("/metrics").text
    assert 'fleetmark_input_rows_total{input="gpus",kind="prometheus"} 5.0' in page
    assert 'fleetmark_input_rejects_total{input="gpus",kind="prometheus"} 1.0' in page
    assert 'fleetmark_input_up{input="audit",kind="kafka"} 0.0' in page
    assert 'fleetmark_input_lag{input="audit",kind="kafka"} 12.0' in page
    assert client.get("/healthz").text == "ok\n"
    assert json.loads((tmp_path / "run" / "audit.json").read_text())["failure_count"] == 1
