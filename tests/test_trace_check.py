"""`fleetmark check-trace`: published figures recomputed from what ships, and from slices built by the schema."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import duckdb
import polars as pl
import pytest
from click.testing import CliRunner

from fleetmark.catalog import load_catalog
from fleetmark.cli import main
from fleetmark.errors import InputError
from fleetmark.model import tables_in
from fleetmark.testing import EPOCH, derive, parse_file, source_rows
from fleetmark.trace_check.check import answers, check, judged, published, query_of
from fleetmark.trace_check.layout import LAYOUTS, files_of

CATALOG = load_catalog()
SAMPLES = Path(__file__).parent.parent / "samples" / "scheduler"
KALOS = (
    "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,submit_time,"
    "start_time,end_time,fail_time,stop_time,duration,queue,gpu_time\n"
)


def in_memory(name: str, *folders: Path) -> pl.DataFrame:
    """The check on frames: the same sources, models and query without a store, which costs seconds."""
    tables: dict[str, list[pl.DataFrame]] = {}
    for file in [f for folder in folders for f in files_of(name, folder)]:
        source = CATALOG.sources[file.source]
        rows, refused = source_rows(source, parse_file(source, file.path, **file.options))
        assert refused.is_empty()
        for table, frame in rows.items():
            tables.setdefault(table, []).append(frame.drop("file_id", "line_no"))
    frames = {table: pl.concat(parts) for table, parts in tables.items()}
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS lake")
        for table in tables_in(query_of(name), name, connection):
            connection.register("rows", derive(CATALOG, frames, table).to_arrow())
            connection.execute(f"CREATE TABLE lake.{table} AS FROM rows")
        return judged(published(name), answers(connection, name))


def found(rows: pl.DataFrame, check_id: str, scope: str) -> dict[str, float | None]:
    chosen = rows.filter((pl.col("id") == check_id) & (pl.col("scope") == scope))
    return dict(chosen.select("metric", "found").iter_rows())


def test_openb_recomputes_every_figure() -> None:
    rows = in_memory("openb", SAMPLES / "openb")
    assert rows["verdict"].unique().to_list() == ["match"]
    assert rows.height == len(published("openb"))
    # Leaving the filters out shows: nodes without GPUs, and pods that were given up.
    assert found(rows, "O1", "gpu_nodes") != found(rows, "O1x", "all")
    alone, all_demand = (found(rows, "W1", s)["p99"] for s in ("scheduled", "with_abandoned"))
    assert alone == pytest.approx(889.64)
    assert all_demand == pytest.approx(1078.89)


def test_a_slice_of_acme_by_its_schema(tmp_path: Path) -> None:
    """Four GPU jobs and a CPU job of Kalos; its duration holds the queue, which the check shows."""
    jobs = (
        ("a", 8, "Pretrain", "COMPLETED", "11:00:00", "11:01:00", "11:10:00", 600),
        ("b", 8, "Evaluation", "FAILED", "11:00:00", "11:00:00", "11:05:00", 300),
        ("c", 8, "Debug", "NODE_FAIL", "11:00:00", "11:00:00", "11:05:00", 300),
        ("d", 16, "Other", "CANCELLED", "11:00:00", "11:00:00", "11:10:00", 600),
        ("e", 0, "Other", "COMPLETED", "11:00:00", "11:00:00", "11:10:00", 600),
    )
    lines = [
        f"{job},u,1,{gpus},64,1,1,{kind},{state},"
        + ",".join(f"2023-05-17 {t}+00:00" for t in (submit, start, end))
        + f",,,{seconds},0,0\n"
        for job, gpus, kind, state, submit, start, end, seconds in jobs
    ]
    (tmp_path / "trace_kalos.csv").write_text(KALOS + "".join(lines))
    rows = in_memory("acme", tmp_path)
    assert found(rows, "A1", "kalos") == {"completed": 25, "cancelled": 25, "failed": 50}
    # GPU-s: 4800, 2400, 2400, 9600 of 19200. NODE_FAIL left out, failed would be 12.5.
    assert found(rows, "A2", "kalos") == {"completed": 25, "cancelled": 50, "failed": 25}
    assert found(rows, "A3_jobs", "kalos") == {
        "eval": 25,
        "pretrain": 25,
        "debug": 25,
        "other": 25,
    }
    assert found(rows, "A6", "kalos") == {"jobs": 5, "gpu_jobs": 4}
    assert found(rows, "A7", "kalos")["gpu_h_by_duration"] == pytest.approx(19200 / 3600)
    # By its times job a ran 540 s, not 600: 8 x 60 GPU-s of duration are queue.
    attempts = parse_file(CATALOG.sources["acme_trace"], tmp_path / "trace_kalos.csv").tables
    by_time = attempts["job_attempt"].lazy().select(pl.col("req_gpus") * pl.col("elapsed_s")).sum()
    assert by_time.collect().item() == 19200 - 480
    assert found(rows, "A8", "kalos") == {
        "failed_only_gpu_h": pytest.approx(2400 / 3600),
        "failed_all_gpu_h": pytest.approx(4800 / 3600),
    }
    assert set(rows.filter(pl.col("scope") == "seren")["verdict"]) == {"no_data"}


def test_philly_first_attempts_count() -> None:
    ran = CliRunner().invoke(main, ["check-trace", "philly", str(SAMPLES / "philly"), "--json"])
    assert ran.exit_code == 0
    rows = pl.read_json(ran.output.encode())
    assert set(rows.filter(pl.col("id") == "P0")["verdict"]) == {"match"}
    assert set(rows.filter(pl.col("id") != "P0")["verdict"]) == {"no_data"}


@pytest.mark.long
def test_openb_through_a_store() -> None:
    rows = check("openb", SAMPLES / "openb", EPOCH)
    assert rows["verdict"].unique().to_list() == ["match"]


@pytest.mark.long
def test_helios_recomputes_and_needs_its_exclusion(tmp_path: Path) -> None:
    rows = check("helios", SAMPLES / "helios", EPOCH).filter(pl.col("id") != "X2")
    assert rows["verdict"].unique().to_list() == ["match"]
    # Two of 26 virtual clusters are too few to tell an outage: 10 May stays in, and the figure is another.
    for vc in ("vc6YE", "vcSoL"):
        folder = tmp_path / "Earth_vcs" / vc
        folder.mkdir(parents=True)
        shutil.copy(
            next((SAMPLES / "helios").glob(f"earth_{vc}_*")), folder / "cluster_sequence_vc.csv.gz"
        )
    shutil.copy(SAMPLES / "helios" / "Earth_gpu_number.csv", tmp_path / "Earth_vcs")
    part = check("helios", tmp_path, EPOCH)
    assert found(part, "H1", "vc6YE")["q1"] == pytest.approx(91.8, abs=0.05)
    assert found(part, "I1", "vc6YE")["idle_while_pending"] == pytest.approx(3402, abs=0.5)


def test_the_place_of_a_file_states_cluster_and_virtual_cluster(tmp_path: Path) -> None:
    for name in (
        "Earth_vcs/vcX/cluster_sequence_vc.csv",
        "data/Venus/cluster_log.csv",
        "data/Venus/cluster_gpu_number.csv",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert [(f.source, dict(f.options)) for f in files_of("helios", tmp_path)] == [
        ("helios_vc", {"vc": "vcX", "cluster": "earth"}),
        ("helios_gpu_number", {"cluster": "venus"}),
        ("helios_trace", {"cluster": "venus"}),
    ]


def test_wrong_use_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="choose acme, helios, openb, philly"):
        check("borg", tmp_path, EPOCH)
    with pytest.raises(InputError, match="looked for openb_node_list_all_node"):
        check("openb", tmp_path, EPOCH)


def test_figures_equal_the_list_of_published_values() -> None:
    """samples/scheduler/published_values.csv was read off the papers' figures; one spelling, two files."""
    known = {(f.id, f.scope, f.metric): f.value for name in LAYOUTS for f in published(name)}
    names = {
        "nodes": ("all", "nodes"), "gpus": ("all", "gpus"), "pods": ("all", "pods"),
        "vcpus_on_gpu_nodes": ("gpu_nodes", "cpus"),
    }  # fmt: skip
    shares = {"gpu_job_share": "", "gpu_time_share": "", "job_count_share": "A3_jobs"}
    compared = 0
    with (SAMPLES / "published_values.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            metric, value = row["metric"], row["published_value"]
            if row["check_id"] == "H1":
                continue  # its quartiles stand in helios/published_fig4_quartiles.csv
            if metric in names:
                key = (row["check_id"], *names[metric])
            else:
                kind, part = metric.rsplit("_", 1)
                id_ = shares[kind] or row["check_id"]
                id_ = "A3_time" if (row["check_id"], kind) == ("A3", "gpu_time_share") else id_
                key = (id_, row["scope"].lower(), part.lower())
            assert known[key] == float(value), key
            compared += 1
    assert compared == 20
    with (SAMPLES / "helios" / "published_fig4_quartiles.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for metric in ("q1", "median", "q3"):
                assert known["H1", row["vc"], metric] == float(row[f"{metric}_pct"])
