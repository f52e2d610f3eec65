"""The outbox: each page once to each channel, over kills, refusals and restarts.

The row is written before the first try and closed after the receiver took it. A kill between the two
sends again, with the same Idempotency-Key (the finding's id, its severity and the channel), so a receiver can drop the
repeat; what is closed is never sent again. What is not told has a row that says why. The evidence ledger has
an entry of each before its row is closed; a ledger that cannot be written stops no alert, but the row stays open
and is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import duckdb
import polars as pl

from fleetmark.alerts import channels, record
from fleetmark.alerts.content import context_of, payload
from fleetmark.alerts.pages import GROUP, SEVERITIES, Decision, decide
from fleetmark.catalog import Catalog
from fleetmark.evidence import Ledger
from fleetmark.pipeline.write import copy_in
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
    store: Store, catalog: Catalog, webhooks: Sequence[Webhook], now: datetime, ledger: Ledger
) -> list[Delivery]:
    """Send every page that a channel has not had yet. Failures stay pending for the next run.

    Raises StoreError when the ledger cannot be written.
    """
    record.judgements(store, catalog, ledger)
    return [_deliver_to(store, catalog, channel, now, ledger) for channel in webhooks]


def _deliver_to(
    store: Store, catalog: Catalog, channel: Webhook, now: datetime, ledger: Ledger
) -> Delivery:
    store.commit(lambda: _enqueue(store, catalog, channel, now))
    record.untold(store, ledger, channel.name)
    waiting = store.connection.execute(
        "SELECT f.*, d.page_id, d.score AS page_score, d.told_ts, d.entry_number "
        "FROM lake.finding f JOIN lake.alert_delivery d USING (finding_id) "
        "WHERE d.channel = $1 AND d.status = 'pending' ORDER BY f.detected_at, f.finding_id LIMIT $2",
        [channel.name, MOST_PER_RUN],
    ).pl()
    delivered = failed = 0
    error = ""
    with channels.session() as session:
        for row in waiting.iter_rows(named=True):
            finding = {name: value for name, value in row.items() if name != "entry_number"}
            context = (
                context_of(store, catalog, finding) if finding["domain"] == "security" else None
            )
            body = payload(finding, catalog, context)
            problem = channels.send(session, channel, body, now)
            number = row["entry_number"]
            if number is None or not problem:
                number = record.told(store, catalog, ledger, channel.name, finding, body, problem)
            _close(store, finding["finding_id"], channel.name, problem, now, number)
            delivered += not problem
            failed += bool(problem)
            error = problem or error
    return Delivery(channel.name, delivered, failed, error)


def _enqueue(store: Store, catalog: Catalog, channel: Webhook, now: datetime) -> None:
    """A row for every finding that has none on this channel and is grave enough for it; of what is held,
    the pages that the budget has room for now.
    """
    wanted = list(SEVERITIES[SEVERITIES.index(channel.min_severity) :])
    absent = (
        "FROM lake.finding f WHERE severity IN (SELECT unnest($2)) AND NOT EXISTS (FROM lake.alert_delivery d "
        "WHERE d.finding_id = f.finding_id AND d.channel = $1)"
    )
    store.connection.execute(
        "INSERT INTO lake.alert_delivery BY NAME "
        f"SELECT finding_id, $1 AS channel, 'pending' AS status, 0 AS attempt_count {absent} AND domain <> 'security'",
        [channel.name, wanted],
    )
    fresh = _rows(store, f"SELECT f.* {absent} AND domain = 'security'", [channel.name, wanted])
    waiting = _rows(store, _UNSETTLED, [channel.name, list(SEVERITIES)])
    begins = [f["detected_at"] for f in fresh] + [row["since"] for row in waiting if row["since"]]
    if not begins:
        return
    decided = _rows(store, _OPEN, [channel.name, min(begins) - GROUP])
    decisions = _decisions(store, catalog, fresh, decided, now)
    if decisions:
        _write(store, channel, decisions)


# What was decided on a channel before.
_DECIDED = """
FROM (
    SELECT
        f.*, if(d.status IN ('pending', 'delivered'), 'page', d.status) AS status, d.page_id, d.told_ts,
        coalesce(d.severity, f.severity) AS told_severity
    FROM lake.finding f JOIN lake.alert_delivery d USING (finding_id)
    WHERE d.channel = $1 AND f.domain = 'security' AND d.status <> 'suppressed'
)
"""
# Since when something is held, or graver than it was.
_UNSETTLED = f"""
SELECT min(detected_at) AS since {_DECIDED}
WHERE status = 'held' OR list_position($2, severity) > list_position($2, told_severity)
"""
# What can still be part of a theft or of a week's budget.
_OPEN = f"""
WITH decided AS ({_DECIDED}), recent AS (FROM decided WHERE greatest(detected_at, told_ts) >= $2)
FROM recent UNION FROM decided WHERE finding_id IN (SELECT page_id FROM recent)
"""  # noqa: S608 - made of the text above


def _decisions(
    store: Store, catalog: Catalog, fresh: list[dict[str, Any]], decided: list[dict[str, Any]],
    now: datetime,
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows of `alert_delivery` that are new or change."""
    hidden = _suppressed(store, catalog)
    lawful = [f for f in (*fresh, *decided)
              if f["finding_id"] in hidden and f.get("status") in (None, "held")]  # fmt: skip
    names = {f["finding_id"] for f in lawful}
    supporting = frozenset(n for n, d in catalog.detectors.items() if not d.card.pages)
    decisions = [
        *(Decision(f["finding_id"], "suppressed", f["finding_id"], f["score"]) for f in lawful),
        *decide(
            [f for f in fresh if f["finding_id"] not in names],
            supporting,
            _principals(store, catalog),
            [f for f in decided if f["finding_id"] not in names],
            _trust(store, catalog),
            now,
        ),
    ]
    severities = {f["finding_id"]: f["severity"] for f in (*fresh, *decided)}
    return [
        {**asdict(d), "status": "pending" if d.status == "page" else d.status,
         "severity": severities[d.finding_id]} for d in decisions
    ]  # fmt: skip


def _write(store: Store, channel: Webhook, decisions: list[dict[str, Any]]) -> None:
    rows = pl.DataFrame(decisions, schema_overrides={"told_ts": pl.Datetime("us")})
    copy_in(store, "decision", rows)
    store.connection.execute(
        "UPDATE lake.alert_delivery d SET status = n.status, page_id = n.page_id, score = n.score, "
        "severity = n.severity, told_ts = n.told_ts, entry_number = NULL "
        "FROM decision n WHERE d.finding_id = n.finding_id AND d.channel = $1",
        [channel.name],
    )
    store.connection.execute(
        "INSERT INTO lake.alert_delivery BY NAME SELECT n.*, $1 AS channel, 0 AS attempt_count "
        "FROM decision n WHERE NOT EXISTS (FROM lake.alert_delivery d "
        "WHERE d.finding_id = n.finding_id AND d.channel = $1)",
        [channel.name],
    )


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


def _close(
    store: Store, finding_id: str, channel: str, problem: str, now: datetime, number: int
) -> None:
    store.commit(
        lambda: store.connection.execute(
            "UPDATE lake.alert_delivery SET status = $1, attempt_count = attempt_count + 1, "
            "attempted_at = $2, error = $3, entry_number = $4 WHERE finding_id = $5 AND channel = $6",
            [
                "pending" if problem else "delivered",
                now,
                problem or None,
                number,
                finding_id,
                channel,
            ],
        )
    )
