"""Pulling from an API server: what came and went in between, cursors, pages, 410 Gone, refusals.

The server is a stand-in that answers with recorded lists and scripted watches; the client is the real one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import ServiceError, ServiceUnreachableError
from fleetmark.live import inputs
from fleetmark.live.looks import look_of
from fleetmark.pipeline.kube import Kubernetes
from fleetmark.pipeline.pull_answer import PartReport
from fleetmark.pipeline.pull_kubernetes import pull_kubernetes
from fleetmark.settings import Settings
from fleetmark.store import Store

CATALOG = load_catalog()
SAMPLES = files("fleetmark.samples") / "scheduler" / "kubernetes-1.20"
NOW = datetime(2026, 11, 30, 12)  # noqa: DTZ001 - UTC without zone
NEXT = NOW + timedelta(minutes=5)
KUEUE = "/apis/kueue.x-k8s.io/v1beta1"


class Server:
    """Lists by path, watches by path and resource version; `asked` counts the queries."""

    def __init__(self) -> None:
        pods = json.loads((SAMPLES / "pods.json").read_text())
        self.lists: dict[str, list[dict[str, Any]]] = {"/api/v1/pods": [pods]}
        self.lists[f"{KUEUE}/workloads"] = [json.loads((SAMPLES / "workloads.json").read_text())]
        self.watches: dict[tuple[str, str], bytes] = {}
        self.forbidden: set[str] = set()
        self.asked: list[str] = []

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, bytes]:
        """Status and body for a GET."""
        self.asked.append(f"{path}?{'watch' if 'watch' in query else 'list'}")
        if path in self.forbidden:
            return 403, b"{}"
        if path == "/apis":
            version = {"groupVersion": "kueue.x-k8s.io/v1beta1"}
            group = {"name": "kueue.x-k8s.io", "preferredVersion": version, "versions": [version]}
            return 200, json.dumps({"groups": [group]}).encode()
        if path == KUEUE:
            return 200, json.dumps({"resources": [{"name": "workloads"}]}).encode()
        if "watch" in query:
            body = self.watches.get((path, query["resourceVersion"]), b"")
            return (410, b"{}") if body == b"410" else (200, body)
        empty = {
            "kind": "List",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "7"},
            "items": [],
        }
        return 200, json.dumps(
            self.lists.get(path, [empty])[int(query.get("continue", "0"))]
        ).encode()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A stand-in, and a kubeconfig that names it."""
    script = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            status, body = script.answer(
                parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()}
            )
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Nothing: the tests read `asked`."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        config = tmp_path / "kubeconfig"
        config.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{served.server_port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }))  # fmt: skip
        for module in ("kubernetes.config", "kubernetes.config.kube_config"):
            monkeypatch.setattr(f"{module}.KUBE_CONFIG_DEFAULT_LOCATION", str(config))
        yield script
        served.shutdown()


def pulled(store: Store, now: datetime) -> list[PartReport]:
    with closing(Kubernetes()) as cluster:
        return list(pull_kubernetes(store, CATALOG, cluster, {"cluster": "k"}, now))


def query(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return store.connection.execute(sql).fetchall()


def test_what_came_and_went_between_two_pulls_is_known(
    server: Server, new_store: Callable[[str], Store]
) -> None:
    ran = json.loads((SAMPLES / "pods.json").read_text())["items"][0]
    ran = {"kind": "Pod", "apiVersion": "v1", **ran}
    ran["metadata"] |= {"name": "short", "uid": "u-short", "annotations": {}, "labels": {}}
    lines = [{"type": "ADDED", "object": ran}, {"type": "DELETED", "object": ran}]
    with new_store("store") as store:
        pods = server.lists["/api/v1/pods"][0]
        half = {**pods, "items": pods["items"][:2], "metadata": {"continue": "1"}}
        rest = {**pods, "items": pods["items"][2:]}
        server.lists["/api/v1/pods"] = [half, rest]
        (report,) = pulled(store, NOW)
        assert report.fine
        assert query(store, "SELECT DISTINCT pod FROM lake.queue_event WHERE pod <> '' ORDER BY 1") == [
            ("p0",), ("p1",), ("p2",), ("p3",),
        ]  # fmt: skip
        cursor = pods["metadata"]["resourceVersion"]
        server.watches["/api/v1/pods", cursor] = _watched(*lines)
        server.asked.clear()
        pulled(store, NEXT)
        assert query(
            store, "SELECT job_id, state, exit_code FROM lake.job_attempt WHERE job_id = 'ml/short'"
        ) == [("ml/short", "OUT_OF_MEMORY", 137)]
        assert server.asked.count("/api/v1/events?watch") == 1
        assert "/api/v1/events?list" not in server.asked
        assert max(server.asked.count(path) for path in server.asked if "pods" not in path) == 1
        assert query(
            store,
            "SELECT start_ts, end_ts, status FROM lake.pull_range WHERE selector = '/api/v1/pods'",
        ) == [(NOW, NEXT, "pulled")]
        # The Workload tells of ml/w1: its pods in the same document do not tell again.
        assert query(store, "SELECT source FROM lake.job_attempt WHERE job_id = 'ml/w1'") == [
            ("kueue",)
        ]


def test_a_watch_that_is_cut_goes_on_where_it_ended(
    server: Server, new_store: Callable[[str], Store]
) -> None:
    sample = json.loads((SAMPLES / "pods.json").read_text())["items"][0]
    changes = []
    for number in (1, 2):
        made = {"name": f"short{number}", "uid": f"u-{number}", "annotations": {}, "labels": {}}
        meta = {**sample["metadata"], **made, "resourceVersion": f"90{number}"}
        pod = {"kind": "Pod", "apiVersion": "v1", **sample, "metadata": meta}
        changes.append({"type": "DELETED", "object": pod})
    cursor = server.lists["/api/v1/pods"][0]["metadata"]["resourceVersion"]
    jobs = "SELECT job_id FROM lake.job_attempt WHERE job_id LIKE 'ml/short%' ORDER BY 1"
    with new_store("store") as store:
        pulled(store, NOW)
        whole = _watched(*changes)
        # Three seconds are over in the middle of the second line. The list is already past both.
        server.watches["/api/v1/pods", cursor] = whole[: len(whole) - 40]
        server.lists["/api/v1/pods"][0]["metadata"]["resourceVersion"] = "999"
        pulled(store, NEXT)
        assert query(store, jobs) == [("ml/short1",)]
        server.watches["/api/v1/pods", "901"] = _watched(changes[1])
        pulled(store, NEXT + timedelta(minutes=5))
        assert query(store, jobs) == [("ml/short1",), ("ml/short2",)]
        assert query(store, "SELECT count(*) FROM lake.reject") == [(0,)]


def _watched(*changes: dict[str, Any]) -> bytes:
    """A watch's answer, as a server ends it after the time that it was asked for."""
    return b"".join(json.dumps(change).encode() + b"\n" for change in changes)


def test_a_forgotten_version_is_a_gap(server: Server, new_store: Callable[[str], Store]) -> None:
    cursor = server.lists["/api/v1/pods"][0]["metadata"]["resourceVersion"]
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
    with new_store("store") as store:
        pulled(store, NOW)
        server.watches["/api/v1/pods", cursor] = _watched(gone)
        server.watches["/api/v1/nodes", "7"] = b"410"
        (report,) = pulled(store, NEXT)
        assert report.fine
        failed = "SELECT selector, start_ts, end_ts FROM lake.pull_range WHERE status = 'failed' ORDER BY 1"
        assert query(store, failed) == [
            ("/api/v1/nodes", NOW, NEXT), ("/api/v1/pods", NOW, NEXT)
        ]  # fmt: skip
        assert "/api/v1/pods?list" in server.asked
        server.watches.clear()
        pulled(store, NEXT + timedelta(minutes=5))
        assert len(query(store, failed)) == 2  # the gap stays


def test_a_refused_resource_does_not_keep_others(
    server: Server, new_store: Callable[[str], Store]
) -> None:
    server.forbidden.add("/api/v1/nodes")
    with new_store("store") as store:
        refused, rows = pulled(store, NOW)
        assert refused.what == "/api/v1/nodes"
        assert "get, list and watch" in refused.message
        assert rows.row_count > 0
        (row,) = query(store, "SELECT selector FROM lake.pull_range WHERE status = 'failed'")
        assert row == ("/api/v1/nodes",)


def test_no_server_is_worth_another_try(
    server: Server, new_store: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "answer", lambda _path, _query: (503, b"{}"))
    with new_store("store") as store, pytest.raises(ServiceUnreachableError, match="503"):
        pulled(store, NOW)


def test_a_live_input_goes_on_from_its_cursors_and_names_what_is_refused(
    server: Server, new_store: Callable[[str], Store]
) -> None:
    one = inputs.Kubernetes(name="pods", context="c", options={"cluster": "k"})
    look = look_of(one, CATALOG, Settings())
    with new_store("store") as store:
        first = look(store, NOW)
        assert first.rows > 0
        assert first.problem == ""
        assert query(store, "SELECT DISTINCT cluster FROM lake.queue_event") == [("k",)]
        server.asked.clear()
        server.forbidden.add("/api/v1/nodes")
        assert "get, list and watch" in look(store, NEXT).problem
        assert server.asked.count("/api/v1/events?watch") == 1


def test_without_kubeconfig_a_pods_account_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.config import incluster_config, kube_config  # noqa: PLC0415 - 2 s to import

    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ServiceError, match="no cluster is configured"):
        Kubernetes()
    with pytest.raises(ServiceError, match="no cluster is configured"):
        Kubernetes("prod")
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("held by the pod")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with closing(Kubernetes()) as cluster:
        assert cluster.endpoint == "https://10.0.0.1:443"
