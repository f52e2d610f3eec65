"""One theft is one page; supporting evidence and what is over the budget is not told."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import duckdb

from fleetmark.alerts import outbox
from fleetmark.alerts.pages import budget, decide
from fleetmark.catalog import load_catalog

START = datetime(2026, 3, 1)  # noqa: DTZ001 - UTC without zone


def finding(
    number: int, who: str, *, day: float = 0, severity: str = "high", detector: str = "coverage",
    ip: str = "", score: float = 0.5,
) -> dict[str, Any]:  # fmt: skip
    return {
        "finding_id": f"f{number}", "detector": detector, "severity": severity, "score": score,
        "detected_at": START + timedelta(days=day), "principal": [who] if who else [], "ip": [ip] if ip else [],
    }  # fmt: skip


def statuses(*findings: dict[str, Any], **options: Any) -> list[str]:
    supporting = frozenset({"new_client", "egress"})
    return [d.status for d in decide(findings, supporting, 100, **options)]


def test_a_theft_is_told_once_and_again_when_it_is_graver() -> None:
    found = [finding(1, "eve", severity="medium"), finding(2, "eve", day=1, severity="medium"),
             finding(3, "eve", day=2, severity="critical"), finding(4, "eve", day=8, severity="high")]  # fmt: skip
    assert statuses(*found) == ["page", "grouped", "page", "grouped"]
    assert {d.page_id for d in decide(found, frozenset(), 100)} == {"f1"}


def test_after_a_week_of_quiet_it_is_another_theft() -> None:
    assert statuses(finding(1, "eve"), finding(2, "eve", day=8)) == ["page", "page"]


def test_supporting_findings_never_page_and_strengthen_the_score() -> None:
    found = [finding(1, "eve", detector="new_client", score=0.3), finding(2, "eve", day=0.1)]
    decisions = decide(found, frozenset({"new_client"}), 100)
    assert [d.status for d in decisions] == ["supporting", "page"]
    assert decisions[1].score == 1 - 0.7 * 0.5
    (judged,) = decide(found[1:], frozenset(), 100, trust={"coverage": 0.2})
    assert round(judged.score, 9) == 0.1


def test_an_address_joins_what_names_nobody_but_never_two_principals() -> None:
    assert statuses(finding(1, "eve", ip="10.0.0.1"), finding(2, "", day=1, ip="10.0.0.1")) == [
        "page",
        "grouped",
    ]
    assert statuses(finding(1, "eve", ip="10.0.0.1"), finding(2, "bob", day=1, ip="10.0.0.1")) == [
        "page",
        "page",
    ]


def test_over_the_budget_only_what_is_critical_is_told() -> None:
    crowd = [finding(n, f"p{n}", day=n / 10) for n in range(7)]
    assert statuses(*crowd, finding(9, "eve", day=1, severity="critical")) == ["page"] * 5 + [
        "held"
    ] * 2 + ["page"]
    assert (budget(100), budget(20_000)) == (5, 100)


def test_what_was_told_before_is_not_told_again() -> None:
    assert statuses(finding(2, "eve", day=1), decided=[finding(1, "eve") | {"status": "page"}]) == [
        "grouped"
    ]


def crowds(weeks: int) -> list[dict[str, Any]]:
    """Ten thieves on each of the first days of so many weeks; every third of them high, the others medium."""
    return [
        finding(
            week * 100 + n, f"p{week}-{n}", day=week * 7 + n / 10, score=n / 20,
            severity="medium" if n % 3 else "high",
        )
        for week in range(weeks)
        for n in range(10)
    ]  # fmt: skip


def test_what_is_held_is_released_gravest_first_as_the_budget_allows() -> None:
    """Ten thefts and five pages a week: five at once; of the others the high ones, then by score, a week later."""
    decisions = decide(crowds(1), frozenset(), 100, until=START + timedelta(days=20))
    pages = sorted((d.told_ts, d.finding_id) for d in decisions if d.status == "page" and d.told_ts)
    assert [name for _, name in pages] == [
        "f0",
        "f1",
        "f2",
        "f3",
        "f4",
        "f9",
        "f6",
        "f8",
        "f7",
        "f5",
    ]
    assert [at - START for at, _ in pages[5:]] == [timedelta(days=7 + n / 10) for n in range(5)]


def test_no_week_ever_has_more_pages_than_the_budget_and_nothing_is_forgotten() -> None:
    """Three bad weeks take six: in one run, and day by day with what was decided before."""
    found = crowds(3)
    by_id = {f["finding_id"]: f for f in found}
    decided: dict[str, dict[str, Any]] = {}
    for day in range(50):
        today = [
            f for f in found if day <= (f["detected_at"] - START) / timedelta(days=1) < day + 1
        ]
        until = START + timedelta(days=day + 1)
        for d in decide(today, frozenset(), 100, list(decided.values()), until=until):
            assert decided.get(d.finding_id, {}).get("status") in (None, "held")
            decided[d.finding_id] = by_id[d.finding_id] | {
                "status": d.status, "page_id": d.page_id, "told_ts": d.told_ts,
            }  # fmt: skip
    at_once = decide(found, frozenset(), 100, until=START + timedelta(days=50))
    told = sorted(d["told_ts"] for d in decided.values())
    assert [d["status"] for d in decided.values()] == ["page"] * 30
    assert told == sorted(d.told_ts for d in at_once if d.told_ts)
    assert all(
        later - first >= timedelta(days=7) for first, later in zip(told, told[5:], strict=False)
    )
    assert told[-1] < START + timedelta(days=42)


def test_a_held_theft_is_one_page_and_none_once_it_was_told_as_critical() -> None:
    crowd = [finding(n, f"p{n}") for n in range(5)]
    held = [finding(5, "eve", day=1, severity="medium"), finding(6, "eve", day=2, severity="high")]
    until = START + timedelta(days=30)
    assert statuses(*crowd, *held) == ["page"] * 5 + ["held"] * 2
    assert statuses(*crowd, *held, until=until) == ["page"] * 5 + ["grouped", "page"]
    graver = finding(7, "eve", day=3, severity="critical")
    assert statuses(*crowd, *held, graver, until=until) == ["page"] * 5 + [
        "grouped",
        "grouped",
        "page",
    ]


def test_a_theft_that_goes_on_for_weeks_is_one_page_in_daily_runs_too() -> None:
    decided: list[dict[str, Any]] = []
    for day in range(28):
        one = finding(day, "eve", day=day)
        (d,) = decide([one], frozenset(), 100, decided)
        decided.append(one | {"status": d.status, "page_id": d.page_id, "told_ts": d.told_ts})
    assert [f["status"] for f in decided] == ["page"] + ["grouped"] * 27


def test_registered_work_is_suppressed_but_not_tampering() -> None:
    catalog = load_catalog()
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS lake")
        for name in ("finding", "suppression", "job_attempt", "verdict"):
            connection.execute(f"CREATE TABLE lake.{name} ({catalog.tables[name].ddl()})")
        connection.execute(
            "INSERT INTO lake.suppression BY NAME SELECT 'c' AS cluster, 'scrub' AS principal, 'fam' AS family, "
            "'' AS job_class, TIMESTAMP '2026-03-01' AS created_ts, TIMESTAMP '2026-04-01' AS expires_ts"
        )
        rows = [("f1", "uncovered_coverage", ["scrub"], "fam", "2026-03-05"), ("f2", "log_tampered", ["scrub"], "fam", "2026-03-05"),
                ("f3", "uncovered_coverage", ["scrub", "eve"], "fam", "2026-03-05"), ("f4", "uncovered_coverage", ["scrub"], "x", "2026-03-05"),
                ("f5", "uncovered_coverage", ["scrub"], "fam", "2026-04-01")]  # fmt: skip
        connection.executemany(
            "INSERT INTO lake.finding BY NAME SELECT $1 AS finding_id, $2 AS detector, 'security' AS domain, ['c'] AS cluster, "
            "$3::VARCHAR[] AS principal, [] AS job_id, json_object('family', $4) AS evidence, $5::TIMESTAMP AS detected_at", rows
        )  # fmt: skip
        connection.execute(
            "INSERT INTO lake.verdict BY NAME SELECT unnest(['f1', 'f3', 'f2']) AS finding_id, "
            "unnest(['benign', 'true_positive', 'acknowledged']) AS verdict"
        )
        store: Any = SimpleNamespace(connection=connection)
        assert outbox._suppressed(store, catalog) == {"f1"}
        connection.execute("DELETE FROM lake.verdict WHERE finding_id = 'f1'")
        assert outbox.standings(store, catalog) == {
            "f1": "suppressed", "f2": "acknowledged", "f3": "true_positive"
        }  # fmt: skip
        connection.execute(
            "INSERT INTO lake.verdict BY NAME SELECT 'f1' AS finding_id, 'benign' AS verdict"
        )
        assert outbox.standings(store, catalog)["f1"] == "benign"
        assert outbox._trust(store, catalog) == {"uncovered_coverage": 2 / 3}
