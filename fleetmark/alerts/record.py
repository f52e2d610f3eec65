"""What was told, held back and judged, in the evidence ledger.

Kinds of entries: `alert` (a finding and a channel, with what became of it), `suppression` and `verdict`
(rows of those tables as they stand; acknowledgements are verdicts). Of several verdicts about a finding that
come between two runs the store keeps the latest, and so does the ledger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fleetmark.catalog import Catalog
from fleetmark.evidence import Ledger, canonical
from fleetmark.store import Store
from fleetmark.table import quote

# Tables of people's decisions, and those whose rows a finding of theft rests on.
JUDGEMENTS = ("suppression", "verdict")
LOGS = ("storage_access", "storage_event")
# Files of evidence that an entry lists; the rest is counted.
MOST_FILES = 50

_BY_FILE = """
SELECT
    $4 AS "table", r.file_id, min(i.path) AS path, min(i.content_sha256) AS content_sha256,
    min(r.line_no) AS first_line_no, max(r.line_no) AS last_line_no, count(*) AS row_count,
    count(*) OVER () AS file_count
FROM lake.{table} r
LEFT JOIN lake.ingest_file i USING (file_id)
WHERE r.{who} IN (SELECT unnest($1)) AND r.ts >= $2 AND r.ts <= $3
GROUP BY r.file_id
ORDER BY row_count DESC, r.file_id
LIMIT $5
"""

Facts = Mapping[str, Any]


def judgements(store: Store, catalog: Catalog, ledger: Ledger) -> None:
    """An entry for every suppression and verdict that has none as it reads now."""
    for table in JUDGEMENTS:
        if table not in catalog.tables:
            continue
        noted = {entry.body for entry in ledger.entries(kind=table)}
        rows = store.connection.execute(f"FROM lake.{quote(table)} ORDER BY ALL").pl()
        for row in rows.iter_rows(named=True):
            body = _plain(row)
            if canonical(body) not in noted:
                ledger.append(table, body)


def untold(store: Store, ledger: Ledger, channel: str) -> None:
    """An entry for every finding that was decided not to be told on this channel."""
    rows = store.connection.execute(
        "SELECT f.*, d.status, d.page_id, d.score AS page_score FROM lake.finding f "
        "JOIN lake.alert_delivery d USING (finding_id) WHERE d.channel = $1 AND d.entry_number IS NULL "
        "AND d.status NOT IN ('pending', 'delivered') ORDER BY f.detected_at, f.finding_id",
        [channel],
    ).pl()
    numbers = []
    for row in rows.iter_rows(named=True):
        head = ledger.append("alert", _alert(row, channel, row["status"]))
        numbers.append((row["finding_id"], head.number))
    if numbers:
        store.commit(lambda: _number(store, channel, numbers))


def _number(store: Store, channel: str, numbers: list[tuple[str, int]]) -> None:
    found, number = map(list, zip(*numbers, strict=True))
    store.connection.execute(
        "UPDATE lake.alert_delivery d SET entry_number = n.number "
        "FROM (SELECT unnest($1) AS finding_id, unnest($2) AS number) n "
        "WHERE d.finding_id = n.finding_id AND d.channel = $3",
        [found, number, channel],
    )


def told(
    store: Store, catalog: Catalog, ledger: Ledger, channel: str, finding: Facts, body: Facts,
    problem: str,
) -> int:  # fmt: skip
    """An entry about one delivery or one refusal; its number."""
    entry = _alert(finding, channel, "refused" if problem else "delivered")
    entry["body_sha256"] = hashlib.sha256(canonical(body).encode()).hexdigest()
    entry["problem"] = problem
    entry["rows"] = _rows_behind(store, catalog, finding)
    return ledger.append("alert", entry).number


def _alert(finding: Facts, channel: str, status: str) -> dict[str, Any]:
    entry = _plain({k: v for k, v in finding.items() if k not in ("status", "evaluated_at")})
    entry["evidence"] = json.loads(finding["evidence"])
    return entry | {"channel": channel, "status": status}


def _rows_behind(store: Store, catalog: Catalog, finding: Facts) -> list[dict[str, Any]]:
    """By file, the log's rows of the finding's principals (its addresses, where it names none) in its interval."""
    who, names = (
        ("principal", finding["principal"]) if finding["principal"] else ("ip", finding["ip"])
    )
    if finding["domain"] != "security" or not names:
        return []
    found: list[dict[str, Any]] = []
    for table in LOGS:
        if table in catalog.tables:
            rows = store.connection.execute(
                _BY_FILE.format(table=quote(table), who=who),
                [names, finding["start_ts"], finding["end_ts"], table, MOST_FILES],
            ).pl()
            found += rows.to_dicts()
    return found


def _plain(row: Facts) -> dict[str, Any]:
    return {
        name: value.isoformat() + "Z" if isinstance(value, datetime) else value
        for name, value in row.items()
    }
