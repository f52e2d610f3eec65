"""The rules that ship, on reasons that schedulers really wrote."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

RULES = Path(__file__).parent.parent / "ingest" / "scheduler" / "reason_rule.json"
# (kind, reason, class): reasons of samples/scheduler (Slurm 22.05, 20.11), Kueue's and YuniKorn's
# documentation, messages of kube-scheduler, kubelet and Volcano.
REASONS = [
    ("node", "Xid 79: GPU has fallen off the bus", "gpu_fell_off_bus"),
    ("node", "ECC: DBE on GPU 5", "ecc"),
    ("node", "Not responding", "not_responding"),
    ("node", "Node unexpectedly rebooted", "reboot"),
    ("node", "Kill task failed", "kill_task_failed"),
    ("node", "Prolog error", "prolog_epilog"),
    ("node", "NodeStatusUnknown: Kubelet stopped posting node status.", "not_responding"),
    ("node", "GpuUnhealthy", "gpu_xid"),
    ("node", "quarterly maintenance", "planned_maintenance"),
    ("node", "ask bob", None),
    ("pending", "ReqNodeNotAvail, UnavailableNodes:gpu02", "node_unavailable"),
    ("pending", "JobHeldUser", "held"),
    ("pending", "Priority", "priority"),
    ("pending", "Resources", "resources"),
    ("pending", "QOSMaxGRESPerUser", "quota"),
    ("pending", "AssocGrpGRES", "quota"),
    ("pending", "Dependency", "dependency"),
    ("pending", "BeginTime", "begin_time"),
    ("pending", "PartitionTimeLimit", "limit"),
    ("pending", "Pending: couldn't assign flavors to pod set main: insufficient quota for cpu in "
     "flavor default-flavor in ClusterQueue", "quota"),
    ("pending", "Inadmissible: LocalQueue user-queue doesn't exist", "misconfigured"),
    ("pending", "Unschedulable: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.", "resources"),
    ("pending", "node(s) didn't match Pod's node affinity", "topology"),
    ("pending", "NotEnoughResources: 4/4 tasks in gang unschedulable: pod group is not ready", "gang"),
    ("evicted", "Preempted", "preemption"),
    ("evicted", "InCohortReclamation", "preemption"),
    ("evicted", "PodsReadyTimeout", "startup"),
    ("evicted", "DeletionByTaintManager", "node_failure"),
    ("evicted", "MaximumExecutionTimeExceeded", "timelimit"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "reason", "wanted"), REASONS)
def test_class_of_a_real_reason(kind: str, reason: str, wanted: str | None) -> None:
    rules = [json.loads(line) for line in RULES.read_text(encoding="utf-8").splitlines()]
    with duckdb.connect() as connection:
        matching = [
            (rule["rank"], rule["class"])
            for rule in rules
            if rule["kind"] == kind
            and connection.execute(
                "SELECT regexp_matches(lower($1), $2)", [reason, rule["pattern"]]
            ).fetchone()
            == (True,)
        ]
    assert min(matching, default=(0, None))[1] == wanted


def test_ranks_are_unique_and_every_rule_has_its_origin() -> None:
    rules = [json.loads(line) for line in RULES.read_text(encoding="utf-8").splitlines()]
    assert len({(rule["kind"], rule["rank"]) for rule in rules}) == len(rules)
    assert all(rule["source"] and rule["recorded_ts"] for rule in rules)
