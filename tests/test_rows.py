"""Rows without SQL: filters, order, pages, formats, caching."""

from __future__ import annotations

import io
import shutil
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from fastapi.testclient import TestClient

from fleetmark.catalog import load_catalog
from fleetmark.query.selection import RESERVED, select
from fleetmark.query.snapshot import read_snapshot
from fleetmark.settings import Settings
from fleetmark.store import Store
from fleetmark.table import Column, Table

create_app = import_module("fleetmark.api.app").create_app
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"
WIDE = Table(
    name="reading", doc="numbers", grain=("i",), columns=(Column("i", "BIGINT", "number"),)
)  # fmt: skip


@pytest.fixture(scope="module")
def client(fleet: Path) -> Iterator[TestClient]:
    with TestClient(
        create_app(Settings(store=fleet), workers=1), base_url="http://localhost"
    ) as client:
        yield client


def rows(client: TestClient, path: str, **params: Any) -> dict[str, Any]:
    answer = client.get(f"/tables/{path}/rows", params=params)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_rows_come_with_units_and_in_order(client: TestClient) -> None:
    page = rows(client, "goodput_day", columns="day_ts,goodput_lower_ratio")
    assert page["row_count"] == len(page["rows"]) == 21
    assert page["next"] is None
    assert [(c["name"], c["unit"]) for c in page["columns"]] == [
        ("day_ts", None), ("goodput_lower_ratio", "ratio"),
    ]  # fmt: skip
    assert set(page["rows"][0]) == {"day_ts", "goodput_lower_ratio"}
    days = [row["day_ts"] for row in page["rows"]]
    assert days == sorted(days)


@pytest.mark.parametrize(
    ("params", "count"),
    [
        ({"since": "2026-11-20"}, 2),
        ({"until": "2026-11-03T00:00:00Z"}, 2),
        ({"since": "2026-11-02T01:00:00+01:00", "until": "2026-11-03"}, 1),
        ({"since": "1794182400000"}, 13),  # 2026-11-09T00:00:00Z in epoch milliseconds
        ({"coverage_ratio.below": "0.7"}, 3),
        ({"coverage_ratio.min": "0.62", "coverage_ratio.below": "1"}, 2),
        ({"coverage_ratio": ["0.62", "0"]}, 3),
        ({"cluster": "' OR 1=1 --"}, 0),
    ],
)
def test_rows_are_filtered(client: TestClient, params: dict[str, Any], count: int) -> None:
    assert rows(client, "goodput_day", **params)["row_count"] == count


@pytest.mark.parametrize("sort", [None, "severity,-score", "-detected_at", "upper", "-upper,kind"])
def test_pages_neither_overlap_nor_skip(client: TestClient, sort: str | None) -> None:
    """`upper` is NULL in most rows: unknown values come last, whichever the direction."""
    params: dict[str, Any] = {} if sort is None else {"sort": sort}
    whole = rows(client, "finding", limit=1000, **params)["rows"]
    assert len(whole) == 30
    paged: list[Any] = []
    cursor = None
    while True:
        page = rows(client, "finding", limit=7, **params, **({"after": cursor} if cursor else {}))
        paged += page["rows"]
        cursor = page["next"]
        if cursor is None:
            break
    assert paged == whole
    bare = rows(client, "finding", columns="kind", limit=2, **params)
    assert bare["rows"] == [{"kind": row["kind"]} for row in whole[:2]]


@pytest.mark.parametrize(
    "params",
    [
        {"nope": "1"},
        {"evidence.min": "a"},
        {"node": "a list"},
        {"score": "much"},
        {"detected_at.min": "yesterday"},
        {"sort": "nope"},
        {"columns": "finding_id,nope"},
        {"limit": "0"},
        {"limit": "10001"},
        {"limit": "-1"},
        {"after": "x"},
        {"finding_id": "\0"},
    ],
)
def test_wrong_parameters_are_named(client: TestClient, params: dict[str, str]) -> None:
    answer = client.get("/tables/finding/rows", params=params)
    assert answer.status_code == 422, answer.text
    assert next(iter(params)).split(".")[0] in answer.json()["detail"]


def test_a_cursor_belongs_to_its_order(client: TestClient) -> None:
    cursor = rows(client, "finding", limit=1, sort="score")["next"]
    answer = client.get("/tables/finding/rows", params={"after": cursor, "sort": "-score"})
    assert answer.status_code == 422


def test_no_column_is_called_like_a_parameter() -> None:
    for table in load_catalog().tables.values():
        assert not set(RESERVED) & set(table.column_names), table.name


def test_formats_hold_the_same_rows(client: TestClient) -> None:
    def frame(media: str) -> Any:
        answer = client.get("/tables/goodput_day/rows", headers={"Accept": media})
        assert answer.status_code == 200
        assert answer.headers["fleetmark-row-count"] == "21"
        return answer.content

    arrow = pl.from_arrow(pa.ipc.open_stream(frame(ARROW)).read_all())
    parquet = pl.read_parquet(io.BytesIO(frame(PARQUET)))
    assert isinstance(arrow, pl.DataFrame)
    assert arrow.sort("day_ts").equals(parquet.sort("day_ts"))
    assert dict(arrow.schema) == load_catalog().tables["goodput_day"].polars_schema()
    assert frame("text/csv").count(b"\n") == 22
    assert frame("application/x-ndjson").count(b"\n") == 21


def test_an_answer_that_is_known_is_not_sent_again(client: TestClient) -> None:
    for path in ("/tables/goodput_day/rows", "/tables", "/tables/finding", "/findings", "/detectors",
                 "/query?sql=SELECT+count(*)+FROM+finding"):  # fmt: skip
        first = client.get(path)
        again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b""), path
        other = client.get(path, headers={"If-None-Match": '"other"'})
        assert other.status_code == 200
    changing = client.get("/query", params={"sql": "SELECT now()"})
    assert "etag" not in changing.headers
    csv = client.get("/tables/finding/rows", headers={"Accept": "text/csv"}).headers["etag"]
    assert csv != client.get("/tables/finding/rows").headers["etag"]


def test_an_answer_holds_while_other_tables_are_written_to(fleet: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(fleet, root)
    paths = ("/query?sql=SELECT count(*) AS n FROM finding", "/tables/finding/rows?limit=5")

    def write(sql: str) -> None:
        with Store(root, memory_mb=256) as store:
            store.commit(lambda: store.connection.execute(sql))
        time.sleep(0.3)  # the API looks at most five times a second

    with TestClient(
        create_app(Settings(store=root), workers=1), base_url="http://localhost"
    ) as client:
        known = {path: {"If-None-Match": client.get(path).headers["etag"]} for path in paths}
        write("DELETE FROM lake.reject")
        assert [client.get(path, headers=known[path]).status_code for path in paths] == [304, 304]
        assert client.get("/tables/reject/rows").json()["rows"] == []
        write("DELETE FROM lake.finding")
        first, page = (client.get(path, headers=known[path]) for path in paths)
        assert first.json()["rows"] == [{"n": 0}]
        assert page.json()["rows"] == []


def test_listed_files_are_those_that_the_lake_names(fleet: Path, tmp_path: Path) -> None:
    """Asked for all tables at once, and table by table."""
    with Store(tmp_path / "store", memory_mb=512) as store:
        store.ensure([WIDE])
        for sql in ("INSERT INTO lake.reading SELECT range FROM range(100)",
                    "DELETE FROM lake.reading WHERE i % 2 = 0",
                    "INSERT INTO lake.reading SELECT range FROM range(100, 200)",
                    "DELETE FROM lake.reading WHERE i >= 100"):  # fmt: skip
            store.commit(lambda sql=sql: store.connection.execute(sql))  # type: ignore[misc]  # bound per statement
        assert read_snapshot(store, [WIDE]).files["reading"] == tuple(store.files("reading"))
    with Store(fleet, read_only=True, memory_mb=512) as store:
        snapshot = read_snapshot(store, load_catalog().tables.values())
        for name in ("finding", "goodput_day", "gpu_sample", "ingest_file"):
            assert set(snapshot.files[name]) == set(store.files(name))


def test_parameters_are_bound_never_pasted() -> None:
    table = load_catalog().tables["finding"]
    chosen = select(table, [("kind", "x'; --"), ("sort", "-score")], paged=True)
    assert "x'" not in chosen.sql
    assert chosen.params == ["x'; --"]
