"""What an alert says: who, what, when, how much, why, what would explain it, what to do first.

Names in it come from logs that a thief may have written: `plain` takes out what channels would act on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fleetmark.catalog import Catalog
from fleetmark.store import Store

LONGEST = 300
_ACTED_ON = str.maketrans({"<": "(", ">": ")", "&": "+", "@": "(at)", "`": "'", "*": "·", "|": "/"})


def plain(text: object) -> str:
    """One line of text without mark-up, mentions, links or control characters, 300 characters at most."""
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+", " ", str(text))
    line = re.sub(r"(?i)\b(https?|ftp|file)://", r"\1:// ", line).translate(_ACTED_ON)
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def payload(
    finding: Mapping[str, Any], catalog: Catalog, context: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The body of an alert: the finding, its evidence as an object, what its card says, its context."""
    body = {
        name: value.isoformat() + "Z" if isinstance(value, datetime) else value
        for name, value in finding.items()
    }
    body["evidence"] = json.loads(finding["evidence"])
    detector = catalog.detectors.get(finding["detector"])
    if detector is not None:
        card = detector.card
        body |= {"title": card.title, "looks_like": card.looks_like, "todo": card.todo,
                 "misses": card.misses, "attack": list(card.attack),
                 "attack_version": card.attack_version}  # fmt: skip
    body["summary"] = summary(body)
    return body | dict(context or {})


def summary(body: Mapping[str, Any]) -> str:
    """One sentence: severity, title, who, on what, between which bounds of which quantity."""
    who = ", ".join(body["principal"][:3] or body["node"][:3] or body["ip"][:3])
    what = ", ".join(body["checkpoint"][:3] or body["bucket"][:3] or body["job_id"][:3])
    parts = [f"[{body['severity']}] {body.get('title', body['detector'])}"]
    parts += [part for part in (who, what) if part]
    bounds = [f"{body[end]:.4g}" for end in ("lower", "upper") if body[end] is not None]
    if bounds:
        parts.append(f"{' to '.join(bounds)} ({body['evidence'].get('quantity', 'measured')})")
    return plain(": ".join(parts[:2]) + "".join(f"; {part}" for part in parts[2:]))


def context_of(store: Store, catalog: Catalog, finding: Mapping[str, Any]) -> dict[str, Any]:
    """What would explain a finding of theft, listed even where there is nothing.

    overlapping_jobs   jobs of the same users, or those named, that ran in the interval
    ruled_out          explanations that the tables speak against
    related            other findings about the same principals within 7 days
    """
    jobs = _jobs(store, finding) if "job_attempt" in catalog.tables else []
    related = store.connection.execute(
        "SELECT finding_id, detector, severity FROM lake.finding "
        "WHERE len(list_intersect(principal, $1)) > 0 AND finding_id <> $2 "
        "AND abs(date_diff('hour', detected_at, $3)) <= 168 ORDER BY detected_at LIMIT 20",
        [finding["principal"], finding["finding_id"], finding["detected_at"]],
    ).fetchall()
    return {
        "overlapping_jobs": jobs,
        "ruled_out": _ruled_out(store, catalog, finding, jobs),
        "related": [dict(zip(("finding_id", "detector", "severity"), row, strict=True)) for row in related],
    }  # fmt: skip


def _jobs(store: Store, finding: Mapping[str, Any]) -> list[dict[str, Any]]:
    users = [re.split(r"[/:]", name)[-1] for name in finding["principal"]]
    rows = store.connection.execute(
        "SELECT job_id, job_name, principal, state FROM lake.job_attempt "
        "WHERE (principal IN (SELECT unnest($1)) OR job_id IN (SELECT unnest($2))) AND start_ts <= $3 "
        "AND coalesce(end_ts, observed_ts, start_ts) >= $4 ORDER BY start_ts LIMIT 20",
        [users, finding["job_id"], finding["end_ts"], finding["start_ts"]],
    ).fetchall()
    return [
        dict(zip(("job_id", "job_name", "principal", "state"), row, strict=True)) for row in rows
    ]


def _ruled_out(
    store: Store, catalog: Catalog, finding: Mapping[str, Any], jobs: list[dict[str, Any]]
) -> list[str]:
    found = []
    if "job_attempt" in catalog.tables and not jobs:
        found.append("a restart, sweep or roll-out: no job of these users ran in the interval")
    if "principal_novelty_day" in catalog.tables and finding["principal"]:
        row = store.connection.execute(
            "SELECT max(moved_count) FROM lake.principal_novelty_day WHERE trait = 'network' "
            "AND principal IN (SELECT unnest($1)) AND day_ts = date_trunc('day', $2::TIMESTAMP)",
            [finding["principal"], finding["detected_at"]],
        ).fetchone()
        if row is None or (row[0] or 0) < 3:
            found.append(
                "a change of NAT or VPN: fewer than three principals moved network that day"
            )
    if "suppression" in catalog.tables:
        found.append("registered work: no suppression holds for it")
    return found
