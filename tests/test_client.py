"""The Python client against a server on a port, and the SQL prompt on a terminal."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest
import uvicorn
from click.testing import CliRunner

import fleetmark
from fleetmark.access.keys import KeyRing
from fleetmark.cli import main
from fleetmark.client import Fleet
from fleetmark.errors import InputError, QueryError, ServiceError, ServiceUnreachableError
from fleetmark.prompt import Prompt
from fleetmark.settings import Settings

create_app = import_module("fleetmark.api.app").create_app


@pytest.fixture(scope="module")
def address(
    fleet: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str, str]]:
    """An API that asks for keys: its address, a planner's and a viewer's key."""
    keys = tmp_path_factory.mktemp("keys") / "keys.json"
    now = datetime(2026, 11, 30)  # noqa: DTZ001 - UTC without zone, as everywhere
    planner = KeyRing(keys).create("planner", "planner", now)
    viewer = KeyRing(keys).create("viewer", "viewer", now)
    app = create_app(Settings(store=fleet, auth={"keys": str(keys)}), workers=1)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}", planner, viewer
    server.should_exit = True
    thread.join()


@pytest.fixture
def planner(address: tuple[str, str, str]) -> Iterator[Fleet]:
    with fleetmark.connect(address[0], key=address[1]) as fleet:
        yield fleet


def test_sql_gives_typed_frames(planner: Fleet) -> None:
    frame = planner.sql("SELECT * FROM goodput_day WHERE cluster = $c ORDER BY day_ts", c="ember")
    assert frame.height == 21
    assert frame.schema["day_ts"] == pl.Datetime("us")
    assert planner.arrow("SELECT 9007199254740993 AS n")["n"].to_pylist() == [9007199254740993]
    assert sum(b.num_rows for b in planner.batches("FROM range(50000)")) == 50_000
    assert planner.sql("FROM range(50)", limit=7).height == 7


def test_large_answers_arrive_whole(planner: Fleet) -> None:
    frame = planner.sql("SELECT md5(range::VARCHAR) AS h, random() AS r FROM range(400000)")
    assert frame.height == frame["h"].n_unique() == 400_000


def test_an_answer_that_breaks_off_is_noticed(planner: Fleet) -> None:
    sql = ("SELECT md5(range::VARCHAR) AS h, random() AS r, "
           "CASE WHEN range = 390000 THEN error('late') END AS e FROM range(400000)")  # fmt: skip
    with pytest.raises(ServiceError, match="broke off"):
        planner.sql(sql)


def test_tables_and_findings_need_no_sql(address: tuple[str, str, str]) -> None:
    with fleetmark.connect(address[0], key=address[2]) as viewer:
        part = viewer.table("goodput_day", since="2026-11-20", columns=["day_ts"], cluster="ember")
        assert part.height == 2
        assert "goodput_day" in viewer.tables()["name"].to_list()
        assert len(viewer.findings()) == 29  # 30, one of security
        assert len(viewer.findings(severity=["high", "medium"])) == 2
        with pytest.raises(QueryError, match="planner"):
            viewer.sql("SELECT 1")


def test_refusals_say_what_is_wrong(address: tuple[str, str, str], planner: Fleet) -> None:
    with pytest.raises(QueryError) as refusal:
        planner.sql("SELECT nope FROM finding")
    assert refusal.value.position == 7
    with pytest.raises(ServiceError, match="no table"):
        planner.table("nothing")
    with pytest.raises(ServiceError, match="key"):
        fleetmark.connect(address[0]).sql("SELECT 1")
    with pytest.raises(ServiceUnreachableError):
        fleetmark.connect("http://127.0.0.1:9").sql("SELECT 1")
    with pytest.raises(InputError):
        fleetmark.connect("localhost")


def test_the_prompt_completes_tables_columns_and_keywords() -> None:
    columns: dict[str, list[tuple[str, str, str | None]]] = {
        "job": [("job_id", "VARCHAR", None)],
        "mfu_day": [("mfu_ratio", "DOUBLE", "ratio")],
    }
    prompt = Prompt(lambda _: ([], []), columns, lambda *_: None, lambda _: None)
    assert prompt.completions("jo") == ["JOIN", "job", "job_id"]
    assert prompt.completions("mfu_day.") == ["mfu_day.mfu_ratio"]
    assert prompt.completions(".ta") == [".tables"]


def test_the_prompt_runs_statements_over_several_lines(fleet: Path) -> None:
    typed = "SELECT count(*) AS n\nFROM finding;\nSELECT nope;\n.columns finding\n.nothing\nSELECT 2 AS two"
    done = CliRunner().invoke(main, ["sql", "--store", str(fleet)], input=typed)
    assert done.exit_code == 0, done.output
    assert "n\n30\n" in done.stdout
    assert "two\n2\n" in done.stdout
    assert "evidence" in done.stdout
    assert "nope" in done.stderr
    assert ".tables" in done.stderr


def test_the_prompt_keeps_its_history(fleet: Path, tmp_path: Path) -> None:
    """On a terminal: typed, completed with the tabulator, remembered."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "dumb"}
    with subprocess.Popen(
        [sys.executable, "-m", "fleetmark.cli", "sql", "--store", str(fleet)],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    ) as process:  # fmt: skip
        os.close(theirs)
        os.write(ours, b"SELECT 6*7 AS answer FROM goodput_d\t LIMIT 1;\n.quit\n")
        said = b""
        try:
            while part := os.read(ours, 4096):
                said += part
        except OSError:  # the other end is closed
            pass
        process.wait(timeout=60)
    os.close(ours)
    assert b"\r\n42\r\n" in said, said.decode()
    history = (tmp_path / "fleetmark" / "sql_history").read_text()
    assert "FROM goodput_day  LIMIT 1" in history.replace("goodput_day LIMIT", "goodput_day  LIMIT")
