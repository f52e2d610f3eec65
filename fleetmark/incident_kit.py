"""What a responder needs about a principal or a checkpoint, from the tables as they stand.

Sections, in this order: findings, timeline (reads by hour), changes (management events), blast_radius
(share of each checkpoint, with bounds), who_else (others outside jobs from the same address, with the same key or on
the same checkpoint, and how much of it each took), jobs (at stake when something is cut), revoke (what to revoke: of
the principal asked about; asked about a checkpoint, of those that a security finding about it names). A section
without rows is one row that says so.
"""

from __future__ import annotations

from fleetmark.errors import InputError
from fleetmark.store import Store

COLUMNS = ("section", "ts", "name", "detail")
Row = tuple[object, ...]

# $1 is the principal or checkpoint asked about; `mine` are the reads about it, before each section's query.
_MINE = (
    "WITH mine AS (FROM lake.weight_read WHERE principal = $1 OR checkpoint = $1 OR family = $1) "
)
_SECTIONS = {
    "findings": (
        "SELECT detected_at, detector, concat(severity, ' ', finding_id, ' ', evidence) FROM lake.finding "
        "WHERE list_contains(principal, $1) OR list_contains(checkpoint, $1) OR list_has_any(checkpoint, "
        "(SELECT list(checkpoint) FROM mine WHERE family = $1)) ORDER BY detected_at"
    ),
    "timeline": (
        "SELECT date_trunc('hour', ts), principal, concat(checkpoint, ': ', count(*), ' reads, at most ', "
        "sum(most_bytes)::BIGINT, ' bytes, from ', string_agg(DISTINCT ip, ' ' ORDER BY ip), ', jobs ', "
        "coalesce(string_agg(DISTINCT covering_job_id, ' ' ORDER BY covering_job_id), 'none')) "
        "FROM mine GROUP BY date_trunc('hour', ts), principal, checkpoint ORDER BY ALL"
    ),
    "changes": (
        "SELECT ts, action, concat(event_class, ' on ', coalesce(target, '?'), ' from ', coalesce(ip, '?'), ' ', "
        "coalesce(error, 'done')) FROM lake.storage_event WHERE principal = $1 AND NOT coalesce(is_read_only, false) "
        "ORDER BY ts, event_id"
    ),
    "blast_radius": (
        ", per_object AS (SELECT principal, checkpoint, bucket, object_key, version_id, max(least_bytes) AS low, "
        "least(sum(most_bytes), max(object_bytes)) AS high, max(checkpoint_bytes) AS whole, max(ts) AS ts, "
        "count(*) FILTER (covering_job_id IS NULL) AS outside FROM mine GROUP BY ALL) "
        "SELECT max(ts), checkpoint, concat(principal, ': ', round(100 * sum(low) / max(whole), 1), ' to ', "
        "round(100 * sum(high) / max(whole), 1), ' %, ', sum(outside), ' reads outside jobs') "
        "FROM per_object GROUP BY principal, checkpoint ORDER BY checkpoint, principal"
    ),
    "who_else": (
        "SELECT max(w.ts), w.principal, concat_ws(', ', "
        "CASE WHEN bool_or(w.ip IN (SELECT ip FROM mine)) THEN 'same address' END, "
        "CASE WHEN bool_or(w.access_key_id IN (SELECT access_key_id FROM mine)) THEN 'same key' END, "
        "CASE WHEN bool_or(w.checkpoint IN (SELECT checkpoint FROM mine)) THEN 'same checkpoint' END, "
        "concat('at most ', sum(w.most_bytes)::BIGINT, ' bytes')) "
        "FROM lake.weight_read w WHERE w.covering_job_id IS NULL AND w.principal NOT IN (SELECT principal FROM mine "
        "WHERE principal = $1) AND (w.ip IN (SELECT ip FROM mine) OR w.access_key_id IN (SELECT access_key_id FROM mine) "
        "OR w.checkpoint IN (SELECT checkpoint FROM mine)) GROUP BY w.principal ORDER BY ALL"
    ),
    "jobs": (
        "SELECT max(j.start_ts), j.job_id, concat(j.principal, ' ', j.job_name, ' ', j.state, ', ', "
        "coalesce(max(j.alloc_gpus)::VARCHAR, '?'), ' GPUs') FROM lake.job_attempt j "
        "WHERE j.job_id IN (SELECT covering_job_id FROM mine) GROUP BY j.job_id, j.principal, j.job_name, j.state ORDER BY ALL"
    ),
    "revoke": (
        "SELECT max(ts), kind, value FROM (SELECT ts, unnest([{'kind': 'deny this principal', 'value': principal}, "
        "{'kind': 'revoke this session', 'value': session}, {'kind': 'disable this key', 'value': access_key_id}, "
        "{'kind': 'rotate the key that signed', 'value': token_hash}, {'kind': 'block this address', 'value': ip}], "
        "recursive := true) FROM mine WHERE covering_job_id IS NULL AND (principal = $1 OR principal IN (SELECT unnest(principal) "
        "FROM lake.finding WHERE domain = 'security' AND (list_contains(checkpoint, $1) OR list_has_any(checkpoint, "
        "(SELECT list(checkpoint) FROM mine)))))) WHERE value IS NOT NULL GROUP BY kind, value ORDER BY kind, value"
    ),
}  # fmt: skip


def kit(store: Store, subject: str) -> list[Row]:
    """The sections' rows in COLUMNS: everything about a principal, a checkpoint or a family. Raises InputError when nothing is known of it."""
    rows: list[Row] = []
    empty = 0
    for section, sql in _SECTIONS.items():
        found = store.connection.execute(_MINE + sql, [subject]).fetchall()
        empty += not found
        rows += [(section, *row) for row in found] or [
            (section, None, "nothing", "no row in the tables")
        ]
    if empty == len(_SECTIONS):
        raise InputError(
            f"nothing is known of {subject!r}: it is no principal, checkpoint or family of weight_read"
            f"{_alike(store, subject)}"
        )
    return rows


def _alike(store: Store, subject: str) -> str:
    """Principals and checkpoints that hold the text asked for: people know the end of an ARN, the log all of it."""
    found = store.connection.execute(
        "SELECT DISTINCT unnest([principal, checkpoint, family]) AS name FROM lake.weight_read ORDER BY name"
    ).fetchall()
    names = [name for (name,) in found if name and subject.casefold() in name.casefold()]
    return f"; did you mean {', '.join(names[:5])}?" if subject and names else ""
