"""How each kind of channel is told: JSON, OCSF, Alertmanager, or people through Apprise.

Neither URL nor body goes into an error message: both may hold secrets.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from fleetmark.alerts.content import plain
from fleetmark.settings import Webhook

TIMEOUT_S = 10
OCSF_VERSION = "1.5.0"
_SEVERITY_ID = {"info": 1, "low": 2, "medium": 3, "high": 4, "critical": 5}
# Alertmanager resolves what is not sent again; a page stays until people have had a day.
_ALERT_STAYS = timedelta(days=1)

Body = Mapping[str, Any]


def session() -> requests.Session:
    """One that bridges short faults; refusals come back at once."""
    made = requests.Session()
    retry = Retry(
        total=3,
        backoff_factor=0.2,
        status_forcelist=(429, 500, 502, 503, 504),
        allowed_methods=("POST",),
        raise_on_status=False,
    )
    for scheme in ("http://", "https://"):
        made.mount(scheme, HTTPAdapter(max_retries=retry))
    return made


def send(opened: requests.Session, channel: Webhook, body: Body, now: datetime) -> str:
    """'' when delivered, else what went wrong."""
    if channel.missing:
        return channel.missing
    if channel.kind == "apprise":
        return _tell_people(channel, body)
    if channel.kind == "alertmanager":
        return _post(
            opened,
            channel,
            channel.url.rstrip("/") + "/api/v2/alerts",
            [alert(body, now)],
            body,
            now,
        )
    return _post(
        opened, channel, channel.url, ocsf(body, now) if channel.kind == "ocsf" else body, body, now
    )


def _post(
    opened: requests.Session, channel: Webhook, url: str, sent: object, body: Body, now: datetime
) -> str:
    text = json.dumps(sent)
    headers = {
        "Content-Type": "application/json",
        "Idempotency-Key": f"{body['finding_id']}/{body['severity']}/{channel.name}",
    }
    if channel.secret:
        stamp = str(int(now.replace(tzinfo=UTC).timestamp()))
        headers |= {
            "X-Fleetmark-Timestamp": stamp,
            "X-Fleetmark-Signature": signature(channel.secret, stamp, text),
        }
    try:
        answer = opened.post(
            url, data=text, headers=headers, timeout=TIMEOUT_S, allow_redirects=False
        )
    except requests.RequestException as error:
        return type(error).__name__
    return "" if 200 <= answer.status_code < 300 else f"the receiver answered {answer.status_code}"


def signature(secret: str, stamp: str, text: str) -> str:
    """`sha256=` and the HMAC of `stamp.text`, which a receiver recomputes over the body as it came."""
    made = hmac.new(secret.encode(), f"{stamp}.{text}".encode(), hashlib.sha256)
    return f"sha256={made.hexdigest()}"


def _tell_people(channel: Webhook, body: Body) -> str:
    """Slack, Teams, PagerDuty, e-mail and the rest, by Apprise's URL of the service."""
    import apprise  # noqa: PLC0415 - takes half a second, needed only where such a channel is set

    told = apprise.Apprise()
    if not told.add(channel.url):
        return "the URL is none that Apprise knows"
    kind = (
        apprise.NotifyType.FAILURE
        if body["severity"] in ("high", "critical")
        else apprise.NotifyType.WARNING
    )
    done = told.notify(title=plain(body["summary"]), body=message(body), notify_type=kind)
    return "" if done else "the service took it not"


def message(body: Body) -> str:
    """The text for people: facts first, then what would explain it, then the first step."""
    lines = [
        ("when", f"{body['start_ts']} to {body['end_ts']}, sure at {body['detected_at']}"),
        ("who", ", ".join(body["principal"]) or "-"),
        ("what", ", ".join([*body["checkpoint"], *body["bucket"]]) or "-"),
        ("from", ", ".join([*body["ip"], *body["node"]]) or "-"),
        ("evidence", json.dumps(body["evidence"], ensure_ascii=False)),
        ("jobs in that time", ", ".join(j["job_id"] for j in body.get("overlapping_jobs", [])) or "none"),
        ("ruled out", "; ".join(body.get("ruled_out", [])) or "-"),
        ("looks like", body.get("looks_like", "-")),
        ("first step", body.get("todo", "-")),
        ("finding", body["finding_id"]),
    ]  # fmt: skip
    return "\n".join(f"{name}: {plain(text)}" for name, text in lines)


def alert(body: Body, now: datetime) -> dict[str, Any]:
    """An alert of Alertmanager's API v2. Its labels are its identity: no bytes and times among them."""
    who = ", ".join(body["principal"][:5])
    labels = {
        "alertname": body["detector"], "severity": body["severity"], "domain": body["domain"],
        "page": body.get("page_id") or body["finding_id"], "principal": plain(who),
        "checkpoint": plain(", ".join(body["checkpoint"][:5])),
    }  # fmt: skip
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {"summary": plain(body["summary"]), "description": message(body), "finding_id": body["finding_id"]},
        "startsAt": body["detected_at"],
        "endsAt": (now + _ALERT_STAYS).isoformat() + "Z",
    }  # fmt: skip


def ocsf(body: Body, now: datetime) -> dict[str, Any]:
    """A Detection Finding (class 2004, activity Create) of OCSF."""
    return {
        "class_uid": 2004, "class_name": "Detection Finding", "category_uid": 2,
        "category_name": "Findings", "activity_id": 1, "type_uid": 200401, "status_id": 1,
        "severity_id": _SEVERITY_ID[body["severity"]], "severity": body["severity"].capitalize(),
        "time": _ms(body["detected_at"]), "is_alert": True,
        "confidence_score": round(body["score"] * 100), "message": body["summary"],
        "metadata": {"version": OCSF_VERSION, "uid": body["finding_id"],
                     "logged_time": int(now.replace(tzinfo=UTC).timestamp() * 1000),
                     "product": {"name": "Fleetmark", "vendor_name": "Fleetmark"}},
        "finding_info": {
            "uid": body["finding_id"], "title": body.get("title", body["detector"]), "desc": body["summary"],
            "analytic": {"uid": body["detector"], "name": body.get("title", body["detector"]), "type_id": 1,
                         "version": body["detector_version"]},
            "attacks": [{"technique": {"uid": uid}, "version": body.get("attack_version", "")}
                        for uid in body.get("attack", [])],
            "first_seen_time": _ms(body["start_ts"]), "last_seen_time": _ms(body["end_ts"]),
            "related_events": [{"uid": r["finding_id"], "type": r["detector"]} for r in body.get("related", [])],
        },
        "evidences": [{"data": body["evidence"], "actor": {"user": {"name": name}}} for name in body["principal"]]
        or [{"data": body["evidence"]}],
        "resources": [{"name": name, "type": kind} for kind in ("checkpoint", "bucket", "node") for name in body[kind]],
        "remediation": {"desc": body.get("todo", "")},
    }  # fmt: skip


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)
