"""The README's promise: real logs in, answers out, and a second run that changes nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
FLEETMARK = str(Path(sys.executable).with_name("fleetmark"))


def fleetmark(*arguments: str, store: Path) -> str:
    ran = subprocess.run(
        [FLEETMARK, *arguments], env={**os.environ, "FLEETMARK_STORE": str(store)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout


def table_states(store: Path) -> dict[str, tuple[int, str]]:
    rows = json.loads(fleetmark("tables", "--json", store=store))
    return {r["name"]: (r["row_count"], r["content_hash"]) for r in rows}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A demo store and what the demo printed."""
    store = tmp_path_factory.mktemp("demo") / "store"
    return store, fleetmark("demo", "--exit", store=store)


def test_a_second_run_changes_nothing(demo: tuple[Path, str]) -> None:
    store, printed = demo
    before = table_states(store)
    assert fleetmark("demo", "--exit", store=store) == printed
    assert table_states(store) == before
    full = {"gpu_sample", "gpu_minute", "collective", "step_sample", "job_attempt", "goodput_day",
            "storage_access", "vc_minute", "checkpoint_read_day", "finding", "inventory_gpu"}  # fmt: skip
    assert all(before[name][0] > 0 for name in full)


def test_it_finds_what_is_there_and_nothing_else(demo: tuple[Path, str]) -> None:
    """AR's slow worker and ST's last stage (published), the injected hangs (their logs), the
    simulated week's sick GPU, seen in its steps and in its clock, and theft (its truth).
    """
    found = json.loads(fleetmark("findings", "--json", store=demo[0]))
    short = {(f["detector"], f["kind"], f["cluster"][0], *f["job_id"], *f["rank"]) for f in found}
    assert ("straggler_rank", "slow_gpu", "bytedance", "AR", 0) in short
    assert {f["rank"][0] for f in found if f["detector"] == "hang"} == {9, 12}
    assert {s[:3] for s in short} == {
        ("straggler_rank", "slow_gpu", "bytedance"),
        ("straggler_rank", "slow_gpu", "sim"),
        ("stage_overload", "last_stage_overload", "bytedance"),
        ("hang", "hang", "default"),
        ("slow_gpu", "clock_deficit", "sim"),
        ("uncovered_coverage", "uncovered_coverage", "sim"),
        ("shard_sweep", "shard_sweep", "sim"),
    }
    thieves = [f["principal"] for f in found if f["domain"] == "security"]
    assert all(principal == thieves[0] for principal in thieves)
    theft = next(f for f in found if f["detector"] == "uncovered_coverage")
    assert theft["checkpoint"] == ["llm-70b"]
    assert theft["upper"] == 1.0


def test_the_report_says_what_is_made_up_undated_or_unknown(demo: tuple[Path, str]) -> None:
    printed = demo[1]
    assert "`sim` is made up" in printed
    assert "`testgpu` is a real Slurm whose GPUs are plain device files" in printed
    assert "undated trace" in printed
    assert "1970" not in printed
    assert "16.7% of GPU minutes seen from 2026-03-02 to 2026-03-08" in printed


def test_published_quartiles(demo: tuple[Path, str]) -> None:
    """Helios, May 2020 without the outage: all 15 published values to 0.1 percentage point."""
    published = [
        line.split(",")
        for line in (ROOT / "samples/scheduler/helios/published_fig4_quartiles.csv")
        .read_text()
        .splitlines()[1:]
    ]
    query = "SELECT vc, q1_ratio, median_ratio, q3_ratio FROM vc_utilization_month"
    rows = {r["vc"]: r for r in json.loads(fleetmark("sql", query, "--json", store=demo[0]))}
    for vc, *values in published:
        got = [rows[vc][name] * 100 for name in ("q1_ratio", "median_ratio", "q3_ratio")]
        assert got == pytest.approx([float(v) for v in values], abs=0.1001), vc
    assert len(published) == 5


def test_every_printed_and_documented_query_runs(demo: tuple[Path, str]) -> None:
    store, printed = demo
    texts = printed + (ROOT / "README.md").read_text()
    queries = re.findall(r'fleetmark sql (?:--store \S+ )?"([^"]+)"', texts)
    assert len(queries) >= 5
    for query in queries:
        fleetmark("sql", query, store=store)


def test_commands_of_the_readme_exist() -> None:
    listed = subprocess.run(
        [FLEETMARK, "--help"], capture_output=True, text=True, check=True
    ).stdout
    for name in re.findall(r"^fleetmark (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^  {name}\b", listed, re.MULTILINE), name


def test_it_serves_page_and_api(demo: tuple[Path, str]) -> None:
    store, _ = demo
    process = subprocess.Popen(
        [FLEETMARK, "serve", "--port", "0", "--store", str(store)],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        match = re.search(r"http://127\.0\.0\.1:\d+", process.stderr.readline())
        assert match
        health = _get(f"{match.group()}/healthz")
        assert json.loads(health)["status"] == "ok"
        assert b"<html" in _get(f"{match.group()}/")
        assert b"openapi" in _get(f"{match.group()}/docs")
        findings: dict[str, Any] = json.loads(_get(f"{match.group()}/findings"))
        listed = json.loads(fleetmark("findings", "--json", store=store))
        assert {f["finding_id"] for f in findings["items"]} == {f["finding_id"] for f in listed}
    finally:
        process.terminate()
        process.wait(timeout=20)
        if process.stderr is not None:
            process.stderr.close()


def _get(url: str) -> bytes:
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - loopback only
                return bytes(answer.read())
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
