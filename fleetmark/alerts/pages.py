"""Which findings of theft are told: one theft is one page, and there are few.

Findings that share a principal or an address within 7 days are one theft. Its first finding is told,
and again when a graver one comes. Detectors whose card says so only support others. Over the budget
what is below critical is held: recorded and shown, not sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil, prod
from typing import Any

SEVERITIES = ("info", "low", "medium", "high", "critical")
GROUP = timedelta(days=7)
# Pages a week for 1,000 principals, over all detectors; a small site has as many as a full thousand.
BUDGET_PER_1000 = 5

Finding = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a finding.

    status   page, grouped (part of a theft that was told), supporting or held
    page_id  the finding under which the theft was told; its own where it is the first
    score    strength of all evidence of the theft so far, 0 to 1
    """

    finding_id: str
    status: str
    page_id: str
    score: float


@dataclass
class _Theft:
    page_id: str
    names: set[str]
    last_ts: datetime
    told: int
    doubts: list[float]


def budget(principals: int) -> int:
    """Pages a week for so many principals."""
    return max(BUDGET_PER_1000, ceil(principals * BUDGET_PER_1000 / 1000))


def decide(
    findings: Iterable[Finding],
    supporting: frozenset[str],
    principals: int,
    told: Sequence[Finding] = (),
    trust: Mapping[str, float] | None = None,
) -> list[Decision]:
    """Decide about security findings, in the order of the events.

    supporting  detectors that never page alone
    told        findings told before, which open their theft
    trust       by detector, the share of its judged findings that were right; 1 where nobody judged

    A theft's score is 1 - prod(1 - score * trust): independent pieces of evidence.
    """
    known = {str(finding["finding_id"]) for finding in told}
    thefts: list[_Theft] = []
    pages: list[datetime] = []
    decisions: list[Decision] = []
    for finding in sorted([*told, *findings], key=_order):
        theft = _theft_of(finding, thefts)
        doubt = 1 - float(finding["score"]) * (trust or {}).get(finding["detector"], 1.0)
        theft.doubts.append(doubt)
        status = _status(finding, theft, supporting, principals, pages, known)
        if status == "page":
            theft.told = SEVERITIES.index(finding["severity"])
            theft.page_id = theft.page_id or str(finding["finding_id"])
            pages.append(finding["detected_at"])
        if finding["finding_id"] not in known:
            score = 1 - prod(theft.doubts)
            decisions.append(
                Decision(
                    finding["finding_id"], status, theft.page_id or finding["finding_id"], score
                )
            )
    return decisions


def _order(finding: Finding) -> tuple[datetime, int, str]:
    """By time; of what came at once the gravest first, so that it opens the theft."""
    return (finding["detected_at"], -SEVERITIES.index(finding["severity"]), finding["finding_id"])


def _names(finding: Finding) -> set[str]:
    """Who a finding is about; what names nobody stands alone."""
    names = {f"p:{name}" for name in finding["principal"] or []}
    if not names:
        names = {f"ip:{name}" for name in finding["ip"] or []}
    return names or {f"f:{finding['finding_id']}"}


def _theft_of(finding: Finding, thefts: list[_Theft]) -> _Theft:
    """The open theft that shares a name, several joined into the first; otherwise a new one."""
    names, at = _names(finding), finding["detected_at"]
    hits = [t for t in thefts if t.names & names and at - t.last_ts <= GROUP]
    if not hits:
        hits = [_Theft("", set(), at, -1, [])]
        thefts.append(hits[0])
    first = hits[0]
    for other in hits[1:]:
        first.doubts += other.doubts
        first.names |= other.names
        first.told = max(first.told, other.told)
        first.page_id = first.page_id or other.page_id
        thefts.remove(other)
    # Addresses join a finding without a principal to those with one, never two principals: many share one.
    first.names |= names | {f"ip:{name}" for name in finding["ip"] or []}
    first.last_ts = max(first.last_ts, at)
    return first


def _status(
    finding: Finding,
    theft: _Theft,
    supporting: frozenset[str],
    principals: int,
    pages: Sequence[datetime],
    known: set[str],
) -> str:
    if finding["finding_id"] in known:
        return "page"
    if finding["detector"] in supporting:
        return "supporting"
    if SEVERITIES.index(finding["severity"]) <= theft.told:
        return "grouped"
    week = [at for at in pages if finding["detected_at"] - at < GROUP]
    if theft.told < 0 and finding["severity"] != "critical" and len(week) >= budget(principals):
        return "held"
    return "page"
