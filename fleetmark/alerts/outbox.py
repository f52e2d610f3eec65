"""The outbox: each page once to each channel, over kills, refusals and restarts.

The row is written before the first try and closed after the receiver took it. A kill between the two
sends again, with the same Idempotency-Key (the finding's id and the channel), so a receiver can drop the
repeat; what is closed is never sent again. What is not told has a row that says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from fleetmark.alerts import channels
from fleetmark.alerts.content import context_of, payload
from fleetmark.alerts.pages import SEVERITIES, Decision, decide
from fleetmark.catalog import Catalog
from fleetmark.settings import Webhook
from fleetmark.store import Store

# So many a run and channel; the rest waits for the next run, so that a storm drowns nobody.
MOST_PER_RUN = 50
# What registered work cannot hide: it is acknowledged, by a verdict.
NEVER_SUPPRESSED = ("log_tampered", "log_silence", "canary_touched")


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
    """Send every page that a channel has not had yet. Failures stay pending for the next run."""
    return [_deliver_to(store, catalog, channel, now) for channel in webhooks]


def _deliver_to(store: Store, catalog: Catalog, channel: Webhook, now: datetime) -> Delivery:
    store.commit(lambda: _enqueue(store, catalog, channel))
    waiting = store.connection.execute(
        "SELECT f.*, d.page_id, d.score AS page_score "
        "FROM lake.finding f JOIN lake.alert_delivery d USING (finding_id) "
        "WHERE d.channel = $1 AND d.status = 'pending' ORDER BY f.detected_at, f.finding_id LIMIT $2",
        [channel.name, MOST_PER_RUN],
    ).pl()
    delivered = failed = 0
    error = ""
    with channels.session() as session:
        for finding in waiting.iter_rows(named=True):
            context = (
                context_of(store, catalog, finding) if finding["domain"] == "security" else None
            )
            body = payload(finding, catalog, context)
            problem = channels.send(session, channel, body, now)
            _close(store, finding["finding_id"], channel.name, problem, now)
            delivered += not problem
            failed += bool(problem)
            error = problem or error
    return Delivery(channel.name, delivered, failed, error)


def _enqueue(store: Store, catalog: Catalog, channel: Webhook) -> None:
    """A row for every finding that has none on this channel and is grave enough for it."""
    wanted = list(SEVERITIES[SEVERITIES.index(channel.min_severity) :])
    absent = (
        "FROM lake.finding f WHERE severity IN (SELECT unnest($2)) AND NOT EXISTS (FROM lake.alert_delivery d "
        "WHERE d.finding_id = f.finding_id AND d.channel = $1)"
    )
    store.connection.execute(
        "INSERT INTO lake.alert_delivery "
        f"SELECT finding_id, $1, 'pending', 0, NULL, NULL, NULL, NULL {absent} AND domain <> 'security'",
        [channel.name, wanted],
    )
    fresh = _rows(store, f"SELECT f.* {absent} AND domain = 'security'", [channel.name, wanted])
    if not fresh:
        return
    told = _rows(
        store,
        "SELECT f.* FROM lake.finding f JOIN lake.alert_delivery d USING (finding_id) "
        "WHERE d.channel = $1 AND d.status IN ('pending', 'delivered') AND f.domain = 'security'",
        [channel.name],
    )
    for decision in _decided(store, catalog, fresh, told):
        store.connection.execute(
            "INSERT INTO lake.alert_delivery VALUES ($1, $2, $3, 0, NULL, NULL, $4, $5)",
            [decision.finding_id, channel.name, "pending" if decision.status == "page" else decision.status,
             decision.page_id, decision.score],
        )  # fmt: skip


def _decided(
    store: Store, catalog: Catalog, fresh: list[dict[str, Any]], told: list[dict[str, Any]]
) -> list[Decision]:
    hidden = _suppressed(store, catalog)
    lawful = [f for f in fresh if f["finding_id"] in hidden]
    open_ones = [f for f in fresh if f["finding_id"] not in hidden]
    supporting = frozenset(n for n, d in catalog.detectors.items() if not d.card.pages)
    decided = decide(
        open_ones, supporting, _principals(store, catalog), told, _trust(store, catalog)
    )
    return [
        *(Decision(f["finding_id"], "suppressed", f["finding_id"], f["score"]) for f in lawful),
        *decided,
    ]


def standings(store: Store, catalog: Catalog) -> dict[str, str]:
    """What stands over findings: the verdict of people, else suppressed where they are of registered work."""
    said = store.connection.execute("SELECT finding_id, verdict FROM lake.verdict").fetchall()
    return dict.fromkeys(_suppressed(store, catalog), "suppressed") | dict(said)


def _suppressed(store: Store, catalog: Catalog) -> set[str]:
    """Findings of registered work: principal, family and, where it names one, the name of their jobs agree."""
    if "suppression" not in catalog.tables:
        return set()
    rows = store.connection.execute(
        "SELECT f.finding_id FROM lake.finding f, lake.suppression s "
        "WHERE f.domain = 'security' AND f.detector NOT IN (SELECT unnest($1)) "
        "AND len(f.principal) > 0 AND list_has_all([s.principal], f.principal) "
        "AND (s.cluster = 'default' OR list_contains(f.cluster, s.cluster)) "
        "AND json_extract_string(f.evidence, '$.family') = s.family "
        "AND f.detected_at >= s.created_ts AND f.detected_at < s.expires_ts "
        "AND (s.job_class = '' OR EXISTS (FROM lake.job_attempt j WHERE list_contains(f.job_id, j.job_id) "
        "AND j.job_name = s.job_class))",
        [list(NEVER_SUPPRESSED)],
    ).fetchall()
    return {str(row[0]) for row in rows}


def _principals(store: Store, catalog: Catalog) -> int:
    """Principals of the last week that the logs know."""
    if "principal_day" not in catalog.tables:
        return 0
    row = store.connection.execute(
        "SELECT count(DISTINCT principal) FROM lake.principal_day "
        "WHERE day_ts > (SELECT max(day_ts) FROM lake.principal_day) - INTERVAL 7 DAY"
    ).fetchone()
    return int(row[0]) if row else 0


def _trust(store: Store, catalog: Catalog) -> dict[str, float]:
    """By detector, the share of judged findings that were right, one right one added to both."""
    if "verdict" not in catalog.tables:
        return {}
    rows = store.connection.execute(
        "SELECT f.detector, (1 + count(*) FILTER (v.verdict = 'true_positive')) / (1 + count(*)) "
        "FROM lake.finding f JOIN lake.verdict v USING (finding_id) WHERE v.verdict <> 'acknowledged' GROUP BY 1"
    ).fetchall()
    return {str(name): float(share) for name, share in rows}


def _rows(store: Store, sql: str, values: list[Any]) -> list[dict[str, Any]]:
    relation: duckdb.DuckDBPyConnection = store.connection.execute(sql, values)
    return relation.pl().to_dicts()


def _close(store: Store, finding_id: str, channel: str, problem: str, now: datetime) -> None:
    store.commit(
        lambda: store.connection.execute(
            "UPDATE lake.alert_delivery SET status = $1, attempt_count = attempt_count + 1, "
            "attempted_at = $2, error = $3 WHERE finding_id = $4 AND channel = $5",
            ["pending" if problem else "delivered", now, problem or None, finding_id, channel],
        )
    )
