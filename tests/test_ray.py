"""A build on a Ray cluster of two machines: the tables of one process, whatever is lost on the way."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from fleetmark.catalog import load_catalog
from fleetmark.pipeline.build import build
from fleetmark.pipeline.run import ingest
from fleetmark.store import Store
from fleetmark.store_place import Place
from fleetmark.table import quote
from fleetmark.testing import EPOCH
from tests.access_line import access_line
from tests.services import machines, postgres, seaweed

pytestmark = [pytest.mark.services, pytest.mark.long]
PROGRAMS = Path(sys.executable).parent
SAMPLES = Path(__file__).parent.parent / "samples"
MONTHS = ("Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
PORT = "6390"
# One processor each, as the tasks are told; the token lets machines and driver into the cluster.
NODE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "POLARS_MAX_THREADS": "1",
    "RAY_raylet_start_wait_time_s": "300",
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}


@pytest.fixture(scope="module")
def network() -> Iterator[machines.Machines]:
    if not (PROGRAMS / "ray").exists():
        pytest.skip("Ray is not installed: make test-long does that")
    if why := machines.missing() or postgres.missing():
        pytest.skip(why)
    with machines.Machines(2) as started:
        yield started


@pytest.fixture
def place(network: machines.Machines, tmp_path: Path) -> Iterator[tuple[Place, postgres.Postgres]]:
    """Catalog and objects that both machines reach, and nothing else that they share."""
    (tmp_path / "weed").mkdir()
    with (
        postgres.Postgres(machines.HOST) as server,
        seaweed.Seaweed(tmp_path / "weed", machines.HOST) as objects,
    ):
        objects.wait("lake")
        yield (
            Place(
                catalog=server.database("lake"), password=server.password, data="s3://lake/fleet",
                endpoint=objects.endpoint, access_key_id=seaweed.KEY,
                secret_access_key=seaweed.SECRET,
            ),
            server,
        )  # fmt: skip


def fill(store: Store, folder: Path) -> None:
    """Six months of access lines, a job trace and a step trace."""
    catalog = load_catalog()
    store.ensure(catalog.tables.values())
    log = folder / "access.log"
    log.write_text(
        "".join(
            access_line(1000 * month + 31 * hour + day, day=day, minute=hour).replace(
                "Feb/2026", f"{name}/2025"
            )
            + "\n"
            for month, name in enumerate(MONTHS)
            for day in range(1, 31)
            for hour in range(24)
        )
    )
    trace = SAMPLES / "collectives/straggler_whatif/trace-ST.parquet"
    list(ingest(store, catalog, "s3_access", [log], {}, {}, EPOCH))
    list(ingest(store, catalog, "helios_vc", [SAMPLES / "scheduler/helios"], {}, {}, EPOCH))
    list(ingest(store, catalog, "straggler_trace", [trace], {"cluster": "a"}, {}, EPOCH))


def rows(store: Store) -> dict[str, pl.DataFrame]:
    """What every model's table holds, in the order of its grain, without bookkeeping."""
    found = {}
    for name in sorted(store.with_files() & load_catalog().models.keys()):
        table = load_catalog().tables[name]
        kept = ", ".join(quote(c.name) for c in table.columns if not c.volatile)
        order = ", ".join(quote(c) for c in table.grain)
        found[name] = store.connection.execute(
            f"SELECT {kept} FROM lake.{quote(name)} ORDER BY {order}"
        ).pl()
    return found


def wait_for(log: Path, said: str) -> None:
    deadline = time.monotonic() + 300
    while said not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.5)


@contextmanager
def cluster(network: machines.Machines, number: int, logs: Path) -> Iterator[list[int]]:
    """Ray on `number` of the machines, one processor each; the process ids that started it."""
    scratch = tempfile.mkdtemp(prefix="fm-ray-")  # short: Ray's sockets lie in it
    ray, head = str(PROGRAMS / "ray"), network.names[0]
    common = ["--num-cpus=1", "--num-gpus=0", "--object-store-memory=100000000", "--block"]
    running = []
    for name in network.names[:number]:
        place = f"--node-ip-address={network.address(name)}"
        role = [f"--address={network.address(head)}:{PORT}"]
        if name == head:
            role = [
                "--head",
                f"--port={PORT}",
                f"--temp-dir={scratch}",
                "--include-dashboard=false",
            ]
        running.append(
            network.start(
                name, ray, "start", *role, place, *common, log=logs / f"{name}.log", settings=NODE
            )
        )
        wait_for(logs / f"{name}.log", "Ray runtime started")
    try:
        yield [process.pid for process in running]
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
            process.wait(60)
        shutil.rmtree(scratch, ignore_errors=True)


def driver(network: machines.Machines, place: Place, folder: Path) -> subprocess.Popen[bytes]:
    settings = NODE | {
        "FLEETMARK_STORE": str(folder / "machine"),
        "FLEETMARK_LAKE_CATALOG": place.catalog,
        "FLEETMARK_LAKE_DATA": place.data,
        "FLEETMARK_LAKE_ENDPOINT": place.endpoint,
        "FLEETMARK_LAKE_PASSWORD": '{ env = "TEST_PASSWORD" }',
        "FLEETMARK_LAKE_ACCESS_KEY_ID": '{ env = "TEST_KEY" }',
        "FLEETMARK_LAKE_SECRET_ACCESS_KEY": '{ env = "TEST_SECRET" }',
        "TEST_PASSWORD": place.password,
        "TEST_KEY": place.access_key_id,
        "TEST_SECRET": place.secret_access_key,
    }
    head = network.names[0]
    return network.start(
        head, str(PROGRAMS / "fleetmark"), "build", "--engine", f"ray:{network.address(head)}:{PORT}",
        log=folder / "driver.log", settings=settings,
    )  # fmt: skip


def at_work(nodes: list[int]) -> list[int]:
    """Workers that hold a task."""
    return [
        pid for node in nodes for pid, line in machines.descendants(node) if "ray::_run" in line
    ]


def test_a_worker_and_the_catalog_are_lost(
    network: machines.Machines,
    place: tuple[Place, postgres.Postgres],
    tmp_path: Path,
    new_store: Callable[[str], Store],
) -> None:
    where, server = place
    alone = new_store("alone")
    fill(alone, tmp_path)
    build(alone, load_catalog(), {})
    expected = rows(alone)
    with Store(tmp_path / "filler", place=where) as store:
        fill(store, tmp_path)
    with cluster(network, 2, tmp_path) as nodes:
        building = driver(network, where, tmp_path)
        both = set[int]()
        struck = 0
        while building.poll() is None:
            time.sleep(0.5)
            busy = at_work(nodes)
            both |= {n for n in nodes if at_work([n])}
            if len(both) == 2 and not struck:
                os.kill(busy[0], signal.SIGKILL)
                struck = 1
            elif struck == 1 and busy:
                server.kill()
                server.start()
                struck = 2
    said = (tmp_path / "driver.log").read_text()
    assert (building.returncode, struck) == (0, 2), said[-3000:]
    with Store(tmp_path / "filler", place=where) as store:
        found = rows(store)
        assert found.keys() == expected.keys()
        for name, frame in expected.items():
            assert_frame_equal(found[name], frame, rel_tol=1e-9, abs_tol=0)
        assert not any(built.ranges for built in build(store, load_catalog(), {}))
