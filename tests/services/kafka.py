"""An Apache Kafka in KRaft mode, one node, from the jars that kafka.sh fetches."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
import uuid
from pathlib import Path
from typing import Self

JARS = Path(os.environ.get("FLEETMARK_TEST_CACHE", "~/.cache/fleetmark-tests")).expanduser()
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},THROUGH://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},THROUGH://127.0.0.1:{wire}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,THROUGH:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.partitions={partitions}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
log.flush.interval.messages=1
"""
_QUIET = """
Configuration:
  Appenders:
    Console: {name: OUT, PatternLayout: {Pattern: "%d %p %m%n"}}
  Loggers:
    Root: {level: ERROR, AppenderRef: [{ref: OUT}]}
"""


def missing() -> str:
    """Why no broker can be had here; '' when one can."""
    if not shutil.which("java"):
        return "java is not installed"
    ran = subprocess.run(
        ["bash", str(Path(__file__).with_name("kafka.sh")), str(JARS)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.stderr.strip() or "kafka.sh failed" if ran.returncode else ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Broker:
    """Started, killed and started again on the same port and data. A context manager.

    Whoever asks at `behind` is told to come to `wire`, where a `Wire` may lead there.
    """

    def __init__(self, folder: Path, partitions: int = 3) -> None:
        self.port, self.behind, self.wire = free_port(), free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._folder = folder
        (folder / "log4j2.yaml").write_text(_QUIET)
        (folder / "server.properties").write_text(
            _SETTINGS.format(
                port=self.port,
                behind=self.behind,
                wire=self.wire,
                controller=free_port(),
                folder=folder,
                partitions=partitions,
            )
        )
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._java(
            "kafka.tools.StorageTool", "format", "-t", cluster, "-c", "server.properties"
        ).wait()
        self._process: subprocess.Popen[bytes] | None = None

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        jars = next(JARS.glob("kafka-*/lib"))
        command = [
            "java",
            "-Xmx384m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            f"{jars}/*",
            "-Dlog4j2.configurationFile=log4j2.yaml",
        ]
        with (self._folder / "out.log").open("ab") as out:
            return subprocess.Popen(
                [*command, *arguments], cwd=self._folder, stdout=out, stderr=out
            )

    def start(self) -> None:
        self._process = self._java("kafka.Kafka", "server.properties")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.2)
        raise TimeoutError((self._folder / "out.log").read_text()[-2000:])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
