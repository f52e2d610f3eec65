"""`fleetmark backtest`: what another policy or threshold would have found, what was at stake, and when."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError, SettingsError
from fleetmark.pipeline.backtest import Settings, backtest, summarise, with_policy
from fleetmark.pipeline.build import bring_up_to_date
from fleetmark.pipeline.detect import detect
from fleetmark.pipeline.outcome import Flagged
from fleetmark.pipeline.thresholds import parse
from fleetmark.pipeline.write import insert
from fleetmark.store import Store
from fleetmark.testing import EPOCH, complete

CATALOG = load_catalog()
RULE = "gpu_health_event"
CHAIN = ("gpu_place", "gpu_event_burst", "gpu_allocation", "health_event", "health_event_policy")
FLEETMARK = str(Path(sys.executable).with_name("fleetmark"))


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-{text}:00")


def xid(node: str, code: int, ts: str) -> dict[str, object]:
    return {
        "cluster": "c1", "node": node, "ts": at(ts), "ts_precision_s": 1.0, "event": "xid",
        "message": f"NVRM: Xid (PCI:0000:1a:00): {code}", "repeat_no": 1, "event_count": 1,
        "xid_code": code, "pci_bus_id": "00000000:1a:00.0", "file_id": "f", "line_no": 1,
    }  # fmt: skip


def job(job_id: str, node: str, start: str, end: str, state: str) -> dict[str, object]:
    return {
        "cluster": "c1", "job_id": job_id, "attempt": 1, "attempt_ts": at(start),
        "start_ts": at(start), "end_ts": at(end), "phase": 2, "state": state, "alloc_gpus": 8,
        "alloc_nodes": 1, "node_list": [node], "file_id": "f", "line_no": 1,
    }  # fmt: skip


@pytest.fixture(scope="module")
def filled(_empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A row remap on a node whose job fails six hours later; a time-out and, a day later, a lost GPU."""
    root = tmp_path_factory.mktemp("history") / "store"
    shutil.copytree(_empty_store, root)
    events = [xid("n1", 63, "05T04:00"), xid("n2", 109, "05T05:00"), xid("n2", 79, "06T06:00")]
    jobs = [
        job("70", "n1", "05T03:00", "05T10:00", "FAILED"),
        job("71", "n2", "05T00:00", "05T06:00", "COMPLETED"),
    ]
    with Store(root, memory_mb=512) as store:
        for name, rows in (("gpu_event", events), ("job_attempt", jobs)):
            table = CATALOG.tables[name]
            frame = complete(table, pl.DataFrame(rows, schema_overrides=table.polars_schema()))
            store.commit(lambda t=table, f=frame: insert(store, t, f))  # type: ignore[misc]  # bound per table
        for model in CATALOG.in_order():
            if model.name in CHAIN:
                bring_up_to_date(store, CATALOG, model, {})
        yield store


def found(store: Store, changed: Settings, **period: date) -> dict[str, Flagged]:
    """Findings by node and hour, such as n1 04."""
    span = (period.get("start"), period.get("end"))
    return {
        f"{f.node[0]} {f.detected_at:%H}": f
        for f in backtest(store, CATALOG, RULE, {}, changed, span)
    }


def test_policies_side_by_side_with_stake_and_lead(filled: Store) -> None:
    before = filled.snapshot()
    eks = found(filled, with_policy(CATALOG, RULE, "eks_agent"))
    said = {k: (f.severity_today, f.severity_replayed) for k, f in eks.items()}
    assert said == {
        "n1 04": ("low", "high"),
        "n2 05": ("medium", "high"),
        "n2 06": ("high", "high"),
    }
    remap = eks["n1 04"]
    # Eight GPUs for the six hours until job 70 failed.
    assert (remap.gpu_h_at_stake, remap.outcome, remap.lead_s) == (48.0, "job_failed", 6 * 3600)
    # Job 71 ended well an hour later; the GPU was lost after 25 hours, beyond the horizon of a day.
    assert (eks["n2 05"].gpu_h_at_stake, eks["n2 05"].outcome) == (8.0, None)
    assert (eks["n2 06"].gpu_h_at_stake, eks["n2 06"].outcome) == (None, None)
    plugin = list(found(filled, with_policy(CATALOG, RULE, "k8s_device_plugin")).values())
    lines = {line.findings: line for line in summarise(plugin)}
    assert {k: v.finding_count for k, v in lines.items()} == {
        "today": 3, "replayed": 2, "both": 2, "only_today": 1, "only_replayed": 0,
    }  # fmt: skip
    assert (lines["today"].severe_count, lines["replayed"].severe_count) == (1, 0)
    assert (lines["today"].gpu_h_at_stake, lines["replayed"].gpu_h_at_stake) == (56.0, 48.0)
    assert (lines["today"].with_outcome_count, lines["today"].lead_median_s) == (1, 6 * 3600)
    assert filled.snapshot() == before, "something was written"


def test_the_horizon_and_the_period(filled: Store) -> None:
    (late,) = [
        f
        for f in backtest(filled, CATALOG, RULE, {}, {}, horizon=timedelta(hours=26))
        if f.detected_at == at("05T05:00")
    ]
    assert (late.outcome, late.lead_s) == ("fatal_event", 25 * 3600)
    assert set(found(filled, {}, start=date(2026, 3, 6))) == {"n2 06"}
    assert set(found(filled, {}, end=date(2026, 3, 6))) == {"n1 04", "n2 05"}
    with pytest.raises(InputError, match="holds no day"):
        found(filled, {}, start=date(2026, 3, 6), end=date(2026, 3, 6))


def test_a_changed_model_is_recomputed_for_the_replay_alone(filled: Store) -> None:
    """Where the change moves nothing, the replay finds what `detect` stored."""
    detect(filled, CATALOG, {}, EPOCH, [RULE])
    stored = filled.connection.execute("SELECT finding_id, severity FROM lake.finding").fetchall()
    same = backtest(filled, CATALOG, RULE, {}, {"health_event": {"chain_window_s": 3600}})
    assert {(f.finding_id, f.severity_today) for f in same} == set(stored)
    assert {(f.finding_id, f.severity_replayed) for f in same} == set(stored)
    strict = parse(CATALOG, RULE, ["least_action=drain_node", "gpu_event_burst.burst_gap_s=60"])
    assert [f.node for f in backtest(filled, CATALOG, RULE, {}, strict) if f.severity_replayed] == [
        ["n2"]
    ]


def test_mistakes_are_named(filled: Store) -> None:
    with pytest.raises(InputError, match="no detector nothing"):
        backtest(filled, CATALOG, "nothing", {}, {})
    with pytest.raises(InputError, match="rests on no policy"):
        with_policy(CATALOG, "uncovered_coverage", "gcm")
    with pytest.raises(InputError, match="straggler_rank cannot judge this store: no rows in"):
        backtest(filled, CATALOG, "straggler_rank", {}, {})
    for stated in (["nothing=1"], ["health_event.nothing=1"], ["health_event.chain_window_s=soon"]):
        with pytest.raises(SettingsError, match="--set"):
            parse(CATALOG, RULE, stated)


def test_the_command_prints_the_comparison_or_the_findings(filled: Store) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [FLEETMARK, "backtest", *arguments, "--store", str(filled.root)],
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    ran = run(RULE, "--set", "least_action=reset_gpu", "--to", "2026-03-06", "--json")
    assert (ran.returncode, ran.stderr) == (0, "")
    counts = {line["findings"]: line["finding_count"] for line in json.loads(ran.stdout)}
    assert counts == {"today": 2, "replayed": 1, "both": 1, "only_today": 1, "only_replayed": 0}
    listed = run(RULE, "--policy", "gcm", "--from", "2026-03-06", "--list").stdout.splitlines()
    assert listed[0].split()[:3] == ["finding_id", "severity_today", "severity_replayed"]
    assert listed[1].split()[1:4] == ["high", "high", "gpu_fault"]
