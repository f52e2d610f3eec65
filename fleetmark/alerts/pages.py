"""Which findings of theft are told: one theft is one page, and there are few.

Findings that share a principal or an address within 7 days are one theft. Its first finding is told,
and again when a graver one comes or a finding becomes graver. Detectors whose card says so only support others. Over the budget
what is below critical is held: recorded and shown, not sent. As soon as a page of the last 7 days grows
older than that, the gravest theft that is held is told in its place.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
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
    told_ts  of a page: the time at which it counts against the budget, of the finding or of its release
    """

    finding_id: str
    status: str
    page_id: str
    score: float
    told_ts: datetime | None = None


@dataclass(eq=False)
class _Theft:
    page_id: str
    names: set[str]
    last_ts: datetime
    told: int = -1
    doubt: float = 1.0
    held: list[Finding] = field(default_factory=list)


def budget(principals: int) -> int:
    """Pages a week for so many principals."""
    return max(BUDGET_PER_1000, ceil(principals * BUDGET_PER_1000 / 1000))


def decide(
    findings: Iterable[Finding],
    supporting: frozenset[str],
    principals: int,
    decided: Sequence[Finding] = (),
    trust: Mapping[str, float] | None = None,
    until: datetime | None = None,
) -> list[Decision]:
    """Decide about security findings, in the order of the events.

    supporting  detectors that never page alone
    decided     findings decided before, with `status`, `page_id`, `told_ts` and `told_severity`: they open their
                theft, and are decided again only when they have become graver, are released, or were held and
                their theft is told without them
    trust       by detector, the share of its judged findings that were right; 1 where nobody judged
    until       the budget is looked at up to here after the last finding

    A theft's score is 1 - prod(1 - score * trust): independent pieces of evidence.
    """
    week = _Week(budget(principals), supporting, trust or {})
    known = {str(finding["finding_id"]): finding for finding in decided}
    new = [finding for finding in findings if finding["finding_id"] not in known]
    week.pages = sorted(_told_ts(f) for f in decided if f["status"] == "page")
    for finding in sorted([*decided, *new], key=_order):
        week.release(finding["detected_at"])
        theft = week.theft_of(finding)
        if finding["finding_id"] in known:
            week.recall(finding, theft)
        else:
            week.judge(finding, theft)
    if until is not None:
        week.release(until)
    return list(week.decisions.values())


class _Week:
    """What is known while the findings go by: open thefts, pages told, what is held."""

    def __init__(self, budget: int, supporting: frozenset[str], trust: Mapping[str, float]) -> None:
        self.pages: list[datetime] = []
        self.decisions: dict[str, Decision] = {}
        self._budget = budget
        self._supporting = supporting
        self._trust = trust
        self._by_name: dict[str, _Theft] = {}
        self._holding: dict[int, _Theft] = {}

    def theft_of(self, finding: Finding) -> _Theft:
        """The open theft that shares a name, several joined into the first; otherwise a new one."""
        names, at = _names(finding), finding["detected_at"]
        hits = {id(t): t for name in sorted(names) if (t := self._by_name.get(name))}
        open_ones = [t for t in hits.values() if at - t.last_ts <= GROUP]
        first = min(open_ones, key=lambda t: t.last_ts, default=None) or _Theft("", set(), at)
        for other in open_ones:
            if other is not first:
                self._join(first, other)
        # Addresses join a finding without a principal to those with one, never two principals: many share one.
        added = names | {f"ip:{name}" for name in finding["ip"] or []}
        first.names |= added
        self._by_name |= dict.fromkeys(added, first)
        first.last_ts = max(first.last_ts, at)
        first.doubt *= 1 - float(finding["score"]) * self._trust.get(finding["detector"], 1.0)
        return first

    def recall(self, finding: Finding, theft: _Theft) -> None:
        """Take up what was decided before; a finding that has become graver since is decided anew."""
        if finding["status"] == "page":
            theft.told = max(
                theft.told, SEVERITIES.index(finding.get("told_severity") or finding["severity"])
            )
            theft.page_id = theft.page_id or finding.get("page_id") or str(finding["finding_id"])
            self._settle(theft)
        if finding["status"] == "held" and finding["severity"] != "critical":
            self._hold(finding, theft)
        elif finding["status"] != "supporting" and _gravity(finding) > theft.told:
            self._tell(finding, theft, finding["detected_at"])

    def judge(self, finding: Finding, theft: _Theft) -> None:
        """Decide about a finding that is new."""
        if finding["detector"] in self._supporting:
            self._note(finding, theft, "supporting")
        elif _gravity(finding) <= theft.told:
            self._note(finding, theft, "grouped")
        elif (
            theft.told < 0
            and finding["severity"] != "critical"
            and self._is_full(finding["detected_at"])
        ):
            self._note(finding, theft, "held")
            self._hold(finding, theft)
        else:
            self._tell(finding, theft, finding["detected_at"])

    def release(self, until: datetime) -> None:
        """Tell the gravest held theft whenever the budget has room, up to a time."""
        while self._holding:
            room = [self.pages[-self._budget] + GROUP] if len(self.pages) >= self._budget else []
            if any(at > until for at in room):
                return
            theft = max(self._holding.values(), key=_weight)
            best = max(theft.held, key=_gravity)
            self._tell(best, theft, max([best["detected_at"], *room]))

    def _tell(self, finding: Finding, theft: _Theft, at: datetime) -> None:
        theft.told = _gravity(finding)
        theft.page_id = theft.page_id or str(finding["finding_id"])
        insort(self.pages, at)
        self._note(finding, theft, "page", at)
        theft.held = [other for other in theft.held if other is not finding]
        self._settle(theft)

    def _settle(self, theft: _Theft) -> None:
        """What is held and no graver than what was told needs no page of its own."""
        for finding in theft.held:
            if _gravity(finding) <= theft.told:
                self._note(finding, theft, "grouped")
        theft.held = [finding for finding in theft.held if _gravity(finding) > theft.told]
        if not theft.held:
            self._holding.pop(id(theft), None)

    def _hold(self, finding: Finding, theft: _Theft) -> None:
        theft.held.append(finding)
        self._holding[id(theft)] = theft

    def _is_full(self, at: datetime) -> bool:
        return len(self.pages) - bisect_right(self.pages, at - GROUP) >= self._budget

    def _note(
        self, finding: Finding, theft: _Theft, status: str, told_ts: datetime | None = None
    ) -> None:
        name = str(finding["finding_id"])
        self.decisions[name] = Decision(
            name, status, theft.page_id or name, 1 - theft.doubt, told_ts
        )

    def _join(self, first: _Theft, other: _Theft) -> None:
        first.doubt *= other.doubt
        first.names |= other.names
        first.told = max(first.told, other.told)
        first.page_id = first.page_id or other.page_id
        first.last_ts = max(first.last_ts, other.last_ts)
        self._by_name |= dict.fromkeys(other.names, first)
        self._holding.pop(id(other), None)
        for finding in other.held:
            self._hold(finding, first)
        self._settle(first)


def _weight(theft: _Theft) -> tuple[int, float, float]:
    """Gravest first, then the strongest evidence, then the oldest."""
    oldest = min(finding["detected_at"] for finding in theft.held)
    return max(map(_gravity, theft.held)), 1 - theft.doubt, -oldest.timestamp()


def _gravity(finding: Finding) -> int:
    return SEVERITIES.index(finding["severity"])


def _told_ts(finding: Finding) -> datetime:
    told: datetime = finding.get("told_ts") or finding["detected_at"]
    return told


def _order(finding: Finding) -> tuple[datetime, int, str]:
    """By time; of what came at once the gravest first, so that it opens the theft."""
    return (finding["detected_at"], -_gravity(finding), finding["finding_id"])


def _names(finding: Finding) -> set[str]:
    """Who a finding is about; what names nobody stands alone."""
    names = {f"p:{name}" for name in finding["principal"] or []}
    if not names:
        names = {f"ip:{name}" for name in finding["ip"] or []}
    return names or {f"f:{finding['finding_id']}"}
