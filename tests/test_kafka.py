"""A real Apache Kafka; consumers, broker, catalog and the network killed under load: every message once, none lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fleetmark.errors import InputError
from fleetmark.live.status import load_all
from fleetmark.store import Store
from fleetmark.store_place import Place
from tests.access_line import request_id
from tests.services import kafka, postgres
from tests.services.kafka_traffic import LINES_PER_S, Traffic
from tests.services.wire import Wire

SEED = 20261130
SETTINGS = """
[[inputs]]
name = "access"
kind = "kafka"
source = "s3_access"
brokers = ["{address}"]
topics = ["access"]
interval_s = 0.3
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Broker]:
    if why := kafka.missing():
        pytest.skip(f"no Apache Kafka: {why}")
    with kafka.Broker(tmp_path_factory.mktemp("kafka")) as started:
        yield started


@dataclass(frozen=True)
class Target:
    """Where the rows go: a store of this machine, or one whose catalog is a server's."""

    folder: Path
    place: Place = field(default_factory=Place)
    server: postgres.Postgres | None = None
    catalog_wire: Wire | None = None

    @property
    def environment(self) -> dict[str, str]:
        if self.server is None:
            return {}
        return {
            "FLEETMARK_LAKE_CATALOG": self.place.catalog,
            "FLEETMARK_LAKE_DATA": self.place.data,
            "FLEETMARK_LAKE_PASSWORD": '{ env = "CATALOG_PASSWORD" }',
            "CATALOG_PASSWORD": self.place.password,
        }


class Consumers:
    """Two processes of one group, as `fleetmark run` starts them, and starts again when they end."""

    def __init__(self, target: Target, broker: kafka.Broker) -> None:
        folder = target.folder
        self.store = folder / "store"
        self._environment = {**os.environ, **target.environment}
        config = folder / "fleetmark.toml"
        config.write_text(SETTINGS.format(address=f"127.0.0.1:{broker.wire}"))
        self._command = [
            sys.executable, "-m", "fleetmark.cli", "run", "--part", "kafka:access", "--store",
            str(self.store), "--config", str(config),
        ]  # fmt: skip
        self._log = folder / "consumers.log"
        self._running: list[subprocess.Popen[bytes]] = []
        for _ in range(2):
            self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._running.append(
                subprocess.Popen(self._command, stdout=log, stderr=log, env=self._environment)
            )

    def start_ended(self) -> None:
        """One that met a catalog in the middle of its restart has ended, as it says it will."""
        for process in [p for p in self._running if p.poll() is not None]:
            self._running.remove(process)
            self.start()

    def kill_one(self, chance: random.Random) -> None:
        victim = self._running.pop(chance.randrange(len(self._running)))
        victim.kill()
        victim.wait()

    def stop(self) -> None:
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(60) for process in self._running] == [0] * len(self._running)


def stored(target: Target) -> tuple[list[Any], int, int]:
    """Request ids in order; messages and lost messages that the positions count."""
    try:
        store = Store(target.folder / "store", place=target.place, read_only=True)
    except InputError:  # none yet
        return [], 0, 0
    with store as opened:
        if not opened.has_table("storage_access"):
            return [], 0, 0
        ids = opened.connection.execute(
            "SELECT request_id FROM lake.storage_access ORDER BY request_id"
        ).fetchall()
        counted = opened.connection.execute(
            "SELECT coalesce(sum(message_count), 0), coalesce(sum(lost_count), 0) "
            "FROM lake.stream_position"
        ).fetchone()
    assert counted is not None
    return [row[0] for row in ids], int(counted[0]), int(counted[1])


def wait_for(target: Target, count: int, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if stored(target)[1] >= count:
            return
        time.sleep(0.5)


def kills(
    target: Target, broker: kafka.Broker, strikes: dict[str, int], *, pause_s: float, least: int
) -> None:
    """Strike consumers, broker, catalog and the paths to both at random moments, then compare with what was sent."""
    chance = random.Random(SEED)  # noqa: S311 - chooses what to kill
    order = [name for name, number in strikes.items() for _ in range(number)]
    chance.shuffle(order)
    traffic = Traffic(broker.address, least)
    with Wire(broker.behind, broker.wire) as broker_wire:
        running = Consumers(target, broker)
        wait_for(target, 200, 120)
        assert stored(target)[1] >= 200, "nothing was consumed before the first strike"
        _strike_all(target, broker, broker_wire, running, chance, order, pause_s)
        sent = traffic.stop(180 + least / LINES_PER_S)
        running.start_ended()
        wait_for(target, len(sent), 120 + least / LINES_PER_S)
        running.stop()
    ids, messages, lost = stored(target)
    assert ids == [request_id(number) for number in sent]
    assert (messages, lost) == (len(sent), 0)
    assert len(ids) > 1000


def _strike_all(
    target: Target, broker: kafka.Broker, broker_wire: Wire, running: Consumers,
    chance: random.Random, order: list[str], pause_s: float,
) -> None:  # fmt: skip
    for strike in order:
        time.sleep(chance.uniform(0.5, 2 * pause_s))
        running.start_ended()
        if strike == "broker":
            broker.kill()
            time.sleep(chance.uniform(0.0, 1.0))
            broker.start()
        elif strike == "catalog" and target.server is not None:
            target.server.kill()
            target.server.start()
        elif strike == "broker path":
            _cut(broker_wire, chance)
        elif strike == "catalog path" and target.catalog_wire is not None:
            _cut(target.catalog_wire, chance)
        else:
            assert strike == "consumer"
            running.kill_one(chance)
            running.start()


def _cut(wire: Wire, chance: random.Random) -> None:
    """Half of them go silent first, as when a cable is pulled."""
    if chance.random() < 0.5:
        wire.silence()
        time.sleep(chance.uniform(0.2, 2.0))
    wire.cut()
    time.sleep(chance.uniform(0.0, 1.0))
    wire.restore()


@pytest.mark.services
def test_ten_kills(tmp_path: Path, broker: kafka.Broker) -> None:
    kills(
        Target(tmp_path),
        broker,
        {"consumer": 4, "broker": 2, "broker path": 4},
        pause_s=1.25,
        least=1000,
    )


def wait_for_state(store: Path, states: set[str]) -> None:
    """Until the input says it is in one of these."""
    deadline, found = time.monotonic() + 120, ""
    while time.monotonic() < deadline:
        found = next((s.state for s in load_all(store) if s.name == "access"), "none")
        if found in states:
            return
        time.sleep(0.2)
    raise AssertionError(f"{found}, not {states}")


@pytest.mark.services
def test_a_broker_that_is_away_is_told_and_waited_for(tmp_path: Path, broker: kafka.Broker) -> None:
    with Wire(broker.behind, broker.wire):
        running = Consumers(Target(tmp_path), broker)
        wait_for_state(running.store, {"idle", "working"})
        broker.kill()
        wait_for_state(running.store, {"degraded"})
        broker.start()
        wait_for_state(running.store, {"idle", "working"})
        running.stop()


@pytest.mark.services
@pytest.mark.long
def test_a_hundred_kills_in_an_hour_at_ten_times_its_pace(
    tmp_path: Path, broker: kafka.Broker
) -> None:
    strikes = {"consumer": 60, "broker": 15, "broker path": 25}
    kills(Target(tmp_path), broker, strikes, pause_s=1.6, least=3600 * LINES_PER_S)


@pytest.mark.services
@pytest.mark.long
def test_kills_with_the_catalog_in_postgresql(tmp_path: Path, broker: kafka.Broker) -> None:
    if why := postgres.missing():
        pytest.skip(f"no PostgreSQL: {why}")
    with (
        postgres.Postgres() as server,
        Wire(server.port, kafka.free_port()) as wire,
    ):
        address = server.database("kafka").replace(f"port={server.port}", f"port={wire.port}")
        place = Place(catalog=address, password=server.password, data=str(tmp_path / "data"))
        strikes = {"consumer": 3, "broker": 1, "catalog": 2, "broker path": 1, "catalog path": 3}
        target = Target(tmp_path, place, server, wire)
        kills(target, broker, strikes, pause_s=1.25, least=1000)
