"""Pulling from a real kube-apiserver: pages, cursors, restarts, 410 Gone, refusals, custom resources, its audit log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fleetmark.catalog import load_catalog
from fleetmark.errors import ServiceUnreachableError
from fleetmark.live import inputs
from fleetmark.live.looks import look_of
from fleetmark.pipeline import kube as client
from fleetmark.pipeline.pull_answer import PartReport
from fleetmark.pipeline.pull_kubernetes import pull_kubernetes
from fleetmark.settings import Settings
from fleetmark.source import Context
from fleetmark.store import Store
from tests.services import kube

pytestmark = [
    pytest.mark.long,
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore:Unverified HTTPS request"),  # its certificate is its own
]
CATALOG = load_catalog()
PODS = "/api/v1/namespaces/ml/pods"
GPUS = {"limits": {"nvidia.com/gpu": "8"}}
CONTAINERS = [{"name": "c", "image": "registry.example/train:1", "resources": GPUS}]
# Group, version, kind, plural, scope; no schema, so that objects of any release are taken as they are.
CUSTOM = (
    ("kueue.x-k8s.io", "v1beta2", "Workload", "workloads", "Namespaced"),
    ("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", "Cluster"),
    ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", "Namespaced"),
)


def stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kube.ApiServer]:
    if why := kube.missing():
        pytest.skip(f"no kube-apiserver: {why}")
    with kube.ApiServer(tmp_path_factory.mktemp("kube")) as started:
        for group, version, kind, plural, scope in CUSTOM:
            schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            started.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
                "metadata": {"name": f"{plural}.{group}",
                             "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
                "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural},
                         "versions": [{"name": version, "served": True, "storage": True,
                                       "schema": {"openAPIV3Schema": schema}}]},
            })  # fmt: skip
        started.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "ml"}})
        node = {"metadata": {"name": "gpu01"}, "status": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "8"}}}  # fmt: skip
        started.ask("POST", "/api/v1/nodes", node)
        yield started


@pytest.fixture(autouse=True)
def configured(server: kube.ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        client, "WATCH_S", 1
    )  # a pull watches a dozen resources, one after the other
    for module in ("kubernetes.config", "kubernetes.config.kube_config"):
        monkeypatch.setattr(f"{module}.KUBE_CONFIG_DEFAULT_LOCATION", str(server.kubeconfig))


def pulled(store: Store, moment: datetime, context: str = "admin") -> list[PartReport]:
    with closing(client.Kubernetes(context)) as cluster:
        return list(pull_kubernetes(store, CATALOG, cluster, {"cluster": "k"}, moment))


def query(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return store.connection.execute(sql).fetchall()


def gaps(store: Store) -> list[str]:
    return [path for (path,) in query(
        store, "SELECT DISTINCT selector FROM lake.pull_range WHERE status = 'failed' ORDER BY 1"
    )]  # fmt: skip


def pods(store: Store) -> list[str]:
    return [p for (p,) in query(
        store, "SELECT DISTINCT pod FROM lake.queue_event WHERE pod <> '' ORDER BY 1"
    )]  # fmt: skip


def run_pod(server: kube.ApiServer, name: str, exit_code: int | None = None) -> None:
    """A pod of a job on gpu01; ended, if with an exit code."""
    server.ask("POST", PODS, {
        "metadata": {"name": name, "labels": {"job-name": f"job-{name}"}},
        "spec": {"containers": CONTAINERS, "nodeName": "gpu01", "restartPolicy": "Never"},
    })  # fmt: skip
    began = stamp(now() - timedelta(seconds=60))
    state: dict[str, Any] = {"running": {"startedAt": began}}
    if exit_code is not None:
        state = {"terminated": {"exitCode": exit_code, "startedAt": began, "finishedAt": stamp(now()), "reason": "Error"}}  # fmt: skip
    status = {
        "phase": "Running" if exit_code is None else "Failed",
        "startTime": began,
        "containerStatuses": [{"name": "c", "ready": False, "restartCount": 0, "image": "x", "imageID": "", "state": state}],
    }  # fmt: skip
    server.ask("PATCH", f"{PODS}/{name}/status", {"status": status})


def test_pages_deletions_restart_and_forgotten_versions(
    server: kube.ApiServer, new_store: Callable[[str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAGE_OBJECTS", 2)
    begin = now()
    for n in range(5):
        run_pod(server, f"page{n}")
    with new_store("store") as store:
        (report,) = pulled(store, begin)
        assert report.fine, report.message
        assert pods(store) == [f"page{n}" for n in range(5)]

        # Came, failed and went between two pulls.
        run_pod(server, "short", exit_code=137)
        server.ask("DELETE", f"{PODS}/short?gracePeriodSeconds=0")
        (report,) = pulled(store, begin + timedelta(minutes=1))
        assert report.fine, report.message
        ended = "SELECT job_id, state, exit_code, alloc_gpus FROM lake.job_attempt WHERE job_id LIKE '%short'"
        assert query(store, ended) == [("ml/job-short", "FAILED", 137, 8)]
        assert gaps(store) == []

        # Away: nothing is written; back: what happened since is pulled or named as a gap.
        server.stop()
        before = query(store, "SELECT count(*) FROM lake.queue_event")
        with pytest.raises(ServiceUnreachableError):
            pulled(store, begin + timedelta(minutes=2))
        assert query(store, "SELECT count(*) FROM lake.queue_event") == before
        server.start()
        run_pod(server, "later")
        pulled(store, begin + timedelta(minutes=3))
        assert "later" in pods(store)

        # Forgotten: compacted, and the server's own memory of changes lost with a restart.
        run_pod(server, "unseen", exit_code=1)
        server.ask("DELETE", f"{PODS}/unseen?gracePeriodSeconds=0")
        server.compact()
        server.stop()
        server.start()
        pulled(store, begin + timedelta(minutes=4))
        assert "unseen" not in pods(store)
        assert "/api/v1/pods" in gaps(store)

        # The same once more changes nothing.
        counted = query(store, "SELECT count(*) FROM lake.job_attempt")
        pulled(store, begin + timedelta(minutes=5))
        assert query(store, "SELECT count(*) FROM lake.job_attempt") == counted


def test_custom_resources_of_queues(
    server: kube.ApiServer, new_store: Callable[[str], Store]
) -> None:
    at = now() - timedelta(minutes=10)
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": {"name": "w1"},
        "spec": {"queueName": "q", "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": CONTAINERS}}}]},
        "status": {
            "admission": {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"nvidia.com/gpu": "h100"}, "resourceUsage": {"nvidia.com/gpu": "16"}}]},
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": stamp(at + after), "reason": kind, "message": ""}
                for kind, after in (("QuotaReserved", timedelta(0)), ("Admitted", timedelta(seconds=1)))
            ],
        },
    }  # fmt: skip
    server.ask("POST", "/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/workloads", workload)
    nominal = {"name": "nvidia.com/gpu", "nominalQuota": "64"}
    server.ask("POST", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", {
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "cq"},
        "spec": {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "h100", "resources": [nominal]}]}]},
    })  # fmt: skip
    server.ask("POST", "/apis/scheduling.volcano.sh/v1beta1/namespaces/ml/podgroups", {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "pg1"},
        "spec": {"minMember": 4, "queue": "default", "minResources": {"nvidia.com/gpu": "32"}},
        "status": {"phase": "Pending"},
    })  # fmt: skip
    with new_store("store") as store:
        (report,) = pulled(store, now())
        assert report.fine, report.message
        attempts = (
            "SELECT job_id, start_ts, alloc_gpus FROM lake.job_attempt WHERE source = 'kueue'"
        )
        assert query(store, attempts) == [("ml/w1", at + timedelta(seconds=1), 16)]
        assert query(store, "SELECT DISTINCT queue, nominal FROM lake.quota WHERE queue = 'cq'") == [("cq", 64)]  # fmt: skip
        assert query(store, "SELECT count(*) FROM lake.queue_snapshot WHERE job_id LIKE 'ml/pg1%'") == [(1,)]  # fmt: skip


def test_rbac_names_what_is_refused(
    server: kube.ApiServer, new_store: Callable[[str], Store]
) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
    server.ask("POST", f"{rbac}/clusterroles", {"metadata": {"name": "pods"}, "rules": [rule]})
    server.ask("POST", f"{rbac}/clusterrolebindings", {
        "metadata": {"name": "looker"},
        "subjects": [{"kind": "User", "name": "looker", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"kind": "ClusterRole", "name": "pods", "apiGroup": "rbac.authorization.k8s.io"},
    })  # fmt: skip
    run_pod(server, "seen")
    with new_store("store") as store:
        *refused, rows = pulled(store, now(), "looker")
        assert rows.row_count > 0
        assert "/api/v1/nodes" in [report.what for report in refused]
        assert all("get, list and watch" in report.message for report in refused)
        assert "/api/v1/pods" not in gaps(store)
        # As an input of `fleetmark run`: goes on from there, and names the first that is refused.
        one = inputs.Kubernetes(name="pods", context="looker", options={"cluster": "k"})
        assert "get, list and watch" in look_of(one, CATALOG, Settings())(store, now()).problem


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_kubectls_yaml_gives_the_rows_of_its_json(server: kube.ApiServer) -> None:
    run_pod(server, "printed", exit_code=2)
    source = CATALOG.sources["kubernetes"]
    context = Context("x", {**source.defaults, "observed_at": stamp(now())})
    asked = ("get", "pods,jobs,nodes,events", "-A", "-o")
    as_json, as_yaml, wide = (server.kubectl(*asked, form) for form in ("json", "yaml", "wide"))
    expected = source.parse(as_json.encode(), context)  # type: ignore[arg-type]  # a document
    found = source.parse(as_yaml.encode(), context)  # type: ignore[arg-type]
    assert source.sniff(as_yaml.encode(), "x")
    assert found.skipped == expected.skipped
    assert "job_attempt" in expected.tables
    for name, frame in expected.tables.items():
        assert_frame_equal(found.tables[name].lazy().collect(), frame.lazy().collect())
    refused = source.parse(wide.encode(), context).rejects["reason"].to_list()  # type: ignore[arg-type]
    assert len(refused) == 1
    assert "kubectl's table" in refused[0]


def test_the_audit_log_of_the_server(server: kube.ApiServer, tmp_path: Path) -> None:
    copied = tmp_path / "audit.log"
    shutil.copy(server.audit, copied)
    lines = [json.loads(line) for line in copied.read_text().splitlines()]
    asked = {e["auditID"] for e in lines if e["stage"] != "RequestReceived"}
    refused = {e["auditID"] for e in lines if e.get("responseStatus", {}).get("code") == 403}
    assert refused
    store = tmp_path / "store"
    ran = subprocess.run(
        [sys.executable, "-m", "fleetmark.cli", "ingest", "auto", str(copied), "--set", "cluster=k", "--store", str(store)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with Store(store, read_only=True) as opened:
        rows = opened.connection.execute(
            "SELECT event_id, principal, status FROM lake.storage_event WHERE source = 'kubernetes_audit'"
        ).pl()
        assert opened.connection.execute("SELECT count(*) FROM lake.reject").fetchall() == [(0,)]
    assert set(rows["event_id"]) == asked
    assert rows.height == len(asked)
    assert set(rows.filter(pl.col("status") == 403)["event_id"]) == refused
    assert {"admin", "looker"} <= set(rows["principal"])
