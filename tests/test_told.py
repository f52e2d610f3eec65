"""What was told, held, released and judged over weeks, in the outbox and in the evidence ledger."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from fleetmark.alerts import channels, deliver
from fleetmark.catalog import Catalog, load_catalog
from fleetmark.cli import main
from fleetmark.errors import StoreError
from fleetmark.evidence import Head, Ledger
from fleetmark.settings import Webhook
from fleetmark.store import Store

START = datetime(2026, 3, 1)  # noqa: DTZ001 - UTC without zone
DESK = Webhook("desk", "http://127.0.0.1:9/", "low")
TABLES = ("finding", "storage_access", "storage_event", "suppression", "verdict", "job_attempt", "principal_day", "principal_novelty_day")  # fmt: skip


@pytest.fixture
def catalog() -> Catalog:
    return load_catalog()


@pytest.fixture
def desk(store: Store, catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Bodies that reached the channel."""
    store.ensure([t for n in TABLES if (t := catalog.tables.get(n))])
    sent: list[Any] = []

    def send(_: object, __: object, body: Any, ___: object) -> str:
        sent.append(body)
        return ""

    monkeypatch.setattr(channels, "send", send)
    return sent


def find(store: Store, *found: tuple[int, float, str], who: str = "") -> None:
    """Findings (number, day, severity), each on a principal of its own."""
    for number, day, severity in found:
        store.connection.execute(
            "INSERT INTO lake.finding BY NAME SELECT $1 AS finding_id, 'uncovered_coverage' AS detector, 'security' AS domain, "
            "'x' AS kind, 0.5 AS score, $2 AS severity, $3 - INTERVAL 1 HOUR AS start_ts, $3 AS end_ts, $3 AS detected_at, "
            "[$4] AS principal, [] AS ip, [] AS job_id, [] AS node, ['c'] AS cluster, ['m'] AS checkpoint, [] AS bucket, [] AS gpu_uuid, "
            "[]::INTEGER[] AS rank, '{\"family\": \"fam\"}' AS evidence, 'v1' AS detector_version",
            [f"f{number}", severity, START + timedelta(days=day), who or f"p{number}"],
        )  # fmt: skip


def tell(store: Store, catalog: Catalog, day: float) -> int:
    at = START + timedelta(days=day)
    with Ledger(store.root, lambda: at) as ledger:
        return sum(d.delivered for d in deliver(store, catalog, [DESK], at, ledger))


def entries(store: Store, kind: str) -> list[Any]:
    with Ledger(store.root, datetime.now) as ledger:
        assert ledger.verify() == []
        return [json.loads(entry.body) for entry in ledger.entries(kind=kind)]


def test_held_thefts_go_out_week_by_week_and_the_ledger_says_so(
    store: Store, catalog: Catalog, desk: list[Any]
) -> None:
    store.commit(
        lambda: find(store, *((n, n / 24, "medium" if n % 2 else "high") for n in range(12)))
    )
    assert [tell(store, catalog, day) for day in (1, 3, 6.9)] == [5, 0, 0]
    find(store, (99, 7, "critical"))
    # A page leaves the week at day 7.0 and lets f6 out; the critical one takes no notice of the budget, but counts.
    assert [tell(store, catalog, day) for day in (7.01, 8, 14.3, 15, 30)] == [2, 3, 3, 0, 0]
    released = [body["finding_id"] for body in desk[5:]]
    assert sorted(released[:2]) == ["f6", "f99"]
    assert (sorted(released[2:5]), sorted(released[5:])) == (
        ["f10", "f5", "f8"],
        ["f11", "f7", "f9"],
    )
    statuses = [(e["finding_id"], e["status"]) for e in entries(store, "alert")]
    assert statuses.count(("f11", "held")) == statuses.count(("f11", "delivered")) == 1
    assert len(statuses) == 13 + 7


def test_a_page_is_told_again_when_its_finding_grows(
    store: Store, catalog: Catalog, desk: list[Any]
) -> None:
    """A theft is found at a tenth of the model; the finding is the same when it is whole."""
    find(store, (1, 0, "medium"))
    assert tell(store, catalog, 0.1) == 1
    for severity, told in (("medium", 0), ("critical", 1), ("critical", 0)):
        store.connection.execute("UPDATE lake.finding SET severity = $1", [severity])
        assert tell(store, catalog, 0.2) == told
    assert [body["severity"] for body in desk] == ["medium", "critical"]
    # What became lawful in the meantime stays held for good.
    store.commit(lambda: find(store, *((n, 1, "medium") for n in range(2, 9))))
    tell(store, catalog, 1.1)
    store.connection.execute(
        "INSERT INTO lake.suppression BY NAME SELECT 'c' AS cluster, 'p8' AS principal, 'fam' AS family, '' AS job_class, 'ann' AS owner, "
        "'scrub' AS reason, TIMESTAMP '2026-02-01' AS created_ts, TIMESTAMP '2026-04-01' AS expires_ts, 'file' AS file_id, 1 AS line_no"
    )
    tell(store, catalog, 40)
    assert "f7" in {body["finding_id"] for body in desk}
    assert "f8" not in {body["finding_id"] for body in desk}
    assert [e["status"] for e in entries(store, "alert") if e["finding_id"] == "f8"] == [
        "held",
        "suppressed",
    ]


def test_the_ledger_names_finding_channel_rows_and_what_people_decided(
    store: Store, catalog: Catalog, desk: list[Any]
) -> None:
    find(store, (1, 1, "high"), who="eve")
    store.connection.execute(
        "INSERT INTO lake.storage_access BY NAME SELECT 's3_access' AS source, 'read' AS op_class, 'eve' AS principal, "
        "unnest(['a', 'b', 'b']) AS file_id, unnest([7, 3, 9]) AS line_no, unnest([TIMESTAMP '2026-03-01 23:30', "
        "TIMESTAMP '2026-03-01 23:40', TIMESTAMP '2026-03-01 23:50']) AS ts"
    )
    for word in ("acknowledged", "false_positive", "false_positive"):
        store.connection.execute("DELETE FROM lake.verdict")
        store.connection.execute(
            "INSERT INTO lake.verdict BY NAME SELECT 'c' AS cluster, 'f1' AS finding_id, $1 AS verdict, 'ann' AS actor, "
            "TIMESTAMP '2026-03-02' AS judged_ts, 'file' AS file_id, 1 AS line_no", [word]
        )  # fmt: skip
        tell(store, catalog, 2)
    assert [e["verdict"] for e in entries(store, "verdict")] == ["acknowledged", "false_positive"]
    (alert,) = entries(store, "alert")
    assert (alert["finding_id"], alert["channel"], alert["status"], alert["principal"]) == (
        "f1",
        "desk",
        "delivered",
        ["eve"],
    )
    assert alert["evidence"] == {"family": "fam"}
    assert [(r["file_id"], r["first_line_no"], r["last_line_no"], r["row_count"]) for r in alert["rows"]] == [
        ("b", 3, 9, 2), ("a", 7, 7, 1),
    ]  # fmt: skip
    (number,) = store.connection.execute(
        "SELECT entry_number FROM lake.alert_delivery"
    ).fetchone() or (None,)
    shown = CliRunner().invoke(
        main, ["evidence", "export", "--kind", "alert", "--store", str(store.root)]
    )
    assert json.loads(shown.output)["number"] == number
    assert (
        CliRunner().invoke(main, ["evidence", "verify", "--store", str(store.root)]).output
        == "3 entries, unbroken\n"
    )


def test_a_ledger_that_cannot_be_written_stops_no_alert(
    store: Store, catalog: Catalog, desk: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    find(store, (1, 1, "high"))
    broken = StoreError("the disk is full")

    def fail(*_: object) -> Head:
        raise broken

    monkeypatch.setattr(Ledger, "append", fail)
    for _ in range(2):
        with pytest.raises(StoreError):
            tell(store, catalog, 2)
    assert [body["finding_id"] for body in desk] == ["f1", "f1"]
    monkeypatch.undo()
