"""Delivery to a real HTTP receiver on loopback: once each, retried, never lost."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from fleetmark import alerts
from fleetmark.alerts import Delivery, channels, outbox
from fleetmark.alerts.content import plain
from fleetmark.catalog import Catalog
from fleetmark.evidence import Ledger
from fleetmark.pipeline.build import build
from fleetmark.pipeline.detect import detect
from fleetmark.pipeline.run import ingest
from fleetmark.settings import Webhook
from fleetmark.store import Store
from fleetmark.testing import EPOCH
from tests.services import alert_receiver


def deliver(
    store: Store, catalog: Catalog, hooks: Sequence[Webhook], now: datetime
) -> list[Delivery]:
    with Ledger(store.root, lambda: now) as ledger:
        return alerts.deliver(store, catalog, hooks, now, ledger)


@dataclass
class Receiver:
    """Records what arrives and answers with the next of `answers`, then 204."""

    url: str
    bodies: list[Any] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    recorded = Receiver("")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            recorded.bodies.append(json.loads(body))
            recorded.texts.append(body.decode())
            recorded.headers.append(dict(self.headers))
            recorded.keys.append(self.headers["Idempotency-Key"])
            self.send_response(recorded.answers.pop(0) if recorded.answers else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorded.url = f"http://127.0.0.1:{server.server_port}/hook?secret=hush"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield recorded
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def found(store: Store, example: Catalog, tmp_path: Path) -> Store:
    """A store with two findings."""
    log = tmp_path / "gate.log"
    log.write_text("".join(
        f"2026-01-01T00:00:0{n} {who} front\n" for n in range(5) for who in ("ann", "bob")
    ))  # fmt: skip
    list(ingest(store, example, "gate_log", [log], {}, {}, EPOCH))
    build(store, example, {})
    detect(store, example, {}, EPOCH)
    return store


def test_each_finding_once_however_often_it_runs(
    found: Store, example: Catalog, receiver: Receiver
) -> None:
    hook = Webhook("desk", receiver.url, "low")
    assert deliver(found, example, [hook], EPOCH) == [Delivery("desk", 2, 0)]
    detect(found, example, {}, EPOCH)
    assert deliver(found, example, [hook], EPOCH) == [Delivery("desk", 0, 0)]
    assert sorted(b["principal"][0] for b in receiver.bodies) == ["ann", "bob"]
    body = receiver.bodies[0]
    assert body["evidence"] == {"passages": 5}
    assert (body["title"], body["misses"]) == ("Somebody is restless", "Passages through windows.")
    assert receiver.keys == [f"{b['finding_id']}/low/desk" for b in receiver.bodies]


def test_a_refusal_is_kept_and_sent_again(
    found: Store, example: Catalog, receiver: Receiver
) -> None:
    hook = Webhook("desk", receiver.url, "low")
    receiver.answers = [403, 204]
    (first,) = deliver(found, example, [hook], EPOCH)
    assert (first.delivered, first.failed, first.error) == (1, 1, "the receiver answered 403")
    (second,) = deliver(found, example, [hook], EPOCH)
    assert (second.delivered, second.failed) == (1, 0)
    assert len({b["finding_id"] for b in receiver.bodies}) == 2
    rows = found.connection.execute(
        "SELECT status, attempt_count FROM lake.alert_delivery ORDER BY attempt_count"
    ).fetchall()
    assert rows == [("delivered", 1), ("delivered", 2)]


def test_a_short_fault_is_bridged(found: Store, example: Catalog, receiver: Receiver) -> None:
    receiver.answers = [503, 503]
    assert deliver(found, example, [Webhook("desk", receiver.url, "low")], EPOCH) == [
        Delivery("desk", 2, 0)
    ]


def test_nobody_there_loses_nothing_and_tells_no_secret(
    found: Store, example: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "TIMEOUT_S", 1)
    (sent,) = deliver(
        found, example, [Webhook("desk", "http://127.0.0.1:9/x?secret=hush", "low")], EPOCH
    )
    assert (sent.delivered, sent.failed) == (0, 2)
    assert "hush" not in sent.error
    rows = found.connection.execute("SELECT status, error FROM lake.alert_delivery").fetchall()
    assert {status for status, _ in rows} == {"pending"}
    assert not any("hush" in error for _, error in rows)


def test_without_its_secret_a_channel_waits(
    found: Store, example: Catalog, receiver: Receiver
) -> None:
    """Detection has run: its findings go out when the URL is there."""
    lacking = Webhook("desk", "", "low", missing="url_env: the environment variable X is not set")
    (sent,) = deliver(found, example, [lacking], EPOCH)
    assert (sent.delivered, sent.failed) == (0, 2)
    assert sent.error == "url_env: the environment variable X is not set"
    (sent,) = deliver(found, example, [Webhook("desk", receiver.url, "low")], EPOCH)
    assert (sent.delivered, sent.failed) == (2, 0)


def test_below_the_channel_s_severity_nothing_is_sent(
    found: Store, example: Catalog, receiver: Receiver
) -> None:
    assert deliver(found, example, [Webhook("desk", receiver.url, "medium")], EPOCH) == [
        Delivery("desk", 0, 0)
    ]
    assert receiver.bodies == []


def test_a_signed_body_can_be_checked_by_the_receiver(
    found: Store, example: Catalog, receiver: Receiver
) -> None:
    hook = Webhook("desk", receiver.url, "low", secret="hush")  # noqa: S106 - of a test
    deliver(found, example, [hook], EPOCH)
    for headers, text in zip(receiver.headers, receiver.texts, strict=True):
        stamp = headers["X-Fleetmark-Timestamp"]
        made = hmac.new(b"hush", f"{stamp}.{text}".encode(), hashlib.sha256).hexdigest()
        assert headers["X-Fleetmark-Signature"] == f"sha256={made}"


def test_ocsf_and_alertmanager_bodies(found: Store, example: Catalog, receiver: Receiver) -> None:
    hooks = [Webhook("siem", receiver.url, "low", kind="ocsf"),
             Webhook("am", receiver.url.split("/hook")[0], "low", kind="alertmanager")]  # fmt: skip
    assert [d.delivered for d in deliver(found, example, hooks, EPOCH)] == [2, 2]
    siem, alert = receiver.bodies[0], receiver.bodies[2][0]
    assert (siem["class_uid"], siem["type_uid"], siem["is_alert"]) == (2004, 200401, True)
    assert siem["finding_info"]["analytic"]["uid"] == alert["labels"]["alertname"]
    assert alert["labels"]["principal"] in ("ann", "bob")
    assert alert["startsAt"] < alert["endsAt"] or alert["startsAt"].startswith("2026")


@pytest.mark.filterwarnings("ignore:'imghdr':DeprecationWarning")  # Apprise imports it
def test_people_are_told_through_apprise(
    found: Store, example: Catalog, receiver: Receiver
) -> None:
    host = receiver.url.removeprefix("http://").split("/")[0]
    hook = Webhook("people", f"json://{host}/", "low", kind="apprise")
    assert deliver(found, example, [hook], EPOCH) == [Delivery("people", 2, 0)]
    assert "who: ann" in receiver.bodies[0]["message"]
    (sent,) = deliver(found, example, [Webhook("x", "nosuch:", "low", kind="apprise")], EPOCH)
    assert (sent.failed, sent.error) == (2, "the URL is none that Apprise knows")


def test_what_a_thief_writes_into_a_log_is_no_mark_up() -> None:
    hostile = "a\x1b[31m\n<!channel> @here `x` |<https://evil.example|click>\u202e" + "z" * 400
    text = plain(hostile)
    assert not set(text) & set("\x1b\n<>@`|\u202e")
    assert "https://evil" not in text
    assert len(text) == 300


def test_a_storm_is_sent_in_parts(
    found: Store, example: Catalog, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "MOST_PER_RUN", 1)
    hook = Webhook("desk", receiver.url, "low")
    assert [deliver(found, example, [hook], EPOCH)[0].delivered for _ in range(3)] == [1, 1, 0]


@pytest.mark.services
@pytest.mark.skipif(
    alert_receiver.PROGRAM is None, reason="prometheus-alertmanager is not installed"
)
def test_the_real_alertmanager_shows_each_page(
    found: Store, example: Catalog, tmp_path: Path
) -> None:
    with alert_receiver.running(tmp_path) as url:
        hook = Webhook("am", url, "low", kind="alertmanager")
        today = datetime.now(UTC).replace(tzinfo=None)
        assert deliver(found, example, [hook], today) == [Delivery("am", 2, 0)]
        alerts = requests.get(f"{url}/api/v2/alerts", timeout=5).json()
    assert sorted(a["labels"]["principal"] for a in alerts) == ["ann", "bob"]
    assert all("who: " in a["annotations"]["description"] for a in alerts)
