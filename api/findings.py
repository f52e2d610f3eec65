"""`/findings`: verdicts of all detectors, worst first, each with its evidence and rule card."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from fleetmark.detector import ENTITIES, Domain, Severity
from fleetmark.query.answer import cell
from fleetmark.query.selection import cursor_of, place_of

from .admission import principal_of
from .lake import Lake
from .problems import Problem
from .unchanged import mark

router = APIRouter(tags=["findings"])

# Worst first; ties by the newest, then by id so that pages never overlap.
_RANK = "list_position(['info', 'low', 'medium', 'high', 'critical'], severity)"
_FILTERED = f"""
SELECT *, {_RANK} AS severity_rank FROM finding
WHERE ($domain IS NULL OR domain = $domain)
  AND (len($severity::VARCHAR[]) = 0 OR list_contains($severity::VARCHAR[], severity))
  AND ($detector IS NULL OR detector = $detector)
  AND ($since IS NULL OR detected_at >= $since::TIMESTAMP)
  AND ($until IS NULL OR detected_at < $until::TIMESTAMP)
"""  # noqa: S608 - constants only
_PAGE = f"""
WITH filtered AS ({_FILTERED})
SELECT * FROM filtered
WHERE $rank IS NULL
   OR (severity_rank, score, detected_at, finding_id)
      < ($rank::INTEGER, $score::DOUBLE, $detected_at::TIMESTAMP, $finding_id::VARCHAR)
ORDER BY severity_rank DESC, score DESC, detected_at DESC, finding_id DESC
"""  # noqa: S608 - constants only
_COUNTS = f"""
SELECT severity, count(*) AS findings FROM ({_FILTERED}) GROUP BY severity
"""  # noqa: S608 - constants only
_RANKS = range(len(get_args(Severity)) + 1)
_CURSOR = ("rank", "score", "detected_at", "finding_id")


class Finding(BaseModel):
    """A verdict. Entity lists are empty where none is concerned; bounds are NULL where unknown."""

    model_config = ConfigDict(extra="ignore")

    finding_id: str
    detector: str
    domain: str
    kind: str
    score: float
    severity: str
    start_ts: str
    end_ts: str
    detected_at: str
    evaluated_at: str | None
    cluster: list[str]
    node: list[str]
    gpu_uuid: list[str]
    rank: list[int]
    job_id: list[str]
    principal: list[str]
    checkpoint: list[str]
    bucket: list[str]
    ip: list[str]
    lower: float | str | None
    upper: float | str | None
    evidence: dict[str, Any] = Field(description="the figures the verdict rests on")


class RuleCard(BaseModel):
    """What the detector flags, why, what else looks like this, what it misses, what to do."""

    title: str
    domain: str
    kind: str
    severity: str
    flags: str
    why: str
    looks_like: str
    misses: str
    todo: str
    reviewed: str
    attack: list[str]
    attack_version: str


class FindingDetail(Finding):
    """A finding with the card of its rule; NULL when that rule is no longer installed."""

    card: RuleCard | None


class FindingPage(BaseModel):
    """Findings, worst first. `next` continues where this page ends; NULL on the last page."""

    snapshot: int
    total: int = Field(description="findings that match the filters, on all pages")
    severity_counts: dict[str, int] = Field(description="the same by severity")
    items: list[Finding]
    next: str | None


class DetectorStatus(BaseModel):
    """Whether a detector could judge."""

    detector: str
    title: str | None
    status: str
    reason: str | None
    finding_count: int
    evaluated_at: str | None


def _finding(row: dict[str, Any]) -> dict[str, Any]:
    try:
        evidence = cell(json.loads(row["evidence"]))
    except ValueError:
        evidence = None
    lists = {name: row[name] or [] for name in ENTITIES}
    shown = evidence if isinstance(evidence, dict) else {"text": row["evidence"]}
    return {**row, **lists, "evidence": shown}


def _cursor_of(row: dict[str, Any]) -> str:
    return cursor_of([row["severity_rank"], row["score"], row["detected_at"], row["finding_id"]])


def _position(cursor: str | None) -> dict[str, Any]:
    if cursor is None:
        return dict.fromkeys(_CURSOR)
    try:
        rank, score, detected_at, finding_id = place_of(cursor)
        moment = datetime.fromisoformat(detected_at).replace(tzinfo=None)
        values = (_RANKS.index(rank), float(score), moment, str(finding_id))
    except (ValueError, TypeError, OverflowError):
        raise Problem(
            422, "The request is malformed", "cursor: take it from `next` of the page before"
        ) from None
    return dict(zip(_CURSOR, values, strict=True))


def _utc(moment: datetime | None) -> datetime | None:
    """Without zone, in UTC, as tables hold time. A time without zone is taken as UTC."""
    if moment is None or moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise Problem(
            422, "The request is malformed", f"{moment} lies outside the years 1 to 9999 of UTC"
        ) from None


@router.get("/findings")
def list_findings(
    request: Request,
    response: Response,
    domain: Domain | None = None,
    severity: Annotated[list[Severity] | None, Query(description="may be given twice")] = None,
    detector: Annotated[str | None, Query(max_length=200)] = None,
    since: Annotated[datetime | None, Query(description="detected at or after; UTC")] = None,
    until: Annotated[datetime | None, Query(description="detected before; UTC")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    cursor: Annotated[str | None, Query(max_length=2000)] = None,
) -> FindingPage:
    """Findings by severity, then score, then newest first."""
    lake: Lake = request.app.state.lake
    snapshot = lake.seen_by(principal_of(request))
    mark(request, response, snapshot)
    filters = {
        "domain": domain,
        "severity": list(severity or ()),
        "detector": detector,
        "since": _utc(since),
        "until": _utc(until),
    }
    rows: list[dict[str, Any]] = []
    counts: dict[str, int] = {}
    if snapshot.files.get("finding"):
        counted = lake.rows(_COUNTS, ["finding"], filters, snapshot=snapshot)
        counts = {row["severity"]: row["findings"] for row in counted}
        rows = lake.rows(
            _PAGE, ["finding"], filters | _position(cursor), limit=limit + 1, snapshot=snapshot
        )
    page = rows[:limit]
    return FindingPage(
        snapshot=snapshot.id,
        total=sum(counts.values()),
        severity_counts=counts,
        items=[Finding(**_finding(row)) for row in page],
        next=_cursor_of(page[-1]) if len(rows) > limit else None,
    )


@router.get("/findings/{finding_id:path}")
def show_finding(
    request: Request, response: Response, finding_id: Annotated[str, Path(max_length=500)]
) -> FindingDetail:
    """One finding with the rule card of its detector."""
    lake: Lake = request.app.state.lake
    snapshot = lake.seen_by(principal_of(request))
    mark(request, response, snapshot)
    rows: list[dict[str, Any]] = []
    if snapshot.files.get("finding"):
        rows = lake.rows(
            "SELECT * FROM finding WHERE finding_id = $1", ["finding"], [finding_id],
            snapshot=snapshot,
        )  # fmt: skip
    if not rows:
        raise Problem(404, "No such finding", f"there is no finding {finding_id}")
    rule = lake.catalog.detectors.get(rows[0]["detector"])
    card = RuleCard(**asdict(rule.card)) if rule else None
    return FindingDetail(**_finding(rows[0]), card=card)


@router.get("/detectors")
def list_detectors(request: Request, response: Response) -> list[DetectorStatus]:
    """Every detector and whether it could judge: no finding is not the same as nothing to find."""
    lake: Lake = request.app.state.lake
    snapshot = lake.seen_by(principal_of(request))
    mark(request, response, snapshot)
    known: dict[str, dict[str, Any]] = {}
    if snapshot.files.get("detector_status"):
        rows = lake.rows("FROM detector_status", ["detector_status"], snapshot=snapshot)
        known = {row["detector"]: row for row in rows}
    never = {"status": "never_run", "reason": None, "finding_count": 0, "evaluated_at": None}
    rules = {name: rule for name, rule in lake.catalog.detectors.items()
             if rule.card.domain != "security" or principal_of(request).privileged}  # fmt: skip
    return [
        DetectorStatus(
            **{**never, **known.get(name, {}), "detector": name},
            title=rules[name].card.title if name in rules else None,
        )
        for name in sorted({*known, *rules})
    ]
