"""Pulling runs from MLflow: recorded answers of a real server page by page, and the server itself."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError, ServiceError
from fleetmark.pipeline.mlflow import Mlflow, RunReport, pull_mlflow
from fleetmark.store import Store
from fleetmark.summary import summarise
from fleetmark.testing import EPOCH

CATALOG = load_catalog()
RECORDED = Path(__file__).parent / "cases/sources/mlflow/real_server_history/input.json"
Runs = list[dict[str, Any]]


class Recorded(BaseHTTPRequestHandler):
    """The API over recorded runs: pages of two entries, a token with each but the last."""

    runs: ClassVar[Runs] = []
    wants_login: ClassVar[bool] = False

    def do_GET(self) -> None:
        asked = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        run = next(r for r in self.runs if r["info"]["run_id"] == asked["run_id"])
        points = [p for p in run["history"] if p["key"] == asked["metric_key"]]
        self._page("metrics", points, asked)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("experiments/search"):
            named = [{"experiment_id": str(n), "name": name} for n, name in enumerate("ab")]
            self._page("experiments", named, asked)
        else:
            bare = [{k: v for k, v in run.items() if k != "history"} for run in self.runs]
            self._page("runs", bare if asked["experiment_ids"] == ["1"] else [], asked)

    def _page(self, name: str, entries: Runs, asked: dict[str, Any]) -> None:
        start = int(asked.get("page_token") or 0)
        page: dict[str, Any] = {name: entries[start : start + 2]}
        if start + 2 < len(entries):
            page["next_page_token"] = str(start + 2)
        self.send_response(401 if self.wants_login else 200)
        self.end_headers()
        self.wfile.write(json.dumps(page).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(runs: Runs, *, wants_login: bool = False) -> Iterator[str]:
    handler = type("Handler", (Recorded,), {"runs": runs, "wants_login": wants_login})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def pulled(store: Store, url: str, *names: str) -> list[RunReport]:
    with Mlflow(url) as server:
        return list(pull_mlflow(store, CATALOG, server, {}, names, None, EPOCH))


def counts(store: Store) -> dict[str, int]:
    names = ("train_step", "train_event", "model_shape", "reject")
    return {s.name: s.row_count for s in summarise(store, [CATALOG.tables[n] for n in names])}


def test_every_page_is_read_and_what_is_known_is_not_added(
    new_store: Callable[[str], Store],
) -> None:
    """12 steps, 3 shapes and 6 starts and ends; a run that goes on adds its new steps only."""
    runs = json.loads(RECORDED.read_text())["runs"]
    with new_store("store") as store:
        early = json.loads(RECORDED.read_text())["runs"]
        early[1]["history"] = [p for p in early[1]["history"] if p["step"] <= 4]
        early[1]["info"]["end_time"] = None
        with serving(early) as url:
            assert [r.state for r in pulled(store, url)] == ["read"] * 4
        assert counts(store) == {"train_step": 10, "train_event": 5, "model_shape": 3, "reject": 0}
        with serving(runs) as url:
            assert all(report.fine for report in pulled(store, url, "b"))
            assert counts(store)["train_step"] == 12
            assert [r.state for r in pulled(store, url)] == ["unchanged"] * 4
            assert pulled(store, url, "a") == []
            with pytest.raises(InputError, match="has no experiment c"):
                pulled(store, url, "c")
        assert counts(store) == {"train_step": 12, "train_event": 6, "model_shape": 3, "reject": 0}


def test_a_server_that_refuses_says_what_to_do(new_store: Callable[[str], Store]) -> None:
    with new_store("store") as store:
        with (
            serving([], wants_login=True) as url,
            pytest.raises(ServiceError, match="--token-file"),
        ):
            pulled(store, url)
        with pytest.raises(InputError, match="no address of an MLflow server"):
            Mlflow("mlflow:5000")


@pytest.mark.long
@pytest.mark.services
@pytest.mark.skipif(which("mlflow") is None, reason="mlflow is not installed (pip install mlflow)")
def test_a_real_server(tmp_path: Path, new_store: Callable[[str], Store]) -> None:
    """Runs logged over the REST API come back with every step."""
    port = 5977
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        ["mlflow", "server", "--backend-store-uri", f"sqlite:///{tmp_path / 'runs.db'}", "--host",
         "127.0.0.1", "--port", str(port), "--workers", "1"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _fill(url)
        with new_store("store") as store:
            assert [report.row_count for report in pulled(store, url)] == [2503]
            assert counts(store)["train_step"] == 2500
    finally:
        server.terminate()
        server.wait(30)


def _fill(url: str) -> None:
    """A run of 2,500 steps, in batches of 1,000 as the API allows."""
    for _ in range(600):
        with suppress(requests.RequestException):
            if requests.get(f"{url}/version", timeout=5).ok:
                break
        time.sleep(0.1)

    def post(path: str, **body: object) -> dict[str, Any]:
        answer = requests.post(f"{url}/api/2.0/mlflow/{path}", json=body, timeout=60)
        assert answer.ok, answer.text
        found: dict[str, Any] = answer.json()
        return found

    run = post("runs/create", experiment_id="0", start_time=1_774_008_000_000)["run"]["info"][
        "run_id"
    ]
    post("runs/log-batch", run_id=run, params=[{"key": "n_layer", "value": "12"}])
    for start in range(0, 2500, 1000):
        steps = range(start, min(start + 1000, 2500))
        values = [{"key": "loss", "value": 2.0, "timestamp": 1_774_008_000_000 + 1000 * n, "step": n + 1} for n in steps]  # fmt: skip
        post("runs/log-batch", run_id=run, metrics=values)
    post("runs/update", run_id=run, status="FINISHED", end_time=1_774_020_000_000)
