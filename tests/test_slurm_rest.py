"""slurmrestd: its newest API is found and asked in windows; a stand-in gives recorded answers."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from urllib.parse import parse_qs, urlsplit

import pytest

from fleetmark.catalog import load_catalog
from fleetmark.errors import InputError, ServiceError, ServiceUnreachableError
from fleetmark.live.inputs import Slurm
from fleetmark.live.looks import look_of
from fleetmark.pipeline.pull_slurm import pull_slurm
from fleetmark.pipeline.slurm import SlurmCommands, SlurmRest
from fleetmark.secret import Secret
from fleetmark.settings import Settings
from fleetmark.store import Store

CATALOG = load_catalog()
SAMPLES = files("fleetmark.samples") / "scheduler" / "slurm-22.05"
START, NOW = datetime(2026, 11, 29, 18), datetime(2026, 11, 30, 11)  # noqa: DTZ001 - UTC without zone
Asked = list[tuple[str, dict[str, str]]]


@pytest.fixture
def slurmrestd() -> Iterator[tuple[str, Asked]]:
    """Address of a stand-in and what it was asked. Users without the token are refused."""
    recorded = {
        "/slurmdb/v0.0.38/jobs": "sacct.json.gz",
        "/slurm/v0.0.38/jobs": "squeue.json.gz",
        "/slurm/v0.0.38/nodes": "sinfo.json.gz",
    }
    empty = ("/slurm/v0.0.38/partitions", "/slurm/v0.0.38/reservations")
    offered = [*recorded, *empty, "/slurm/v0.0.37/jobs", "/slurm/v0.0.37/nodes/"]
    asked: Asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked.append((parts.path, {k: v[0] for k, v in parse_qs(parts.query).items()}))
            body = json.dumps({"paths": {path: {} for path in offered}}).encode()
            if parts.path in recorded:
                body = gzip.decompress((SAMPLES / recorded[parts.path]).read_bytes())
            elif parts.path in empty:
                body = json.dumps({parts.path.rpartition("/")[2]: []}).encode()
            known = self.headers.get("X-SLURM-USER-TOKEN") == "secret"
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Nothing: the tests read `asked`."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}", asked
        served.shutdown()


def test_a_pull_gives_attempts_nodes_and_the_queue(
    slurmrestd: tuple[str, Asked], new_store: Callable[[str], Store]
) -> None:
    url, asked = slurmrestd
    token = {"X-SLURM-USER-TOKEN": "secret"}
    with new_store("store") as store:
        with pytest.raises(InputError, match="--from"):
            list(pull_slurm(store, CATALOG, SlurmRest(url, token), {}, None, NOW))
        reports = list(pull_slurm(store, CATALOG, SlurmRest(url, token), {}, START, NOW))
        assert all(report.fine for report in reports)
        counts = {
            table: store.connection.execute(f"SELECT count(*) FROM lake.{table}").fetchone()
            for table in ("job_attempt", "node_state", "queue_snapshot")
        }
        # As `sacct`, `scontrol show node` and `squeue` printed them (samples/scheduler/slurm-22.05).
        assert counts == {"job_attempt": (44,), "node_state": (4,), "queue_snapshot": (5,)}
        windows = [query for path, query in asked if path.startswith("/slurmdb")]
        assert [query["show_duplicates"] for query in windows] == ["true"]
        again = list(pull_slurm(store, CATALOG, SlurmRest(url, token), {}, None, NOW))
        assert {report.what for report in again} == {"slurm_json"}
        assert sum(report.row_count for report in again) == 0


def test_a_refused_pull_is_a_failed_stretch(
    slurmrestd: tuple[str, Asked], new_store: Callable[[str], Store]
) -> None:
    with new_store("store") as store:
        with pytest.raises(ServiceError, match="check user and token"):
            list(pull_slurm(store, CATALOG, SlurmRest(slurmrestd[0]), {}, START, NOW))
        with pytest.raises(ServiceUnreachableError):
            list(pull_slurm(store, CATALOG, SlurmRest("http://127.0.0.1:9"), {}, START, NOW))
        failed = store.connection.execute(
            "SELECT start_ts, end_ts FROM lake.pull_range WHERE status = 'failed'"
        ).fetchall()
        assert failed == [(START, NOW)] * 2


def test_commands_that_are_not_here_say_what_to_do(
    new_store: Callable[[str], Store],
) -> None:
    nowhere = SlurmCommands({"PATH": "/nonexistent"})
    with new_store("store") as store, pytest.raises(ServiceError, match="address of slurmrestd"):
        list(pull_slurm(store, CATALOG, nowhere, {}, START, NOW))


def test_a_live_input_goes_back_at_its_first_look_and_then_goes_on(
    slurmrestd: tuple[str, Asked], new_store: Callable[[str], Store]
) -> None:
    url, asked = slurmrestd
    one = Slurm(name="slurm", url=url, token=Secret(env="JWT"), backfill_h=17)
    look = look_of(one, CATALOG, Settings(environment={"JWT": "secret"}))
    with new_store("store") as store:
        first = look(store, NOW)
        assert first.problem == ""
        # As `sacct` printed them (samples/scheduler/slurm-22.05).
        stored = store.connection.execute("SELECT count(*) FROM lake.job_attempt").fetchone()
        assert stored == (44,)
        later = look(store, NOW + timedelta(minutes=5))
        assert later.problem == ""
        windows = [
            int(query["start_time"]) for path, query in asked if path.endswith("db/v0.0.38/jobs")
        ]
        assert windows[1] - windows[0] == 17 * 3600
        refused = look_of(one, CATALOG, Settings(environment={"JWT": "expired"}))
        with pytest.raises(ServiceError, match="check user and token"):
            refused(store, NOW + timedelta(minutes=10))
