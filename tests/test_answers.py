"""Answers that leave in pieces, and clients that leave, or take nothing, before the end."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet
import pytest
import requests
import uvicorn
from fastapi.testclient import TestClient

from fleetmark.errors import QueryError
from fleetmark.query.pool import Pool, Ticket
from fleetmark.query.process import Limits
from fleetmark.query.snapshot import read_snapshot
from fleetmark.settings import Settings
from fleetmark.store import Store

create_app = import_module("fleetmark.api.app").create_app
admission = import_module("fleetmark.api.admission")
BrokenOffError = import_module("fleetmark.api.answers").BrokenOffError
PARQUET = "application/vnd.apache.parquet"
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def client(fleet: Path) -> Iterator[TestClient]:
    with TestClient(
        create_app(Settings(store=fleet), workers=1), base_url="http://localhost"
    ) as client:
        yield client


@pytest.mark.parametrize("media", [ARROW, PARQUET, "text/csv", "application/x-ndjson"])
def test_large_answers_come_in_pieces(client: TestClient, media: str) -> None:
    """Beyond 4 MiB: hashes, since they do not compress."""
    count = 300_000 if media in (ARROW, PARQUET) else 60_000
    sql = f"SELECT range AS i, md5(range::VARCHAR) || md5((range + 1)::VARCHAR) AS h FROM range({count})"
    with client.stream("POST", "/query", json={"sql": sql}, headers={"Accept": media}) as answer:
        body = b"".join(answer.iter_bytes())
    assert "fleetmark-row-count" not in answer.headers
    assert len(body) > 4 << 20
    if media == ARROW:
        assert pa.ipc.open_stream(body).read_all()["i"].to_pylist() == list(range(count))
    elif media == PARQUET:
        assert pyarrow.parquet.read_table(io.BytesIO(body)).num_rows == count
    else:
        assert body.count(b"\n") == count + (media == "text/csv")


def test_an_error_on_the_way_breaks_the_answer_off(client: TestClient) -> None:
    sql = ("SELECT md5(range::VARCHAR) || md5((range + 1)::VARCHAR) AS h, "
           "CASE WHEN range = 140000 THEN error('late') END AS e FROM range(150000)")  # fmt: skip
    # The test client hands on what the server raises. Of an error in one of its threads DuckDB may lose the words.
    with pytest.raises(BrokenOffError, match=r"late|its error was lost"):
        client.post("/query", json={"sql": sql}, headers={"Accept": "application/x-ndjson"})
    assert client.get("/query", params={"sql": "SELECT 1 AS one"}).json()["rows"] == [{"one": 1}]


def test_a_query_is_called_off_while_it_runs(fleet: Path) -> None:
    with Store(fleet, read_only=True, memory_mb=512) as store:
        snapshot = read_snapshot(store, [])
    ticket, began = Ticket(), time.monotonic()
    with Pool(snapshot.root, size=1, limits=Limits(deadline_s=30)) as pool:
        pool.query("SELECT 1", snapshot)
        timer = threading.Timer(0.3, ticket.call_off)
        timer.start()
        slow = "SELECT count(*) FROM range(1000000) a, range(1000000) b"
        with (
            pytest.raises(QueryError),
            pool.stream(slow, snapshot, limit=1, form="json", ticket=ticket) as stream,
        ):
            list(stream)
        assert time.monotonic() - began < 20
        assert pool.query("SELECT 1", snapshot).row_count == 1


def test_a_client_that_leaves_ends_its_query(fleet: Path) -> None:
    app = create_app(Settings(store=fleet), workers=1, limits=Limits(deadline_s=60))
    slow = "SELECT count(*) FROM range(1000000) a, range(1000000) b"
    body = json.dumps({"sql": slow}).encode()
    scope = {"type": "http", "method": "POST", "path": "/query", "raw_path": b"/query",
             "query_string": b"", "root_path": "", "scheme": "http", "http_version": "1.1",
             "server": ("test", 80), "client": ("test", 1),
             "headers": [(b"content-type", b"application/json"), (b"host", b"localhost")]}  # fmt: skip

    async def leave() -> float:
        sent = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> Any:
            for message in sent:
                return message
            await asyncio.sleep(0.5)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            """Nobody listens."""

        async with app.router.lifespan_context(app):
            await asyncio.to_thread(app.state.lake.snapshot)
            began = time.monotonic()
            await app(scope, receive, send)
            return time.monotonic() - began

    assert asyncio.run(leave()) < 20


@pytest.mark.parametrize("stays", [True, False])
def test_a_client_that_takes_nothing_holds_no_worker(
    stays: bool, fleet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads none of a large answer, and stays; or leaves while a piece is being sent."""
    if stays:
        monkeypatch.setattr(admission, "TAKEN_WITHIN_S", 1.0)
    app = create_app(Settings(store=fleet), workers=1, limits=Limits(deadline_s=60))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    sql = quote("SELECT repeat('x', 1000) AS x FROM range(3000000)")
    asked = f"GET /query?sql={sql} HTTP/1.1\r\nHost: localhost\r\nAccept: text/csv\r\n\r\n"
    try:
        with socket.create_connection(listener.getsockname()) as silent:
            silent.sendall(asked.encode())
            assert silent.recv(15) == b"HTTP/1.1 200 OK"
            if not stays:
                silent.close()
            answer = requests.get(f"http://{address}/query?sql=SELECT+1", timeout=20)
            assert answer.status_code == 200
    finally:
        server.should_exit = True
        thread.join()
