"""Alerts: each finding once to each channel, through an outbox that survives a kill.

The outbox row is written before the first try and closed after the receiver answered 2xx. A kill
between the two sends again, with the same Idempotency-Key (the finding's id and the channel), so a
receiver can drop the repeat; a finding that is closed is never sent again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from fleetmark.alerts.pages import SEVERITIES
from fleetmark.catalog import Catalog
from fleetmark.settings import Webhook
from fleetmark.store import Store

TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of one channel in this run."""

    channel: str
    delivered: int
    failed: int
    error: str = ""


def deliver(
    store: Store, catalog: Catalog, webhooks: Sequence[Webhook], now: datetime
) -> list[Delivery]:
    """Send every finding that a channel has not had yet. Failures stay pending for the next run."""
    return [_deliver_to(store, catalog, channel, now) for channel in webhooks]


def _deliver_to(store: Store, catalog: Catalog, channel: Webhook, now: datetime) -> Delivery:
    store.commit(lambda: _enqueue(store, channel))
    waiting = store.connection.execute(
        "SELECT f.* FROM lake.finding f JOIN lake.alert_delivery d USING (finding_id) "
        "WHERE d.channel = $1 AND d.status = 'pending' ORDER BY f.detected_at, f.finding_id",
        [channel.name],
    ).pl()
    delivered = failed = 0
    error = ""
    with _session() as session:
        for finding in waiting.iter_rows(named=True):
            problem = _post(session, channel, payload(finding, catalog))
            _close(store, finding["finding_id"], channel.name, problem, now)
            delivered += not problem
            failed += bool(problem)
            error = problem or error
    return Delivery(channel.name, delivered, failed, error)


def _enqueue(store: Store, channel: Webhook) -> None:
    wanted = SEVERITIES[SEVERITIES.index(channel.min_severity) :]
    store.connection.execute(
        "INSERT INTO lake.alert_delivery "
        "SELECT finding_id, $1, 'pending', 0, NULL, NULL FROM lake.finding f "
        "WHERE severity IN (SELECT unnest($2)) AND NOT EXISTS (SELECT 1 FROM lake.alert_delivery d "
        "WHERE d.finding_id = f.finding_id AND d.channel = $1)",
        [channel.name, list(wanted)],
    )


def _session() -> requests.Session:
    session = requests.Session()
    retry = Retry(
        total=3,
        backoff_factor=0.2,
        status_forcelist=(429, 500, 502, 503, 504),
        allowed_methods=("POST",),
        raise_on_status=False,
    )
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    return session


def _post(session: requests.Session, channel: Webhook, body: dict[str, Any]) -> str:
    """'' when delivered, else what went wrong. Neither URL nor body goes into the message."""
    if channel.missing:
        return channel.missing
    key = f"{body['finding_id']}/{channel.name}"
    try:
        answer = session.post(
            channel.url,
            data=json.dumps(body),
            headers={"Content-Type": "application/json", "Idempotency-Key": key},
            timeout=TIMEOUT_S,
            allow_redirects=False,
        )
    except requests.RequestException as error:
        return type(error).__name__
    return "" if 200 <= answer.status_code < 300 else f"the receiver answered {answer.status_code}"


def _close(store: Store, finding_id: str, channel: str, problem: str, now: datetime) -> None:
    store.commit(
        lambda: store.connection.execute(
            "UPDATE lake.alert_delivery SET status = $1, attempt_count = attempt_count + 1, "
            "attempted_at = $2, error = $3 WHERE finding_id = $4 AND channel = $5",
            ["pending" if problem else "delivered", now, problem or None, finding_id, channel],
        )
    )


def payload(finding: dict[str, Any], catalog: Catalog) -> dict[str, Any]:
    """The body of an alert: the finding, its evidence as an object, and what its card says."""
    body = {
        name: value.isoformat() + "Z" if isinstance(value, datetime) else value
        for name, value in finding.items()
    }
    body["evidence"] = json.loads(finding["evidence"])
    detector = catalog.detectors.get(finding["detector"])
    if detector is not None:
        card = detector.card
        body |= {"title": card.title, "looks_like": card.looks_like, "todo": card.todo,
                 "misses": card.misses, "attack": list(card.attack)}  # fmt: skip
    return body
