"""The simulated fleet: repeatable, consistent with itself, and what its truth files say."""

from __future__ import annotations

import hashlib
import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError
from fleetmark.testing import parse_file

simulate = import_module("fleetmark.simulate")

NODES, DAYS = 2, 2


@pytest.fixture(scope="module")
def week(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("week")
    simulate.run("week", out, seed=7, nodes=NODES, days=DAYS)
    return out


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def truth(week: Path, name: str) -> pl.DataFrame:
    return pl.read_csv(week / "truth" / f"{name}.csv", try_parse_dates=True)


def log_lines(week: Path) -> list[str]:
    return [
        line
        for path in sorted((week / "raw" / "s3").rglob("*-*"))
        if path.is_file()
        for line in path.read_text().splitlines()
    ]


def test_same_seed_writes_the_same_bytes_and_another_seed_does_not(
    week: Path, tmp_path: Path
) -> None:
    simulate.run("week", tmp_path / "same", seed=7, nodes=NODES, days=DAYS)
    simulate.run("week", tmp_path / "other", seed=8, nodes=NODES, days=DAYS)
    first, other = content(week), content(tmp_path / "other")
    assert content(tmp_path / "same") == first
    shared = {name for name in first if first[name] == other.get(name)}
    # All but the first have no rows in this scenario.
    assert shared <= {"truth/run.csv", "truth/incident.csv", "truth/comm_job.csv"}


@pytest.mark.parametrize(("nodes", "days", "seed"), [(1, 1, 0), (2, 7, 1), (3, 2, 2), (20, 1, 3)])
def test_jobs_never_overlap_on_a_gpu(nodes: int, days: int, seed: int) -> None:
    world = simulate.build_world("week", seed, nodes, days)
    held = sorted(
        (gpu.uuid, attempt.begin_s, attempt.end_s or world.fleet.end_s)
        for attempt in world.attempts
        for gpu in attempt.gpus
    )
    assert len(held) > nodes * 8
    for (gpu, _, end_s), (next_gpu, start_s, _) in pairwise(held):
        assert gpu != next_gpu or end_s <= start_s


def test_a_week_has_running_pending_requeued_and_failed_jobs() -> None:
    world = simulate.build_world("week", 1, 2, 7)
    states = {attempt.state for attempt in world.attempts}
    assert {"COMPLETED", "FAILED", "CANCELLED", "RUNNING"} <= states
    assert states & {"REQUEUED", "NODE_FAIL", "PREEMPTED"}
    assert any(attempt.attempt > 1 for attempt in world.attempts)


def test_telemetry_agrees_with_the_jobs(week: Path) -> None:
    page = re.compile(r"# fleetmark scrape ts=(\S+) node=(\S+)\n(.*?)(?=# fleetmark|\Z)", re.DOTALL)
    reading = re.compile(r'^(DCGM_\w+)\{gpu="\d",UUID="([^"]+)".*\} (\S+)$', re.MULTILINE)
    rows = [
        (float(ts), name, gpu, float(value))
        for path in sorted((week / "raw" / "dcgm").glob("*.prom"))
        for ts, _, text in page.findall(path.read_text())
        for name, gpu, value in reading.findall(text)
    ]
    samples = pl.DataFrame(rows, schema=["ts", "name", "gpu_uuid", "value"], orient="row")
    wide = samples.pivot("name", index=["ts", "gpu_uuid"], values="value").with_columns(
        pl.from_epoch(pl.col("ts").cast(pl.Int64)).alias("at")
    )
    held = truth(week, "allocations").with_columns(
        pl.col("start_ts").dt.replace_time_zone(None),
        pl.col("end_ts").dt.replace_time_zone(None).fill_null(pl.datetime(2100, 1, 1)),
    )
    busy = wide.join(held, on="gpu_uuid").filter(
        (pl.col("at") > pl.col("start_ts").dt.offset_by("1s"))
        & (pl.col("at") < pl.col("end_ts").dt.offset_by("-1s"))
    )
    idle = wide.join(busy, on=["ts", "gpu_uuid"], how="anti")
    assert busy.height > 100
    assert idle.height > 100
    assert busy["DCGM_FI_PROF_SM_ACTIVE"].min() > 0  # type: ignore[operator]  # a number here
    near_a_boundary = idle.filter(pl.col("DCGM_FI_PROF_SM_ACTIVE") > 0)
    assert near_a_boundary.height < 0.01 * idle.height
    assert wide["DCGM_FI_DEV_SM_CLOCK"].is_not_null().all()


def test_the_sick_gpu_runs_slower_with_no_throttle_bit() -> None:
    world = simulate.build_world("week", 7, NODES, DAYS)
    sick = world.sick[0]
    node = world.fleet.node(sick.gpu.node)
    fleet = simulate.telemetry.sample(world.fleet, world.attempts, world.all_incidents, 7)
    samples = fleet.of(node)
    ill = samples.ts_s[:, 0] >= sick.start_s
    clock = samples.values["sm_clock_mhz"][ill]
    mask = samples.values["throttle_mask"][ill]
    working = samples.values["sm_ratio"][ill][:, sick.gpu.index] > 0
    own = clock[working, sick.gpu.index].mean()
    others = clock[working][:, [g.index for g in node.gpus if g != sick.gpu]].max(axis=1).mean()
    assert 1 - own / others == pytest.approx(sick.clock_deficit_ratio, abs=0.02)
    assert (mask[working, sick.gpu.index] == 0).all()


def test_bytes_of_the_theft_in_the_access_log_equal_the_truth(week: Path) -> None:
    theft = truth(week, "theft").row(0, named=True)
    stolen = {
        line.split(" ")[6]: int(line.split(" ")[13 + 1])
        for line in log_lines(week)
        if f" {theft['principal']} " in line and f" {theft['ip']} " in line
    }
    assert sum(stolen.values()) == theft["sent_bytes"] == theft["checkpoint_bytes"]


def test_access_log_lines_have_27_fields_come_late_and_sometimes_twice(week: Path) -> None:
    lines = log_lines(week)
    pattern = re.compile(r'"[^"]*"|\[[^\]]*\]|\S+')
    assert {len(pattern.findall(line)) for line in lines} == {27}
    assert len(set(lines)) < len(lines)
    times = [re.search(r"\[(.*?)\]", line).group(1) for line in lines]  # type: ignore[union-attr]  # every line has one
    assert times != sorted(times)


def test_no_job_covers_the_thief(week: Path) -> None:
    theft = truth(week, "theft").row(0, named=True)
    user = theft["principal"].split("/")[1]
    jobs = truth(week, "jobs").filter(pl.col("user") == user, pl.col("start_ts").is_not_null())
    clear = (pl.col("end_ts") < theft["start_ts"]) | (pl.col("start_ts") > theft["end_ts"])
    assert jobs.height > 0
    assert jobs.select(clear.all()).item()


def test_every_benign_load_lies_within_its_job(week: Path) -> None:
    jobs = truth(week, "jobs")
    events = truth(week, "benign").filter(pl.col("job_id").is_not_null())
    joined = events.join(jobs, on="job_id", suffix="_job").filter(
        pl.col("start_ts") >= pl.col("start_ts_job"),
        pl.col("end_ts") <= pl.col("end_ts_job").fill_null(pl.col("end_ts")),
    )
    assert joined.select("job_id", "checkpoint", "start_ts").n_unique() == events.height


def test_unknown_scenario_bad_size_and_used_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there are: .*week"):
        simulate.run("nosuch", tmp_path, 1, 1, 1)
    with pytest.raises(InputError, match="at least 1 node"):
        simulate.run("week", tmp_path, 1, 0, 1)
    simulate.run("week", tmp_path, 1, 1, 1, logs=())
    with pytest.raises(InputError, match="already holds"):
        simulate.run("week", tmp_path, 1, 1, 1, logs=())


@pytest.mark.parametrize(
    ("source", "pattern"),
    [
        ("sacct", "slurm/*.txt"),
        ("dcgm_exporter", "dcgm/*.prom"),
        ("s3_access", "s3/*/*"),
        ("straggler_trace", "trace/*.parquet"),
        ("inventory", "inventory.csv"),
        ("manifest", "manifest.csv"),
    ],
)
def test_every_raw_file_is_read_by_its_source_without_a_reject(
    week: Path, source: str, pattern: str
) -> None:
    paths = sorted((week / "raw").glob(pattern))
    assert paths
    for path in paths:
        parsed = parse_file(load_catalog().sources[source], path, cluster="sim")
        assert parsed.rejects.is_empty(), f"{path.name}: {parsed.rejects.row(0)}"
        frames = [frame.lazy().collect() for frame in parsed.tables.values()]
        assert sum(frame.height for frame in frames) > 0
