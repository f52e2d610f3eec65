"""Data contracts: what Great Expectations says of profiles of rows that are right, broken, late or missing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from fleetmark.catalog import load_catalog
from fleetmark.cli import main
from fleetmark.contracts.check import Checked, check
from fleetmark.contracts.profile import By, Window, measures, profile
from fleetmark.contracts.suite import check_written, crossing, suite, written
from fleetmark.live.metrics import page
from fleetmark.live.parts import judge
from fleetmark.pipeline.run import ingest
from fleetmark.settings import Settings
from fleetmark.store import Store

CATALOG = load_catalog()
ACCESS = CATALOG.tables["storage_access"]
START = datetime(2026, 2, 6)  # noqa: DTZ001 - UTC without zone
LINE = (
    "79a59df900b949e55d96a1e698fbaced weights [{:%d/%b/%Y:%H:%M:%S} +0000] 192.0.2.3 arn:u "
    'R{} REST.GET.OBJECT ckpt/1 "GET /ckpt/1 HTTP/1.1" 200 - 113 1130 7 5 "-" "S3Console" -\n'
)
# Requests an hour: a steady day and a half, an hour of a twentieth, an hour of none, and back.
REQUESTS = [20] * 28 + [1, 0, 20]
NOW = START + timedelta(hours=len(REQUESTS), minutes=10)


@pytest.fixture
def store(new_store: Callable[[str], Store], tmp_path: Path) -> Store:
    opened = new_store("judged")
    lines = [
        LINE.format(START + timedelta(hours=hour, minutes=2 * n), f"{hour:03}{n:03}")
        for hour, count in enumerate(REQUESTS)
        for n in range(count)
    ]
    read(opened, tmp_path / "access.log", lines)
    return opened


def read(store: Store, path: Path, lines: list[str]) -> None:
    path.write_text("".join(lines))
    list(ingest(store, CATALOG, "s3_access", [path], {}, {}, NOW - timedelta(minutes=1)))


def judged(store: Store, by: By = "hour", start: datetime | None = None) -> Checked:
    return check(store, CATALOG, [ACCESS], by, start, NOW)


def failures(checked: Checked) -> list[tuple[str, str, str, float]]:
    columns = ("scope", "expectation", "severity", "observed")
    return checked.failed.select(*columns).rows()


def test_a_source_that_goes_quiet_fails_against_its_own_week(store: Store) -> None:
    checked = judged(store)
    assert failures(checked) == [
        ("2026-02-07T04:00:00Z", "rate_ratio", "warning", 0.05),
        ("2026-02-07T05:00:00Z", "rate_ratio", "warning", 0.0),
    ]
    assert checked.fine
    rates = checked.results.filter(pl.col("expectation") == "rate_ratio")
    # The first day has no week to compare with: unknown, not met.
    assert rates["success"].to_list() == [None] * 24 + [True] * 4 + [False, False, True]
    assert judged(store).results.is_empty()  # nothing is new
    again = judged(store, start=START + timedelta(hours=28))  # against what was stored before
    assert failures(again) == failures(checked)
    stored = store.connection.execute("SELECT count(*) FROM lake.contract_profile").fetchone()
    assert stored == (len(REQUESTS),)


def test_history_is_not_a_source_that_has_gone_quiet(store: Store) -> None:
    """Read in five days after its last row, against a source that stops while it is judged hour by hour."""
    later = NOW + timedelta(days=5)
    late = check(store, CATALOG, [ACCESS], "hour", None, later).results
    assert late["scope"].max() == "2026-02-07T06:00:00Z"
    judged(store, start=START)  # the last row an hour old
    stopped = check(store, CATALOG, [ACCESS], "hour", None, NOW + timedelta(hours=5))
    assert [scope for scope, name, *_ in failures(stopped) if name == "rate_ratio"] == [
        f"2026-02-07T{hour:02}:00:00Z" for hour in range(7, 12)
    ]


def test_rows_that_break_their_contract_are_errors(store: Store) -> None:
    last = START + timedelta(hours=30)
    where = f"WHERE ts = TIMESTAMP '{last}'"
    for sql in (
        f"INSERT INTO lake.storage_access SELECT * FROM lake.storage_access {where}",
        f"UPDATE lake.storage_access SET sent_bytes = -1, host_id = 'h' {where}",
        f"UPDATE lake.storage_access SET operation = NULL WHERE ts = TIMESTAMP '{last}' + INTERVAL 2 MINUTE",
    ):
        store.commit(lambda sql=sql: store.connection.execute(sql))  # type: ignore[misc]  # bound per statement
    checked = judged(store)
    scope = "2026-02-07T06:00:00Z"
    assert [row for row in failures(checked) if row[0] == scope] == [
        (scope, "duplicate_count", "error", 1),
        (scope, "null_ratio.operation", "error", pytest.approx(1 / 21)),
        (scope, "filled_column_change", "warning", 1),
        (scope, "out_of_range_count.bytes", "warning", 2),
    ]
    assert not checked.fine


def test_a_file_with_too_many_rejects_is_named(store: Store, tmp_path: Path) -> None:
    lines = [LINE.format(NOW - timedelta(days=3), f"f{n}") for n in range(18)]
    read(store, tmp_path / "torn.log", [*lines, "torn\n", "torn again\n"])
    checked = judged(store, by="file")
    (failed,) = failures(checked)
    assert failed[1:] == ("rejected_ratio", "warning", 0.1)
    path = store.connection.execute(
        "SELECT path FROM lake.ingest_file WHERE file_id = $1", [failed[0]]
    ).fetchone()
    assert path == (str(tmp_path / "torn.log"),)


def test_the_command_writes_docs_and_its_exit_code_tells_errors(
    store: Store, tmp_path: Path
) -> None:
    store.commit(
        lambda: store.connection.execute("UPDATE lake.storage_access SET operation = NULL")
    )
    store.connection.close()
    docs = tmp_path / "docs"
    arguments = ["contracts", "--store", str(store.root), "--docs", str(docs), "storage_access"]
    result = CliRunner().invoke(main, [*arguments, "--from", str(START.date())])
    assert result.exit_code == 1
    assert "Data Docs" in result.stderr
    assert "null_ratio.operation" in result.stdout
    page = next(docs.glob("validations/**/*.html")).read_text()
    assert "null_ratio.operation" in page


def test_live_operation_judges_and_tells(store: Store) -> None:
    """The part `contracts`, as `fleetmark run` starts it once an hour."""
    said: list[dict[str, object]] = []
    settings = Settings(store=store.root)
    judge(store, CATALOG, settings, lambda: NOW, lambda event, **fields: said.append(fields))
    assert said == [{"error": 0, "warning": 2}]
    shown = page(store.root).decode()
    assert 'fleetmark_contract_unmet_expectations{severity="warning"} 2.0' in shown
    assert 'fleetmark_input_up{input="contracts",kind="contracts"} 1.0' in shown


def test_every_expectation_is_of_a_measure_that_is_computed() -> None:
    given = {"rate_ratio", "filled_column_change", "rejected_ratio", "freshness_s"}
    for table in CATALOG.tables.values():
        computed = {name for name, _ in measures(table)} | {one.measure for one in crossing(table)}
        asked = [one.measure for one in suite(table)]
        assert set(asked) <= computed | given, table.name
        assert len(set(asked)) == len(asked), table.name
    check_written(written(), CATALOG)


def test_a_profile_binds_and_is_empty_without_rows(new_store: Callable[[str], Store]) -> None:
    """Of a source's hours, a model's, a table without time, and one with lists."""
    window = Window("hour", START, NOW)
    with new_store("empty") as empty:
        for name in ("gpu_minute", "inventory_gpu", "finding"):
            table = CATALOG.tables[name]
            every = [measure for measure, _ in measures(table)]
            profiled = profile(empty, table, window, every)
            assert profiled.is_empty()
            assert set(every) <= set(profiled.columns)
        for one in written():
            if one.sql:
                values = {"start": window.start, "end": window.end}
                answer = empty.connection.execute(one.sql, values).pl()
                assert answer.columns == ["start_ts", "value"]
