"""What came after findings: what ran on the nodes they name, and whether that failed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime, timedelta

from fleetmark.catalog import Catalog
from fleetmark.store import Store


@dataclass(frozen=True, slots=True)
class Flagged:
    """A finding of today's rule, of the replayed one, or of both.

    severity_today, severity_replayed   None: not found so
    gpu_h_at_stake   GPU-hours that jobs running on its nodes went on to use within the horizon; None:
                     it names no node, or nothing is known of their jobs
    outcome          job_failed (or was put back into the queue) or fatal_event: the first within the
                     horizon on its nodes; None: none
    """

    finding_id: str
    severity_today: str | None
    severity_replayed: str | None
    kind: str
    detected_at: datetime
    cluster: list[str]
    node: list[str]
    gpu_uuid: list[str]
    job_id: list[str]
    principal: list[str]
    checkpoint: list[str]
    lower: float | None
    upper: float | None
    gpu_h_at_stake: float | None
    outcome: str | None
    outcome_ts: datetime | None
    lead_s: float | None


_BOTH = """
CREATE OR REPLACE TEMP TABLE flagged AS
SELECT
    finding_id, today.severity AS severity_today, replayed.severity AS severity_replayed,
    unnest(if(replayed.finding_id IS NULL, today, replayed))
FROM {today} AS today
FULL JOIN {replayed} AS replayed USING (finding_id)
"""
# Severity 4 of Fleetmark's own policy takes the node out of service (xid_policy).
_OUTCOMES = {
    ("gpu_allocation", "job_attempt"): """
SELECT finding_id, 'job_failed' AS outcome, ended.end_ts AS outcome_ts
FROM spot
JOIN lake.gpu_allocation AS held USING (cluster, node)
JOIN lake.job_attempt AS ended USING (cluster, job_id, attempt)
WHERE ended.end_ts > detected_at AND ended.end_ts <= until_ts
    AND ended.state IN ('FAILED', 'NODE_FAIL', 'BOOT_FAIL', 'REQUEUED')
""",
    ("health_event_policy",): """
SELECT finding_id, 'fatal_event' AS outcome, later.start_ts AS outcome_ts
FROM spot
JOIN lake.health_event_policy AS later USING (cluster, node)
WHERE policy = 'fleetmark' AND severity >= 4 AND is_root
    AND later.start_ts > detected_at AND later.start_ts <= until_ts
    AND (len(gpus) = 0 OR later.gpu_uuid IS NULL OR list_contains(gpus, later.gpu_uuid))
""",
}
_STAKE = """
SELECT
    finding_id,
    sum(gpu_count * epoch(least(coalesce(end_ts, observed_ts), until_ts) - detected_at)) / 3600
        AS gpu_h_at_stake
FROM spot
JOIN lake.gpu_allocation USING (cluster, node)
WHERE start_ts <= detected_at AND coalesce(end_ts, observed_ts) > detected_at
GROUP BY finding_id
"""
_SPOT = """
WITH spot AS (
    SELECT finding_id, detected_at, detected_at + INTERVAL {horizon} SECOND AS until_ts,
        gpu_uuid AS gpus, c.cluster, n.node
    FROM flagged, unnest(cluster) AS c(cluster), unnest(node) AS n(node)
)
"""


def weigh(
    store: Store, catalog: Catalog, found: tuple[str, str], horizon: timedelta
) -> list[Flagged]:
    """Findings of two temporary tables, today's and the replayed, with what followed them, by time."""
    connection = store.connection
    connection.execute(_BOTH.format(today=found[0], replayed=found[1]))
    known = catalog.tables.keys()
    outcomes = [sql for tables, sql in _OUTCOMES.items() if known >= set(tables)]
    nothing = "SELECT NULL::VARCHAR AS finding_id, NULL::VARCHAR AS outcome, NULL::TIMESTAMP AS outcome_ts WHERE false"
    no_stake = "SELECT NULL::VARCHAR AS finding_id, NULL::DOUBLE AS gpu_h_at_stake WHERE false"
    columns = ", ".join(f.name for f in fields(Flagged))
    rows = connection.execute(
        f"""{_SPOT.format(horizon=int(horizon.total_seconds()))},
        outcome AS ({" UNION ALL ".join([nothing, *outcomes])}),
        first AS (
            SELECT finding_id, min(outcome_ts) AS outcome_ts, arg_min(outcome, (outcome_ts, outcome)) AS outcome
            FROM outcome
            GROUP BY finding_id
        ),
        stake AS ({_STAKE if "gpu_allocation" in known else no_stake})
        SELECT {columns}
        FROM (
            SELECT *, epoch(outcome_ts - detected_at) AS lead_s
            FROM flagged
            LEFT JOIN first USING (finding_id)
            LEFT JOIN stake USING (finding_id)
        )
        ORDER BY detected_at, finding_id"""
    ).fetchall()
    return [Flagged(*row) for row in rows]
